"""The HTTP service: `create_app` is the only entrance."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api import problems
from api.answers import HeadAsGet
from api.connections import STATE_KEY, Connections, OneLength
from api.jobs.desk import Desk
from api.request_log import RequestLog
from api.routes import catalogue, health, jobs, optimize, page, results
from api.settings import Settings
from api.spool import Spool
from optimizer.process import logs
from optimizer.process.version import __version__

GZIP_MIN_BYTES = 1000
GZIP_LEVEL = 4


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; settings, and what is logged, default to the environment's.

    Its worker processes live as long as it serves.
    """
    if settings is None:
        logs.configure(logs.LogSettings.parse(os.environ.get(logs.VARIABLE, "")))
    chosen = Settings.from_environment() if settings is None else settings
    desk = Desk(chosen)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        app.state.spool = Spool(chosen)
        await desk.open()
        try:
            yield {STATE_KEY: Connections(chosen)}
        finally:
            await desk.close()
            app.state.spool.close()

    app = FastAPI(
        title="ttopt",
        version=__version__,
        description="Chooses tensor layouts, shardings and op configs for TTNN graphs on Tenstorrent boards.",
        lifespan=lifespan,
        # They would answer with an address made of what the client says the host is.
        redirect_slashes=False,
        # Their pages load scripts of others.
        docs_url=None,
        redoc_url=None,
    )
    app.state.settings = chosen
    app.state.desk = desk
    app.add_middleware(GZipMiddleware, minimum_size=GZIP_MIN_BYTES, compresslevel=GZIP_LEVEL)
    app.add_middleware(OneLength)
    app.add_middleware(RequestLog, metrics=desk.metrics)
    app.add_middleware(HeadAsGet)
    if chosen.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(map(str, chosen.trusted_proxies)))
    problems.install(app)
    app.state.routers = [part.router for part in (health, optimize, jobs, results, catalogue, page)]
    for router in app.state.routers:
        app.include_router(router)
    return app
