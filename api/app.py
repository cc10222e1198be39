"""The HTTP service: `create_app` is the only entrance."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from api import problems
from api.connections import STATE_KEY, Connections, OneLength
from api.routes import health, optimize
from api.settings import Settings
from api.spool import Spool
from api.workers import WorkerPool
from optimizer import __version__, logs

GZIP_MIN_BYTES = 1000
GZIP_LEVEL = 4
"""Annotated graphs compress 20-fold already at a low level, in a tenth of the time of the highest."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; settings, and what is logged, default to the environment's.

    Its worker processes live as long as it serves.
    """
    if settings is None:
        logs.configure(logs.LogSettings.parse(os.environ.get(logs.VARIABLE, "")))
    chosen = Settings.from_environment() if settings is None else settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        pool = WorkerPool(chosen.workers, chosen.queue_limit, chosen.memory_of_a_worker)
        app.state.pool = pool
        app.state.spool = Spool(chosen)
        pool.start()
        try:
            yield {STATE_KEY: Connections(chosen)}
        finally:
            pool.close()
            app.state.spool.close()

    app = FastAPI(
        title="ttopt",
        version=__version__,
        description="Chooses tensor layouts, shardings and op configs for TTNN graphs on Tenstorrent boards.",
        lifespan=lifespan,
        # They would answer with an address made of what the client says the host is.
        redirect_slashes=False,
    )
    app.state.settings = chosen
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_MIN_BYTES, compresslevel=GZIP_LEVEL)
    app.add_middleware(OneLength)
    problems.install(app)
    app.include_router(health.router)
    app.include_router(optimize.router)
    return app
