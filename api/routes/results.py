"""Finished results: judged, priced, and made into artifacts; of a job, or posted."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi import Query as QueryParameter

from api.access import Caller
from api.forms import Fields
from api.jobs.desk import Desk
from api.openapi import ANSWERED_LATER, JOB_PROBLEMS, result_body
from api.problems import NotFoundError
from api.routes.callers import TheCaller, TheDesk
from api.routes.catalogue import Named, named
from api.routes.jobs import JobId, succeeded_job
from api.routes.optimize import answered
from api.submissions import Query, take_in, task_of, use_stored
from optimizer.export.registry import emitter_descriptions, emitter_names

router = APIRouter(tags=["results"])

CHECKED = Fields(required=("file",), optional=("model",), options=False)
PRICED = Fields(required=("file",), options=False)
OpModel = Annotated[str | None, QueryParameter(description="backend to ask (default: the result's own)", max_length=64)]


@router.post("/v1/check", **result_body("Verify a result again, from scratch", CHECKED))
async def check(request: Request, desk: TheDesk, caller: TheCaller, opmodel: OpModel = None) -> Response:
    query = Query.of(request, others=("opmodel",), options=())
    task = task_of(request, query, "check", opmodel=opmodel)
    return await answered(request, desk, query, await take_in(request, desk, caller, query, task, CHECKED))


@router.post("/v1/price", **result_body("Verify and price any annotated graph", PRICED))
async def price(request: Request, desk: TheDesk, caller: TheCaller) -> Response:
    query = Query.of(request, options=())
    task = task_of(request, query, "price")
    return await answered(request, desk, query, await take_in(request, desk, caller, query, task, PRICED))


@router.get(
    "/v1/jobs/{job_id}/check", summary="Verify a job's result, and that it computes the model", **ANSWERED_LATER
)
async def check_job(
    request: Request, desk: TheDesk, caller: TheCaller, job_id: JobId, opmodel: OpModel = None
) -> Response:
    query = Query.of(request, others=("opmodel",), options=())
    return await _of_job(request, desk, caller, query, job_id, "check", opmodel=opmodel)


@router.get(
    "/v1/jobs/{job_id}/artifacts",
    summary="What can be made of a job's result",
    response_model=list[Named],
    responses=JOB_PROBLEMS,
)
async def artifacts(desk: TheDesk, caller: TheCaller, job_id: JobId) -> list[Named]:
    await succeeded_job(desk, job_id, caller.owner)
    return named(emitter_descriptions())


@router.get(
    "/v1/jobs/{job_id}/artifacts/{name}",
    summary="One artifact of a job's result: a file, or a ZIP archive of several",
    **ANSWERED_LATER,
)
async def artifact(
    request: Request, desk: TheDesk, caller: TheCaller, job_id: JobId, name: Annotated[str, Path(max_length=64)]
) -> Response:
    query = Query.of(request, options=())
    if name not in emitter_names():
        raise NotFoundError(f"there is no artifact '{name}'", node="name", alternatives=emitter_names())
    return await _of_job(request, desk, caller, query, job_id, "artifact", emitter=name)


async def _of_job(
    request: Request, desk: Desk, caller: Caller, query: Query, job_id: str, kind: str, **arguments: str | None
) -> Response:
    """A task with the result of a job and its model."""
    job = await succeeded_job(desk, job_id, caller.owner)
    assert job.result is not None
    task = task_of(request, query, kind, **arguments)
    found = await use_stored(request, desk, caller, query, task, (job.result, *job.bodies))
    return await answered(request, desk, query, found)
