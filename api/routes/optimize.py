"""`POST /v1/optimize`: a model in, the annotated graph out, or a job where that takes longer than the client waits."""

from __future__ import annotations

import asyncio
import contextlib

from fastapi import APIRouter, Request, Response

from api.answers import answer_of
from api.jobs.desk import Desk
from api.jobs.documents import job_document
from api.jobs.records import Job, Outcome, State
from api.openapi import INSPECT, OPTIMIZE
from api.problems import INTERNAL, ClientGone, ConflictError, problem
from api.routes.callers import TheCaller, TheDesk
from api.submissions import Query, take_in, task_of

router = APIRouter(tags=["optimize"])


@router.post("/v1/optimize", **OPTIMIZE)
async def optimize(request: Request, desk: TheDesk, caller: TheCaller) -> Response:
    query = Query.of(request)
    task = task_of(request, query, "optimize")
    found = await take_in(request, desk, caller, query, task, wants_job=query.idempotency_key is not None)
    return await answered(request, desk, query, found)


@router.post("/v1/inspect", **INSPECT)
async def inspect(request: Request, desk: TheDesk, caller: TheCaller) -> Response:
    query = Query.of(request)
    found = await take_in(request, desk, caller, query, task_of(request, query, "inspect"))
    return await answered(request, desk, query, found)


async def answered(request: Request, desk: Desk, query: Query, found: Job | Outcome) -> Response:
    """The result of a task; a job that goes on, once the client has waited for long enough.

    A client that leaves before ends the job, unless it has a key to ask for it again.
    """
    if isinstance(found, Outcome):
        desk.metrics.cache.labels("hit").inc()
        return await answer_of(request, desk, found, {"x-cache": "hit"})
    was_known = found.state.is_final
    most = request.app.state.settings.wait_seconds
    seconds = most if query.wait_seconds is None else min(query.wait_seconds, most)
    try:
        job = await _waited(request, desk, found, seconds)
    except ClientGone:
        if query.idempotency_key is None:
            await desk.cancel(found.id, found.owner)
        raise
    headers = {"x-job": job.id, "x-cache": "hit" if was_known else "miss"}
    return await finished(request, desk, job, headers) if job.state.is_final else accepted(job)


async def finished(request: Request, desk: Desk, job: Job, headers: dict[str, str]) -> Response:
    """What became of a job: its result, or its problem."""
    if job.state is State.SUCCEEDED:
        assert job.result is not None
        return await answer_of(request, desk, Outcome(job.result, job.facts or {}, repeatable=True), headers)
    if job.state is State.CANCELLED:
        raise ConflictError("the job was cancelled")
    return problem(request, headers=headers, **{**INTERNAL, **(job.problem or {})})


def accepted(job: Job) -> Response:
    """A job, and where to look for what becomes of it."""
    document = job_document(job)
    headers = {"location": document.links["self"]}
    if not job.state.is_final:
        headers["retry-after"] = str(document.retry_after_seconds)
    return Response(document.model_dump_json(), 202, headers, "application/json")


async def _waited(request: Request, desk: Desk, job: Job, seconds: float) -> Job:
    """The job when it is finished or the time is over; ClientGone as soon as the client leaves."""
    waiting = asyncio.ensure_future(desk.wait(job, seconds))
    leaving = asyncio.ensure_future(_departure(request))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientGone
        return waiting.result()
    finally:
        for task in (waiting, leaving):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _departure(request: Request) -> None:
    """Returns when the client closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
