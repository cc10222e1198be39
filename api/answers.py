"""Answers whose bytes lie in the store."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

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


async def answer_of(request: Request, desk: Desk, outcome: Outcome, headers: Mapping[str, str]) -> Response:
    """A result as the answer to a request; 304 if the client has it already."""
    content = await desk.call(desk.store.contents.get, outcome.result)
    tag = f'"{content.sha256}"'
    sent = {"etag": tag, **headers}
    if tag in (word.strip() for word in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=sent)
    sent["content-type"] = media_type = str(outcome.facts["media_type"])
    if media_type.startswith(HTML):
        sent["content-security-policy"] = SANDBOX
    elif media_type != JSON:
        sent["content-disposition"] = f'attachment; filename="{outcome.facts["file_name"]}"'
    as_stored = content.encoding != GZIP or _takes_gzip(request)
    return ContentAnswer(desk, content, as_stored, sent)


def _takes_gzip(request: Request) -> bool:
    words = (word.partition(";") for word in request.headers.get("accept-encoding", "").lower().split(","))
    return any(name.strip() in (GZIP, "*") and rest.replace(" ", "") not in REFUSED for name, _, rest in words)
