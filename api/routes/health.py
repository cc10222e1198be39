"""Is the service alive, and would it take work?"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.problems import RETRY, problem
from optimizer import __version__

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process answers")
async def healthz() -> dict[str, str]:
    return {"status": "ok", "version": __version__}


@router.get(
    "/readyz",
    summary="A request would be taken now",
    response_model=dict[str, str],
    responses={503: {"description": "no worker, no place in the queue, or no room for another body"}},
)
async def readyz(request: Request) -> Response | dict[str, str]:
    if not request.app.state.pool.has_room:
        detail = "every worker is busy and the queue is full"
    elif not request.app.state.spool.has_room:
        detail = "as many bodies are on their way as are taken at once"
    else:
        return {"status": "ready"}
    return problem(request, 503, "busy", detail, RETRY)
