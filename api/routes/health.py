"""Is the service alive, and would it take work?"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.problems import problem
from optimizer import __version__

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process answers")
async def healthz() -> dict[str, str]:
    return {"status": "ok", "version": __version__}


@router.get(
    "/readyz",
    summary="A request would be taken now",
    response_model=dict[str, str],
    responses={503: {"description": "every worker is busy and the queue is full"}},
)
async def readyz(request: Request) -> Response | dict[str, str]:
    if request.app.state.pool.has_room:
        return {"status": "ready"}
    detail = "every worker is busy and the queue is full"
    return problem(request, 503, "busy", detail, {"Retry-After": "5"})
