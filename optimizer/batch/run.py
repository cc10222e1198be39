"""Run the jobs of a batch and collect their records."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from optimizer.batch.comparison import Record, Sweep
from optimizer.batch.executor import Executor, Job, JobFailure, Outcome
from optimizer.batch.job import SCRATCH, Done, optimize_elsewhere, optimize_here
from optimizer.batch.plan import BatchJob, digest_of_file
from optimizer.batch.store import ResultStore, Stored
from optimizer.batch.tables import write_tables
from optimizer.errors import FormatError, TtoptError
from optimizer.process.files import make_folder, write_bytes
from optimizer.process.version import program_id

log = logging.getLogger(__name__)

SENT_BYTES = 64 * 1024**2
"""Size of the largest model that is sent to workers that do not see the files of this machine."""


@dataclass(frozen=True)
class Ended:
    """What is reported after every job."""

    record: Record
    kept: bool
    """Whether an earlier run had done it."""
    done: int
    """How many jobs have ended, this one with them."""
    count: int
    """Of all jobs."""


Report = Callable[[Ended], None]


def run_batch(
    jobs: Iterable[BatchJob],
    executor: Executor,
    output: Path,
    report: Report,
    sweep: Sweep,
    resume: bool = False,
    earlier: Sequence[Record] | None = None,
    parquet: bool = False,
) -> list[Record]:
    """Records of all jobs, successes in the order of the jobs, failures last; the tables are below `output`.

    Each record holds `name`, `model`, `file`, `board`, the swept options, `ok`, `seconds`, and the figures of the
    result or an `error`. Jobs of the same content are done once. With `resume`, jobs that succeeded before (same key,
    artifacts still as they were) are taken from the store under `output`. `earlier` are the records of another batch,
    with whose results those of the same name are compared. The tables are written when interrupted, too.
    """
    make_folder(output)
    run = _Run(list(jobs), executor, output, report, ResultStore(output), {r["name"]: r for r in earlier or ()})
    try:
        run.submit(resume)
        run.collect()
    finally:
        run.store.close()
        records = run.ordered()
        if run.store.is_in_place:
            write_tables(records, output, sweep, parquet)
    return records


@dataclass(frozen=True)
class _Sent:
    """A job for another machine. Its model is read when the job is sent: thousands wait without theirs."""

    job: BatchJob

    def __reduce__(self) -> tuple[Any, ...]:
        source = self.job.source
        try:
            status = source.stat()
            model = _content(source, status.st_mtime_ns, status.st_size) if status.st_size <= SENT_BYTES else None
        except OSError as error:  # it would end the batch; as a job it fails alone
            return partial, (_cannot_read, str(source), error.strerror)
        return partial, (optimize_elsewhere, self.job, model, program_id())

    def __call__(self) -> Done:
        """As if it had been sent."""
        return optimize_elsewhere(self.job, self.job.source.read_bytes(), program_id())


@lru_cache(maxsize=1)
def _content(source: Path, _mtime_ns: int, _size: int) -> bytes:
    """A file's bytes, which the jobs of one model share: pickled together they hold them once."""
    return source.read_bytes()


def _cannot_read(source: str, reason: str) -> Done:
    raise FormatError(f"cannot read: {reason}", node=source)


@dataclass
class _Run:
    """A batch under way."""

    jobs: list[BatchJob]
    executor: Executor
    output: Path
    report: Report
    store: ResultStore
    earlier: Mapping[str, Record]
    records: dict[str, Record] = field(default_factory=dict)
    """Of jobs that have ended, by name."""
    alike: dict[str, list[BatchJob]] = field(default_factory=dict)
    """Jobs to be done, by key: those of one content together."""

    def submit(self, resume: bool) -> None:
        """Queue what has to be done, once for jobs of the same content."""
        for scratch in self.output.glob(f"{SCRATCH}*"):
            shutil.rmtree(scratch)  # of a run that was killed: the store belongs to this one
        for job in self.jobs:
            stored = self.store.get(job.key) if resume else None
            if stored is not None and self._is_there(job, stored):
                self._tell(job, self._succeeded(job, stored), kept=True)
            else:
                self.alike.setdefault(job.key, []).append(job)
        for key, (first, *_) in self.alike.items():
            self.executor.submit(key, self._call(first), _bytes_of(first.source))

    def collect(self) -> None:
        """Take outcomes until none is left."""
        for outcome in self.executor.as_completed():
            self.store.require_in_place()
            first, *others = self.alike[outcome.key]
            if outcome.error is not None:
                for job in (first, *others):
                    self._tell(job, _failed(job, outcome))
                continue
            done: Done = outcome.value
            for name, content in done.contents.items():
                make_folder((target := self.output / first.name / name).parent)
                write_bytes(target, content)
            stored = Stored(done.figures, done.artifacts, round(outcome.seconds, 3))
            self.store.put(first.key, stored)
            for job in (first, *others):
                self._copy(stored, first, job)
                self._tell(job, self._succeeded(job, stored))

    def ordered(self) -> list[Record]:
        """Records of the jobs that have ended, successes first."""
        listed = [self.records[job.name] for job in self.jobs if job.name in self.records]
        return sorted(listed, key=lambda record: not record["ok"])

    def _call(self, job: BatchJob) -> Job:
        if self.executor.shares_files:
            return partial(optimize_here, job, self.output)
        return _Sent(job)

    def _is_there(self, job: BatchJob, stored: Stored) -> bool:
        """Whether the artifacts of a stored result lie in the job's folder, as they were written."""
        files = {self.output / job.name / name: digest for name, digest in stored.artifacts.items()}
        return all(path.is_file() and digest_of_file(path) == digest for path, digest in files.items())

    def _copy(self, stored: Stored, first: BatchJob, other: BatchJob) -> None:
        """The artifacts of a job for another one of the same content."""
        if first is other:
            return
        for name in stored.artifacts:
            make_folder((target := self.output / other.name / name).parent)
            write_bytes(target, (self.output / first.name / name).read_bytes())

    def _tell(self, job: BatchJob, record: Record, kept: bool = False) -> None:
        self.records[job.name] = record
        self.report(Ended(record, kept, len(self.records), len(self.jobs)))

    def _succeeded(self, job: BatchJob, stored: Stored) -> Record:
        record = _described(job, stored.seconds) | stored.figures
        before = self.earlier.get(job.name)
        if self.earlier:
            known = before is not None and before["ok"]
            before_ns = before["predicted_time_ns"] if before is not None and known else None
            record["earlier_ns"] = before_ns
            record["change_to_earlier"] = round(record["predicted_time_ns"] / before_ns - 1, 6) if before_ns else None
        if record["refused"]:
            message = f"{record['refused']} op(s) refused by '{job.options.check}' (`summary.check` of the result)"
            return {**record, "ok": False, "error": {"code": "check-failed", "message": message}}
        return record


def _bytes_of(source: Path) -> int:
    """What is sent of a model; a file that is gone is found out by its job."""
    try:
        size = source.stat().st_size
    except OSError:
        return 0
    return size if size <= SENT_BYTES else 0


def _described(job: BatchJob, seconds: float) -> Record:
    place = {"name": job.name, "model": job.model, "file": str(job.source), "board": job.options.board}
    return {**place, **job.swept, "ok": True, "seconds": round(seconds, 3)}


def _failed(job: BatchJob, outcome: Outcome) -> Record:
    error = outcome.error
    if isinstance(error, JobFailure):
        log.error("%s: a defect of ttopt, please report it\n%s", job.name, error.traceback)
    code = error.code if isinstance(error, TtoptError) else type(error).__name__
    described = _described(job, outcome.seconds)
    return {**described, "ok": False, "error": {"code": code, "message": str(error)}}
