"""Figures for Prometheus. Those of jobs are read from the store, so that a restart or a second server changes none."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import select

from api.jobs.database import Database
from api.jobs.records import LATEST, Facts, Job, State
from api.jobs.room import taken_bytes
from api.jobs.rows import shown_facts
from api.jobs.store import JobStore
from api.jobs.tables import JOBS, WORKERS

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
GAPS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
OVERLAP_SECONDS = 5.0
"""Jobs may be written that long after the moment at which they say they were finished."""


class Metrics:
    """The registry of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        into = self.registry
        self.requests = Counter("ttopt_requests", "Requests answered.", ("method", "route", "status"), registry=into)
        self.request_seconds = self._timer("ttopt_request_seconds", "Time until the answer was sent.", "route")
        self.cache = Counter("ttopt_cache", "Requests by whether their result was known.", ("outcome",), registry=into)
        self._jobs = Gauge("ttopt_jobs", "Jobs in the store.", ("state",), registry=into)
        self._depth = Gauge("ttopt_queue_depth", "Jobs that wait.", registry=into)
        self._finished = Counter("ttopt_jobs_finished", "Jobs finished.", ("state", "kind"), registry=into)
        self._stages = self._timer("ttopt_stage_seconds", "Time of a stage of a solved job.", "stage")
        self._seconds = self._timer("ttopt_job_seconds", "Time of a job on its worker.", "kind")
        self._gap = Histogram("ttopt_solver_gap", "Gap of solved plans.", buckets=GAPS, registry=into)
        self._restarts = Counter(
            "ttopt_worker_restarts", "Worker programs and solver processes that were lost.", registry=into
        )
        self._programs = 0
        self._processes: dict[str, int] = {}
        """Losses counted already: programs of this server, and solver processes by the name of their program."""
        self._warm = Gauge("ttopt_warm_slots", "Solver processes that are ready or at work.", registry=into)
        self._stored = Gauge("ttopt_store_bytes", "What jobs, models and results take.", registry=into)
        self._since = time.time()
        self._seen: dict[str, float] = {}
        """Jobs that were counted, by when they were finished, as long as they may be found again."""

    def _timer(self, name: str, text: str, label: str) -> Histogram:
        return Histogram(name, text, (label,), buckets=SECONDS, registry=self.registry)

    def submitted(self, job: Job) -> None:
        self.cache.labels("hit" if job.state is State.SUCCEEDED and not job.attempts else "miss").inc()

    def observe(self, store: JobStore, database: Database, restarts: int, warm: int) -> None:
        """Read from the store what has changed since the last time."""
        for state, count in store.counts().items():
            self._jobs.labels(state).set(count)
            if state == State.QUEUED:
                self._depth.set(count)
        self._warm.set(warm)
        with database.reading() as connection:
            self._stored.set(taken_bytes(connection))
            lost = {name: int(count) for name, count in connection.execute(select(WORKERS.c.id, WORKERS.c.lost))}
            done = select(JOBS.c.id, JOBS.c.state, JOBS.c.kind, JOBS.c.facts, JOBS.c.attempts, JOBS.c.finished_at)
            lately = JOBS.c.finished_at.between(self._since - OVERLAP_SECONDS, LATEST)
            rows = connection.execute(done.where(lately)).all()
        new = sum(count - self._processes.get(name, 0) for name, count in lost.items())
        self._restarts.inc(restarts - self._programs + new)
        self._programs, self._processes = restarts, lost
        for job_id, state, kind, facts, attempts, finished_at in rows:
            if job_id not in self._seen:
                self._seen[job_id] = finished_at
                self._count(state, kind, shown_facts(f"job {job_id}", facts), attempts)
        self._since = max([self._since, *(row[-1] for row in rows)])
        self._seen = {job: at for job, at in self._seen.items() if at > self._since - OVERLAP_SECONDS}

    def _count(self, state: str, kind: str, facts: Facts, attempts: int) -> None:
        self._finished.labels(state, kind).inc()
        if not attempts:
            return  # its result was known
        for stage, stage_seconds in facts.get("stages_s", {}).items():
            self._stages.labels(stage).observe(stage_seconds)
        if (seconds := facts.get("seconds")) is not None:
            self._seconds.labels(kind).observe(seconds)
        if (gap := facts.get("gap")) is not None:
            self._gap.observe(gap)

    def text(self) -> bytes:
        """The exposition format of Prometheus."""
        return generate_latest(self.registry)
