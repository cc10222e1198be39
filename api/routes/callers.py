"""What routes ask of a request before they do anything for it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.access import Caller, Gate
from api.jobs.desk import Desk


async def _desk(request: Request) -> Desk:
    desk: Desk = request.app.state.desk
    return desk


TheDesk = Annotated[Desk, Depends(_desk)]


async def _gate(request: Request, desk: TheDesk) -> Gate:
    if desk.gate.is_stale:
        await desk.call(desk.gate.refresh)
    return desk.gate


TheGate = Annotated[Gate, Depends(_gate)]


async def _caller(request: Request, gate: TheGate) -> Caller:
    caller = gate.admit(request)
    request.state.owner = caller.owner
    return caller


TheCaller = Annotated[Caller, Depends(_caller)]
"""Also keeps out those without a key, and those who ask too often."""
