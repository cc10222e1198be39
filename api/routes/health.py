"""Is the service alive, would it take work, and what has it done?"""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from api.openapi import CALL_PROBLEMS
from api.problems import RETRY, problem
from api.routes.callers import TheDesk, TheGate
from optimizer.process.version import __version__

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process answers")
async def healthz() -> dict[str, str]:
    return {"status": "ok", "version": __version__}


@router.get(
    "/readyz",
    summary="A request would be taken now, and worked on by a process that is ready for it",
    response_model=dict[str, str],
    responses={503: {"description": "no worker is warm, no room for another body, or the service is about to end"}},
)
async def readyz(request: Request, desk: TheDesk) -> Response | dict[str, str]:
    if desk.is_draining:
        return problem(request, status=503, code="draining", detail="the service is about to end", headers=RETRY)
    if not desk.warm:
        return problem(request, status=503, code="not-ready", detail="no worker is warm yet", headers=RETRY)
    if not request.app.state.spool.has_room:
        detail = "as many bodies are on their way as are taken at once"
        return problem(request, status=503, code="busy", detail=detail, headers=RETRY)
    return {"status": "ready"}


@router.get("/metrics", summary="Figures for Prometheus", response_class=Response, responses=CALL_PROBLEMS)
async def metrics(request: Request, desk: TheDesk, gate: TheGate) -> Response:
    gate.check_onlooker(request)
    return Response(desk.metrics.text(), media_type=CONTENT_TYPE_LATEST)
