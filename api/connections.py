"""Connections that neither stay for nothing nor become too many.

uvicorn ends a connection that is idle between two requests. This protocol also ends one whose head does not arrive,
whose answer is not read, which goes on sending what was refused long ago, or which does not close; it takes only so
many connections in all and from one address; and it answers what is not HTTP with a problem document. How fast a body
must come is the spool's to say.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from api.problems import MEDIA_TYPE, RETRY_SECONDS, document
from api.settings import Settings

STATE_KEY = "connections"
"""Of the lifespan's state, under which the protocol finds what follows."""
CHECK_SECONDS = 0.5
"""Between two looks at a connection."""


class Connections:
    """How many connections are open, and the limits they have."""

    def __init__(self, settings: Settings) -> None:
        self.header_seconds = settings.header_seconds
        self.stall_seconds = settings.stall_seconds
        self.idle_seconds = settings.idle_seconds
        self.body_seconds = settings.body_seconds
        self._most = settings.max_connections
        self._most_of_a_peer = settings.max_peer_connections
        self._open: dict[GuardedProtocol, str] = {}
        """The address of each, in the order in which they came."""
        self._by_peer: Counter[str] = Counter()

    def admit(self, connection: GuardedProtocol, peer: str) -> str | None:
        """Take in a connection of this address, or tell why not. Where there are too many, the one that has been
        without a request for longest makes room."""
        if self._by_peer[peer] >= self._most_of_a_peer:
            return f"{self._most_of_a_peer} connections of this address are open already"
        if len(self._open) >= self._most:
            unused = next((c for c in self._open if c.is_without_request), None)
            if unused is None:
                return f"{self._most} requests are under way already"
            self.remove(unused)
            unused.transport.abort()
        self._open[connection] = peer
        self._by_peer[peer] += 1
        return None

    def remove(self, connection: GuardedProtocol) -> None:
        """Forget a connection; one that is not known is none of ours."""
        peer = self._open.pop(connection, None)
        if peer is not None:
            self._by_peer[peer] -= 1
            if not self._by_peer[peer]:
                del self._by_peer[peer]


class GuardedProtocol(H11Protocol):
    """One connection under the limits of `Connections`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._all = cast(Connections, self.app_state[STATE_KEY])
        self._timer: asyncio.TimerHandle | None = None
        self._phase = ""
        self._since = 0.0
        self._answering: tuple[RequestResponseCycle, float] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        refusal = self._all.admit(self, self.client[0] if self.client else "")
        if refusal is not None:
            self._answer(503, "busy", refusal, f"retry-after: {RETRY_SECONDS}\r\n")
            return
        self._since = self.loop.time()
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._all.remove(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)

    @property
    def is_without_request(self) -> bool:
        """Whether no request has arrived, or none since the last was answered."""
        return self.cycle is None or self.cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        self._answer(400, "bad-request", msg)

    def _answer(self, status: int, code: str, detail: str, headers: str = "") -> None:
        """A problem document that is the connection's last word."""
        body = document(status, code, detail, "")
        reason = {400: "Bad Request", 408: "Request Timeout", 503: "Service Unavailable"}[status]
        head = (
            f"HTTP/1.1 {status} {reason}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n"
            f"{headers}connection: close\r\n\r\n"
        )
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            self.transport.write(head.encode("ascii") + body)
        if cycle is not None:
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.close()

    # -- limits of time ----------------------------------------------------------------------------------------
    def _check(self) -> None:
        """End the connection if it has been in its phase for too long; else look again later."""
        self._timer = self.loop.call_later(CHECK_SECONDS, self._check)
        phase, now = self._phase_now(), self.loop.time()
        if self._answers_too_long(now):
            self.transport.abort()
        if phase != self._phase:
            self._phase, self._since = phase, now
            return
        limit = self._limit(phase)
        if limit is None or now - self._since < limit:
            return
        if phase == "head":
            self._answer(408, "too-slow", f"the head of the request took longer than {limit:g} s")
        elif phase == "refused":
            self.transport.close()
        else:
            self.transport.abort()

    def _phase_now(self) -> str:
        """What is awaited of the client: its `head`, that it reads (`reading`), ends what nobody wants (`refused`), or
        closes (`closing`); empty: nothing that this class limits."""
        if self.transport.is_closing():
            return "closing"
        if self.flow.write_paused:
            return "reading"
        if self.cycle is not None and self.cycle.response_complete and self.conn.their_state is h11.SEND_BODY:
            return "refused"
        if self.conn.their_state is h11.IDLE and self.timeout_keep_alive_task is None:
            return "head"
        return ""

    def _answers_too_long(self, now: float) -> bool:
        """Whether the client has been taking an answer, bit by bit, for longer than any may."""
        cycle = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            self._answering = None
            return False
        if self._answering is None or self._answering[0] is not cycle:
            self._answering = cycle, now
        return now - self._answering[1] > self._all.body_seconds

    def _limit(self, phase: str) -> float | None:
        """Seconds; None: no limit."""
        return {
            "head": self._all.header_seconds,
            "reading": self._all.stall_seconds,
            "refused": self._all.idle_seconds,
            "closing": self._all.idle_seconds,
        }.get(phase)


class OneLength:
    """ASGI middleware: a request whose length is told in two ways is refused and its connection closed.

    A proxy in front might think that it ends elsewhere, and take the rest for somebody else's request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _ambiguous(scope):
            await self._app(scope, receive, send)
            return
        body = document(400, "bad-request", "the length of the body is told in two ways", scope["path"])
        headers = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def _ambiguous(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names:
        return False
    return b"content-length" in names or scope["http_version"] == "1.0"
