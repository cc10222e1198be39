"""Answers whose bytes lie in the store."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.jobs.contents import GZIP, Content
from api.jobs.desk import Desk
from api.jobs.records import Outcome

HTML, JSON = "text/html", "application/json"
SANDBOX = (
    "sandbox allow-scripts allow-popups; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data:"
)
"""Of a page that is an artifact: it runs, but as a stranger to this service."""
REFUSED = ("q=0", "q=0.0", "q=0.00", "q=0.000")
"""Weights that say that an encoding is not wanted."""


class ContentAnswer(Response):
    """A content, sent piece by piece, compressed as it lies there if the client takes that."""

    def __init__(self, desk: Desk, content: Content, as_stored: bool, headers: Mapping[str, str]) -> None:
        super().__init__(headers=dict(headers))
        size = content.stored_bytes if as_stored else content.size_bytes
        self.headers["content-length"] = str(size)
        if as_stored and content.encoding == GZIP:
            self.headers["content-encoding"] = GZIP
            self.headers["vary"] = "Accept-Encoding"
        self._desk = desk
        self._content = content
        self._as_stored = as_stored

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self._desk.pieces(self._content.id, self._content.encoding, self._as_stored):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class HeadAsGet:
    """ASGI middleware: HEAD is answered as GET, and the server leaves the body out.

    Not for events, which would be sent to nobody for as long as a job takes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD" and not scope["path"].endswith("/events"):
            # A copy: the server still has to know what was asked for.
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


async def answer_of(request: Request, desk: Desk, outcome: Outcome, headers: Mapping[str, str]) -> Response:
    """A result as the answer to a request; 304 if the client has it already."""
    content = await desk.call(desk.store.contents.get, outcome.result)
    is_packed = content.encoding == GZIP and _takes_gzip(request)
    # What is sent in two encodings has two tags (RFC 9110, 8.8.3.3).
    tag = f'"{content.sha256}{f"-{GZIP}" if is_packed else ""}"'
    sent = {"etag": tag, **headers}
    known = {word.strip().removeprefix("W/") for word in request.headers.get("if-none-match", "").split(",")}
    if known & {tag, "*"}:
        return Response(status_code=304, headers={**sent, "vary": "Accept-Encoding"})
    sent["content-type"] = media_type = str(outcome.facts["media_type"])
    if media_type.startswith(HTML):
        sent["content-security-policy"] = SANDBOX
    elif media_type != JSON:
        sent["content-disposition"] = f'attachment; filename="{outcome.facts["file_name"]}"'
    return ContentAnswer(desk, content, is_packed or content.encoding != GZIP, sent)


def _takes_gzip(request: Request) -> bool:
    words = (word.partition(";") for word in request.headers.get("accept-encoding", "").lower().split(","))
    return any(name.strip() in (GZIP, "*") and rest.replace(" ", "") not in REFUSED for name, _, rest in words)
