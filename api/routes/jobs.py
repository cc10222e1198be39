"""Jobs: posted, listed, watched, cancelled, and their results read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi import Query as QueryParameter
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from api.jobs.desk import Desk
from api.jobs.documents import JobDocument, JobList, job_document
from api.jobs.records import Job, State
from api.jobs.store import MOST_EVENTS, MOST_LISTED
from api.jobs.watching import changed_within
from api.openapi import EVENTS, JOB_PROBLEMS, RESULT, SUBMIT
from api.problems import INTERNAL, ConflictError, JobFailedError, Members, UnfinishedError
from api.routes.callers import TheCaller, TheDesk
from api.routes.optimize import accepted, finished
from api.submissions import Query, take_in, task_of
from api.tasks.registry import KINDS

router = APIRouter(tags=["jobs"])

JOB_ID = "^[0-9a-f]{32}$"
JobId = Annotated[str, Path(pattern=JOB_ID, description="id of a job")]
KIND = f"^({'|'.join(KINDS)})$"
CURSOR = r"^([0-9]+\.[0-9]+-[0-9a-f]{32})?$"
PING_SECONDS = 15.0
"""Silence after which a comment is sent, so that proxies keep the connection."""


@router.post("/v1/jobs", **SUBMIT)
async def submit(request: Request, desk: TheDesk, caller: TheCaller) -> Response:
    query = Query.of(request)
    job = await take_in(request, desk, caller, query, task_of(request, query, "optimize"), wants_job=True)
    assert isinstance(job, Job)
    return accepted(job)


@router.get("/v1/jobs", response_model=JobList, summary="Jobs of the caller, the newest first", responses=JOB_PROBLEMS)
async def jobs(
    desk: TheDesk,
    caller: TheCaller,
    limit: Annotated[int, QueryParameter(ge=1, le=MOST_LISTED)] = 50,
    cursor: Annotated[str, QueryParameter(description="`next` of the page before", pattern=CURSOR)] = "",
    state: Annotated[list[State] | None, QueryParameter(description="only jobs in these states")] = None,
    kind: Annotated[str | None, QueryParameter(description="only jobs of this kind", pattern=KIND)] = None,
) -> Response:
    def page() -> bytes:
        found = desk.store.jobs(caller.owner, limit, _place(cursor), tuple(state or ()), kind)
        more = f"{found[-1].created_at:.9f}-{found[-1].id}" if len(found) == limit else None
        return JobList(jobs=[job_document(job) for job in found], next=more).model_dump_json().encode()

    return Response(await desk.listed(page), media_type="application/json")


@router.get("/v1/jobs/{job_id}", response_model=JobDocument, summary="One job", responses=JOB_PROBLEMS)
async def job(desk: TheDesk, caller: TheCaller, job_id: JobId, response: Response) -> JobDocument:
    document = job_document(await desk.call(desk.store.job, job_id, caller.owner))
    if not document.state.is_final:
        response.headers["retry-after"] = str(document.retry_after_seconds)
    return document


@router.delete(
    "/v1/jobs/{job_id}",
    response_model=JobDocument,
    summary="Cancel a job",
    description="A job that waits ends at once, one that runs within moments; one that has ended stays as it is.",
    responses=JOB_PROBLEMS,
)
async def cancel(desk: TheDesk, caller: TheCaller, job_id: JobId) -> JobDocument:
    return job_document(await desk.cancel(job_id, caller.owner))


@router.post(
    "/v1/jobs/{job_id}/retry",
    response_model=JobDocument,
    status_code=202,
    summary="Queue a job again that failed or was cancelled",
    responses=JOB_PROBLEMS,
)
async def retry(desk: TheDesk, caller: TheCaller, job_id: JobId) -> JobDocument:
    return job_document(await desk.retry(job_id, caller))


@router.get("/v1/jobs/{job_id}/result", **RESULT)
async def result(request: Request, desk: TheDesk, caller: TheCaller, job_id: JobId) -> Response:
    return await finished(request, desk, await succeeded_job(desk, job_id, caller.owner), {})


async def succeeded_job(desk: Desk, job_id: str, owner: str) -> Job:
    """UnfinishedError, JobFailedError or ConflictError if it has no result."""
    found = await desk.call(desk.store.job, job_id, owner)
    if not found.state.is_final:
        raise UnfinishedError(f"the job is {found.state}: its result is not there yet")
    if found.state is State.FAILED:
        told: Members = {**INTERNAL, **(found.problem or {})}
        raise JobFailedError(f"the job failed: {told['detail']}", told)
    if found.state is State.CANCELLED:
        raise ConflictError("the job was cancelled")
    return found


@router.get("/v1/jobs/{job_id}/events", **EVENTS)
async def events(
    request: Request,
    desk: TheDesk,
    caller: TheCaller,
    job_id: JobId,
    last_event_id: Annotated[str, Header(description="number of the last event that was received")] = "0",
) -> Response:
    after = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 10 else 0
    found = await desk.call(desk.store.job, job_id, caller.owner)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_stream(desk, found, after), media_type="text/event-stream", headers=headers)


async def _stream(desk: Desk, job: Job, after: int) -> AsyncIterator[bytes]:
    """Events of a job from one number on, until it is finished or the service ends."""
    with desk.watchers.watching(job.id) as changed:
        while not desk.is_draining:
            page = await desk.watchers.page(job.id, after)
            for event in page.events:
                yield _event(event.number, event.kind, event.data)
                after = event.number
            if len(page.events) == MOST_EVENTS:
                continue  # there may be more
            if page.state.is_final:
                yield _event(after + 1, "done", {"state": page.state})
                return
            if not await changed_within(changed, PING_SECONDS):
                yield KEEPALIVE_COMMENT


def _event(number: int, kind: str, data: Mapping[str, Any]) -> bytes:
    return format_sse_event(data_str=json.dumps(data), event=kind, id=str(number))


def _place(cursor: str) -> tuple[float, str] | None:
    """Where a page begins."""
    at, _, job_id = cursor.partition("-")
    return (float(at), job_id) if cursor else None
