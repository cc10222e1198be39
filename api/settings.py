"""Settings of the service, from the environment."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.types import StringConstraints

from optimizer.errors import OptionError

PREFIX = "TTOPT_"
MEMORY_SHARE = 0.75
"""Of the machine's memory, what all workers together may take unless a setting says otherwise."""
LEAST_WORKER_BYTES = 2 * 1024**3
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


Network = IPv4Network | IPv6Network
HostName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", to_lower=True)]


def _words(value: object) -> object:
    """The parts of a list that is one text in the environment."""
    return [word for word in value.replace(",", " ").split() if word] if isinstance(value, str) else value


class Settings(BaseModel):
    """Each field is the environment variable `TTOPT_<FIELD>`."""

    model_config = ConfigDict(frozen=True)

    store: str = Field(
        default="", description="database of jobs: sqlite:///FILE or postgresql://... (default: a file of the user's)"
    )
    workers: int = Field(
        default=os.cpu_count() or 1, ge=0, description="solver processes; 0: only those of `ttopt worker` elsewhere"
    )
    queue_limit: int = Field(default=10_000, ge=1, description="jobs that may wait or run at once")
    max_body_bytes: int = Field(default=512 * 1024**2, ge=1, description="largest request body")
    max_nodes: int = Field(default=20_000, ge=1, description="largest graph, in nodes")
    request_seconds: float = Field(default=300.0, gt=0, description="longest a job may take once it runs")
    wait_seconds: float = Field(
        default=60.0, ge=0, description="how long an answer may be waited for before a job is handed out instead"
    )
    lease_seconds: float = Field(default=15.0, gt=0, description="how long a silent worker keeps its jobs")
    attempts: int = Field(default=6, ge=1, description="crashes of its process after which a job is parked")
    drain_seconds: float = Field(default=20.0, ge=0, description="how long running jobs may go on after SIGTERM")
    retention_seconds: float = Field(
        default=7 * 86400.0, gt=0, description="how long finished jobs, and results nobody asks for, are kept"
    )
    store_bytes: int = Field(
        default=16 * 1024**3, ge=1, description="what jobs, models and results in the store may take"
    )
    keys: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="who needs an API key: always everybody; auto: everybody but this machine; never: nobody",
    )
    hosts: Annotated[tuple[HostName, ...], BeforeValidator(_words)] = Field(
        default=(), description="names by which the service is asked without a key, besides localhost and the machine's"
    )
    trusted_proxies: Annotated[tuple[Network, ...], BeforeValidator(_words)] = Field(
        default=(), description="addresses and networks of proxies whose X-Forwarded-For and -Proto are believed"
    )
    rate_per_minute: int = Field(default=0, ge=0, description="requests per minute of a key or address; 0: no limit")
    max_open_jobs: int = Field(default=0, ge=0, description="waiting and running jobs of a key; 0: no limit")
    worker_memory_bytes: int | None = Field(
        default=None,
        ge=0,
        description="memory one worker may take for its data; 0: no limit (default: its part of 3/4 of the machine's)",
    )
    max_uploads: int = Field(default=256, ge=1, description="bodies that may be on their way at once")
    spool_bytes: int = Field(
        default=2 * 1024**3, ge=1, description="bytes of bodies and answers that may lie in the spool folder at once"
    )
    spool_folder: str = Field(
        default="", description="folder for bodies and answers in work (default: the one for temporary files)"
    )
    max_connections: int = Field(default=1024, ge=1, description="connections that may be open at once")
    max_peer_connections: int = Field(
        default=128, ge=1, description="of these, from one address; raise it behind a proxy"
    )
    header_seconds: float = Field(default=10.0, gt=0, description="longest the head of a request may take to arrive")
    body_seconds: float = Field(
        default=900.0, gt=0, description="longest a body may take to arrive, and an answer to be read"
    )
    stall_seconds: float = Field(
        default=10.0, gt=0, description="span over which a body must keep its rate, and an answer must be read on"
    )
    min_body_rate: float = Field(default=4096.0, ge=0, description="least bytes of body per second")
    idle_seconds: float = Field(
        default=5.0, gt=0, description="how long an idle connection is kept, and one whose end is awaited"
    )
    allow_ttmetal: bool = Field(
        default=False, description="whether clients may choose backends that run programs on this machine"
    )

    @property
    def memory_of_a_worker(self) -> int:
        """Bytes of data one worker may hold; 0: no limit."""
        if self.worker_memory_bytes is not None:
            return self.worker_memory_bytes
        return max(LEAST_WORKER_BYTES, int(machine_bytes() * MEMORY_SHARE) // max(1, self.workers))

    @property
    def store_url(self) -> str:
        return self.store or default_url()

    @property
    def spool_place(self) -> str:
        return self.spool_folder or tempfile.gettempdir()

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
        """OptionError names the variable that is wrong."""
        given = {name: environment[PREFIX + name.upper()] for name in _names() if PREFIX + name.upper() in environment}
        try:
            return Settings.model_validate(given)
        except ValidationError as error:
            fault = error.errors()[0]
            variable = PREFIX + str(fault["loc"][0]).upper()
            raise OptionError(f"{fault['msg']}, got '{fault['input']}'", node=variable) from error

    def to_environment(self) -> dict[str, str]:
        """Variables from which `from_environment` makes these settings."""
        values = {name: getattr(self, name) for name in _names()}
        texts = {name: " ".join(map(str, v)) if isinstance(v, tuple) else v for name, v in values.items()}
        return {PREFIX + name.upper(): str(text) for name, text in texts.items() if text is not None}


def machine_bytes(cgroup_limit: Path = CGROUP_LIMIT) -> int:
    """Memory of this machine, or of the container if that has less."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        text = cgroup_limit.read_text(encoding="ascii").strip()
    except OSError:
        return physical  # no such control group: nothing narrower is known
    return min(physical, int(text)) if text.isdecimal() else physical


def default_url() -> str:
    """SQLite in the user's folder for state (XDG)."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return f"sqlite:///{Path(base) / 'ttopt' / 'jobs.sqlite'}"


def _names() -> list[str]:
    return list(Settings.model_fields)
