"""A limit on request bodies that holds while they stream in."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from optimizer.errors import LimitError


class BodyLimit:
    """ASGI middleware: `receive` raises LimitError once more than `max_bytes` of body have come."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._app(scope, self._limited(scope, receive), send)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        headers = dict(scope["headers"])
        announced = headers.get(b"content-length", b"")
        seen = 0

        async def limited() -> Message:
            nonlocal seen
            if announced.isdigit() and int(announced) > self._max_bytes:
                raise self._error()
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_bytes:
                raise self._error()
            return message

        return limited

    def _error(self) -> LimitError:
        return LimitError(f"the body exceeds {self._max_bytes} bytes", node="body", limit=self._max_bytes)
