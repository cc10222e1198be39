"""What clients read of jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from api.jobs.records import Found, Job, State
from api.problems import TYPE_PREFIX

POLL_SECONDS = 1
"""How soon to ask again for a job that is not finished."""


class Progress(BaseModel):
    """Which stage of the work has begun, and how much lies before it."""

    stage: str | None
    fraction: float = Field(description="0 to 1, by the number of stages")


class Incumbent(BaseModel):
    """How far the search is."""

    objective_ns: int | None = Field(description="predicted time of the best plan so far")
    bound_ns: int | None = Field(description="what is proven that no plan goes below")
    gap: float | None


class JobDocument(BaseModel):
    """A job as `GET /v1/jobs/{id}` shows it; times are ISO 8601 in UTC."""

    id: str
    kind: str
    state: State
    name: str
    board: str | None
    policy: str | None
    priority: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    attempts: int = Field(description="how often a worker has begun it")
    progress: Progress
    incumbent: Incumbent | None
    predicted_time_ns: int | None = Field(description="of the plan that was found")
    gap: float | None
    error: dict[str, Any] | None = Field(description="problem document of a job that failed")
    links: dict[str, str] = Field(description="paths of `self`, `result`, `events` and `artifacts`")

    @property
    def retry_after_seconds(self) -> int:
        return POLL_SECONDS


class JobList(BaseModel):
    """A page of jobs, the newest first."""

    jobs: list[JobDocument]
    next: str | None = Field(description="`cursor` of the next page; null: this is the last")


def job_document(job: Job) -> JobDocument:
    """The document of a job."""
    path, facts = f"/v1/jobs/{job.id}", job.facts or {}
    return JobDocument(
        id=job.id,
        kind=job.kind,
        state=job.state,
        name=job.name or facts.get("model", ""),
        board=job.board or facts.get("board"),
        policy=job.policy or facts.get("policy"),
        priority=job.priority,
        created_at=_iso(job.created_at) or "",
        started_at=_iso(job.started_at),
        finished_at=_iso(job.finished_at),
        attempts=job.attempts,
        progress=Progress(stage=job.stage, fraction=job.fraction or 0.0),
        incumbent=None if job.incumbent is None else _incumbent(job.incumbent),
        predicted_time_ns=facts.get("predicted_time_ns"),
        gap=facts.get("gap"),
        error=None if job.problem is None else {"type": TYPE_PREFIX + job.problem["code"], **job.problem},
        links={"self": path, **{name: f"{path}/{name}" for name in ("result", "events", "artifacts")}},
    )


def _incumbent(found: Found) -> Incumbent:
    return Incumbent(objective_ns=found.get("objective_ns"), bound_ns=found.get("bound_ns"), gap=found.get("gap"))


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
