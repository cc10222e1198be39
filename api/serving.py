"""The service on a port: the application behind uvicorn, with the limits that belong to connections."""

from __future__ import annotations

import os
import resource

import uvicorn

from api.app import create_app
from api.connections import GuardedProtocol
from api.settings import PREFIX, Settings

HEAD_BYTES = 64 * 1024
"""Of a request's head that has not arrived whole."""
OTHER_DESCRIPTORS = 256
"""Of libraries, logs and modules."""


def serve(host: str, port: int, workers: int | None = None) -> None:
    """Serve until a signal ends it. Settings come from the environment; `workers` counts more than its own."""
    given = {} if workers is None else {PREFIX + "WORKERS": str(workers)}
    settings = Settings.from_environment({**os.environ, **given})
    config = uvicorn.Config(
        create_app(settings),
        host=host,
        port=port,
        log_level="info",
        http=GuardedProtocol,
        ws="none",
        h11_max_incomplete_event_size=HEAD_BYTES,
        loop="asyncio",
        timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]
    )
    _allow_descriptors(settings)
    uvicorn.Server(config).run()


def _allow_descriptors(settings: Settings) -> None:
    """Raise this process's limit of open files to what the settings can need, as far as it may be raised."""
    needed = settings.max_connections + 2 * settings.max_uploads + settings.workers + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
