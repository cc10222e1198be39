"""Every request has an id, a line in the log and its place in the metrics."""

from __future__ import annotations

import re
import secrets
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.metrics import Metrics
from optimizer.process import logs

_log = logs.room("service")

HEADER = b"x-request-id"
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
UNKNOWN_ROUTE = "unknown"
SECURE_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"private, no-cache"),
)
NO_SCRIPT = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
"""For whatever is none of our pages: a browser that is sent there runs nothing of it."""


class RequestLog:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        began = time.monotonic()
        status = 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                extra = [(HEADER, request_id.encode()), *SECURE_HEADERS, NO_SCRIPT]
                message["headers"] = [*message["headers"], *((k, v) for k, v in extra if k not in present)]
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            self._note(scope, request_id, status, time.monotonic() - began)

    def _note(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route: Any = scope.get("route")
        path = getattr(route, "path", UNKNOWN_ROUTE)
        method = scope["method"] if route is not None else UNKNOWN_ROUTE
        self._metrics.requests.labels(method, path, str(status)).inc()
        self._metrics.request_seconds.labels(path).observe(seconds)
        told = scope.get("state", {})
        _log.info(
            "request",
            request_id=request_id,
            method=scope["method"][:16],
            route=path,
            status=status,
            seconds=round(seconds, 4),
            **{name: told[name] for name in ("owner", "job", "model", "options") if name in told},
        )


def _request_id(scope: Scope) -> str:
    """The client's own id, if it is one that can stand in a log, else a new one."""
    given = next((value for name, value in scope["headers"] if name == HEADER), b"")
    return given.decode("ascii") if _GIVEN.fullmatch(given) else secrets.token_hex(8)
