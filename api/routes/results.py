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
from api.routes.jobs import JOB_ID, JobId, succeeded_job
from api.routes.optimize import answered
from api.submissions import Query, take_in, task_of, use_stored
from optimizer.export.registry import emitter_descriptions, emitter_names

router = APIRouter(tags=["results"])

CHECKED = Fields(required=("file",), optional=("model",), options=False)
COMPARED = Fields(required=("first", "second"), options=False)
PRICED = Fields(required=("file",), options=False)
OpName = Annotated[str, QueryParameter(description="id or name of an op, or of a node of its model", max_length=1000)]
Recorded = Annotated[bool, QueryParameter(description="only what the result says; solve nothing again")]
OtherJob = Annotated[str, QueryParameter(pattern=JOB_ID, description="id of the other job")]
OpModel = Annotated[str | None, QueryParameter(description="backend to ask (default: the result's own)", max_length=64)]


@router.post("/v1/check", **result_body("Verify a result again, from scratch", CHECKED))
async def check(request: Request, desk: TheDesk, caller: TheCaller, opmodel: OpModel = None) -> Response:
    query = Query.of(request, others=("opmodel",), options=())
    task = task_of(request, query, "check", opmodel=opmodel)
    return await answered(request, desk, query, await take_in(request, desk, caller, query, task, CHECKED))


@router.post("/v1/explain", **result_body("Why one op has its layout, and what the others would have cost", PRICED))
async def explain(
    request: Request, desk: TheDesk, caller: TheCaller, op: OpName, recorded: Recorded = False
) -> Response:
    query = Query.of(request, others=("op", "recorded"), options=())
    task = task_of(request, query, "explain", op=op, recorded=recorded)
    return await answered(request, desk, query, await take_in(request, desk, caller, query, task, PRICED))


@router.post("/v1/diff", **result_body("Two results side by side", COMPARED))
async def diff(request: Request, desk: TheDesk, caller: TheCaller) -> Response:
    query = Query.of(request, options=())
    task = task_of(request, query, "diff")
    return await answered(request, desk, query, await take_in(request, desk, caller, query, task, COMPARED))


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


@router.get("/v1/jobs/{job_id}/explain", summary="Why one op of a job's result has its layout", **ANSWERED_LATER)
async def explain_job(
    request: Request, desk: TheDesk, caller: TheCaller, job_id: JobId, op: OpName, recorded: Recorded = False
) -> Response:
    query = Query.of(request, others=("op", "recorded"), options=())
    return await _of_job(request, desk, caller, query, job_id, "explain", op=op, recorded=recorded)


@router.get("/v1/jobs/{job_id}/diff", summary="A job's result beside that of a later one", **ANSWERED_LATER)
async def diff_jobs(request: Request, desk: TheDesk, caller: TheCaller, job_id: JobId, other: OtherJob) -> Response:
    query = Query.of(request, others=("other",), options=())
    contents = [str((await succeeded_job(desk, name, caller.owner)).result) for name in (job_id, other)]
    found = await use_stored(request, desk, caller, query, task_of(request, query, "diff"), contents)
    return await answered(request, desk, query, found)


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
    request: Request, desk: Desk, caller: Caller, query: Query, job_id: str, kind: str, **arguments: str | bool | None
) -> Response:
    """A task with the result of a job and its model."""
    job = await succeeded_job(desk, job_id, caller.owner)
    assert job.result is not None
    task = task_of(request, query, kind, **arguments)
    bodies = await desk.call(desk.store.bodies, job_id)
    found = await use_stored(request, desk, caller, query, task, (job.result, *bodies))
    return await answered(request, desk, query, found)
