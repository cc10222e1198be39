"""What a job is, for everybody who handles one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Required, TypedDict

from pydantic import ConfigDict, Field, with_config

from api.permissions import Permissions

LATEST = 253402300799.0
"""The last second of the year 9999, of which calendars still know."""
Time = Annotated[float, Field(ge=0, le=LATEST)]
OTHERS_TOO = with_config(ConfigDict(extra="allow"))
"""Of a record that may hold more than is named."""


class State(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self not in (State.QUEUED, State.RUNNING)


@dataclass(frozen=True)
class Task:
    """What a solver process is asked to do with a body."""

    kind: str
    """A key of `api.tasks.registry`."""
    content_type: str = ""
    name: str | None = None
    """Of the model (None: the one in its file)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the query or the form; they count more than those inside the body."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What else this kind of task wants to know."""
    max_nodes: int = 2**31
    permissions: Permissions = field(default_factory=Permissions)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(record: Mapping[str, Any]) -> Task:
        return Task(**{**record, "permissions": Permissions(**record["permissions"])})


@dataclass(frozen=True)
class Submission:
    """A job that somebody asks for."""

    owner: str
    task: Task
    natural_key: str
    """Hash of everything the result depends on."""
    bodies: tuple[str, ...] = ()
    """Ids of contents, in the order in which the task reads them;"""
    digests: tuple[str, ...] = ()
    """and their SHA-256."""
    name: str = ""
    """What lists call the job."""
    priority: int = 0
    request_id: str = ""
    idempotency_key: str | None = None
    fingerprint: str = ""
    """Hash of the whole request that an idempotency key stands for."""


@OTHERS_TOO
class Found(TypedDict, total=False):
    """How far the search of a job is."""

    objective_ns: int | None
    bound_ns: int | None
    gap: float | None


@OTHERS_TOO
class Facts(TypedDict, total=False):
    """What a task says of its result."""

    media_type: str
    file_name: str
    model: str
    board: str | None
    policy: str | None
    predicted_time_ns: int | None
    gap: float | None
    seconds: float
    """What it took."""
    stages_s: dict[str, float]


@OTHERS_TOO
class Problem(TypedDict, total=False):
    """Of a problem document, what is not the same for all."""

    status: int
    code: Required[str]
    detail: str


@dataclass(frozen=True)
class Job:
    """A row of the table of jobs, without what only its worker wants to know; times are seconds since 1970."""

    id: str
    owner: str
    state: State
    kind: str
    board: str | None
    policy: str | None
    """As far as the request says."""
    natural_key: str
    name: str
    priority: int
    request_id: str
    fingerprint: str
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    attempts: int
    lease: str | None
    stage: str | None
    fraction: float | None
    incumbent: Found | None
    problem: Problem | None
    """Of a job that failed."""
    result: str | None
    """Id of a content."""
    facts: Facts | None


@dataclass(frozen=True)
class Claim:
    """A job that a worker has leased, and all that it takes to do it."""

    job: Job
    task: Task
    bodies: tuple[str, ...]
    """Ids of contents, in the order in which the task reads them."""
    last_event: int


@dataclass(frozen=True)
class Event:
    """Something that happened to a running job, numbered from 1."""

    number: int
    kind: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A task done: its result lies in the store."""

    result: str
    facts: Mapping[str, Any]
    repeatable: bool
    """Whether the same request gives the same result again; a plan that was cut short by time is none."""
