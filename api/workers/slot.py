"""One solver process, and the job that it works on."""

from __future__ import annotations

import contextlib
import json
import logging
import operator
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import wait
from typing import Any

from api.disk import disk_room, temporary_file
from api.jobs.contents import Source
from api.jobs.queue import JobQueue
from api.jobs.records import Claim, Event, Job
from api.jobs.store import JobStore
from api.problems import INTERNAL, Members, NoRoomError, StoreError, members_of, quoted
from api.settings import Settings
from api.tasks.registry import run_task
from api.tasks.work import Done
from optimizer.batch.executor import JobFailure, OutOfMemory, WorkerDied
from optimizer.batch.worker import Worker
from optimizer.errors import TimeLimitError, TtoptError
from optimizer.process import logs

log = logging.getLogger(__name__)
_log = logs.room("service")


PRELOADED = "api.tasks.models"
LOOK_SECONDS = 0.2
"""Between two looks at what became of a job."""
FLUSH_SECONDS = 0.25
"""Events wait that long for others to be written with."""
SOFT_SHARE = 0.8
"""Of the time of a job, after which its search ends with the best plan so far."""
JOBS_PER_PROCESS = 200
LARGEST_IDLE_BYTES = 1024**3
"""A process that holds more than that after a job is replaced, and so is one that has done so many."""
READ_BYTES = 64 * 1024
STORE_PAUSE_SECONDS, STORE_PATIENCE_SECONDS, ROOM_PATIENCE_SECONDS = 1.0, 120.0, 20.0
"""Between two tries to use a store, and for how long if it is away, and if it has no room."""


@dataclass
class Orders:
    """What others want of the job under way; set from other threads."""

    cancel: bool = False
    lease_lost: bool = False
    stop: bool = False
    """The program ends: give the job back."""

    @property
    def any(self) -> bool:
        return self.cancel or self.lease_lost or self.stop


@dataclass
class _Progress:
    """Events of the job under way, on their way into the store."""

    number: int
    buffer: bytes = b""
    events: list[Event] = field(default_factory=list)
    written_at: float = field(default_factory=time.monotonic)

    def take(self, data: bytes) -> None:
        """Lines of the solver process. Of stages in a row that are told at once only the last counts."""
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            record = json.loads(line)
            if self.events and self.events[-1].kind == record["kind"]:
                self.number -= 1
                self.events.pop()
            self.number += 1
            self.events.append(Event(self.number, record["kind"], record["data"]))

    @property
    def is_due(self) -> bool:
        return bool(self.events) and time.monotonic() - self.written_at > FLUSH_SECONDS


class Slot:
    """Runs one job after another in a process of its own, which it replaces when need be."""

    def __init__(self, store: JobStore, queue: JobQueue, settings: Settings, changed: Any) -> None:
        """`changed(job_id)` is called whenever others can see something new."""
        self._store = store
        self._queue = queue
        self._settings = settings
        self._changed = changed
        self._worker: Worker | None = None
        self._done = 0
        self.current: tuple[Job, Orders] | None = None
        """The job under way, and what others want of it."""
        self.lost = 0
        """Processes that ended by themselves."""
        self.is_warm = False

    def warm(self) -> None:
        """Start the process unless it runs, and wait until it has loaded what it needs, or has ended instead."""
        worker = self._started()
        try:
            worker.send(partial(operator.add, 1, 1))
            worker.receive()
            self.is_warm = True
        except WorkerDied as death:
            log.warning("a solver process ended while it was loading: %s", death)
            self._lose(worker)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    def run(self, claim: Claim) -> None:
        """Work on a job that is leased already, and finish it, whatever happens."""
        job, orders = claim.job, Orders()
        self.current = job, orders
        try:
            for job_id in self._finish(claim, orders):
                self._changed(job_id)
        except StoreError as error:
            # It has been away for too long: the lease ends, and somebody takes the job up again.
            log.warning("job %s is left: %s", job.id, error)
        finally:
            self.current = None

    def _finish(self, claim: Claim, orders: Orders) -> list[str]:
        """Ids of the jobs that have changed now."""
        began, job = time.monotonic(), claim.job
        state, changed = self._ended(claim, orders, began)
        _log.info(
            "job",
            job=job.id,
            request_id=job.request_id,
            kind=job.kind,
            model=job.name,
            options=dict(claim.task.options),
            state=state if changed else "taken away",
            attempts=job.attempts,
            seconds=round(time.monotonic() - began, 3),
        )
        return changed

    def _ended(self, claim: Claim, orders: Orders, began: float) -> tuple[str, list[str]]:
        """How it ended, in a word, and the ids of the jobs that have changed; none if the lease is gone."""
        job = claim.job
        try:
            with disk_room(), _files(len(claim.bodies) + 2) as (*files, packed):
                done = self._solved(claim, orders, files)
                if done is not None:
                    facts = {**done.facts, "seconds": round(time.monotonic() - began, 3)}
                    answer = Source.packed(files[-1], packed)
                    return "succeeded", patiently(orders, self._queue.succeed, job, answer, facts, done.repeatable)
        except WorkerDied as death:
            crashed = death.exit_code != -signal.SIGKILL
            return "lost", _if(patiently(orders, self._queue.lost, job, crashed), job)
        except NoRoomError as error:
            return self._failed(job, orders, members_of(error))
        except StoreError:
            raise
        except TtoptError as error:
            return self._failed(job, orders, members_of(error))
        except Exception as error:  # noqa: BLE001 - a job that nobody can do must not be begun again and again
            trace = error.traceback if isinstance(error, JobFailure) else "".join(traceback.format_exception(error))
            log.critical("job %s: a defect\n%s", job.id, quoted(trace))
            return self._failed(job, orders, INTERNAL)
        if orders.cancel:
            return "cancelled", _if(patiently(orders, self._queue.cancelled, job), job)
        if orders.stop:
            return "given back", _if(self._queue.give_back(job), job)
        return "taken away", []

    def _failed(self, job: Job, orders: Orders, problem: Members) -> tuple[str, list[str]]:
        return "failed", _if(patiently(orders, self._queue.fail, job, problem), job)

    def _solved(self, claim: Claim, orders: Orders, files: list[int]) -> Done | None:
        """What the process answers, its answer in the last file; None if the orders ended it."""
        for content, body in zip(claim.bodies, files[:-1], strict=True):
            patiently(orders, self._store.contents.restore, content, body)
        return self._asked(claim, orders, files, _Progress(claim.last_event))

    def _asked(self, claim: Claim, orders: Orders, files: list[int], progress: _Progress) -> Done | None:
        """What the process answers; None if the orders ended it. Raises what it raises, and WorkerDied."""
        worker = self._started()
        seconds = self._settings.request_seconds
        ours, theirs = os.pipe()
        os.set_blocking(ours, False)
        call = partial(run_task, task=claim.task, soft_seconds=SOFT_SHARE * seconds)
        try:
            try:
                worker.send(call, [*files, theirs])
            finally:
                os.close(theirs)
            ends = time.monotonic() + seconds
            while not self._is_answered(worker, ours, claim.job, progress):
                if orders.any:
                    self._replace(worker)
                    return None
                if time.monotonic() > ends:
                    self._replace(worker)
                    raise TimeLimitError(f"stopped after {seconds:g} s with nothing to return", limit=seconds)
            return self._received(worker)
        except WorkerDied:
            self._lose(worker)
            raise
        finally:
            os.close(ours)

    def _is_answered(self, worker: Worker, pipe: int, job: Job, progress: _Progress) -> bool:
        """Wait a while for the answer, and pass on what the process tells meanwhile."""
        ready = wait([worker.connection, pipe], LOOK_SECONDS)
        is_answered = worker.connection in ready
        while pipe in ready and (data := _read(pipe)) is not None:
            progress.take(data)
            if not data:
                # It has closed its end: the answer follows.
                is_answered = bool(wait([worker.connection], LOOK_SECONDS))
                break
        if progress.is_due or (is_answered and progress.events):
            self._note(job, progress)
        return is_answered

    def _note(self, job: Job, progress: _Progress) -> None:
        events, progress.events, progress.written_at = progress.events, [], time.monotonic()
        try:
            self._queue.note(job, events)
        except StoreError:
            return  # the work goes on, and its result may find the store again
        self._changed(job.id)

    def _received(self, worker: Worker) -> Done:
        try:
            done: Done = worker.receive()
        except OutOfMemory:
            self._replace(worker)
            raise
        self._done += 1
        if self._done >= JOBS_PER_PROCESS or worker.resident_bytes > LARGEST_IDLE_BYTES:
            self._replace(worker)
        return done

    def _started(self) -> Worker:
        if self._worker is None or not self._worker.is_alive:
            if self._worker is not None:
                self._lose(self._worker)
            self._start()
        assert self._worker is not None
        return self._worker

    def _lose(self, worker: Worker) -> None:
        self.lost += 1
        self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        """End a process; the next one loads while the job is put in order."""
        worker.kill()
        threading.Thread(target=worker.close, daemon=True).start()
        self._start()

    def _start(self) -> None:
        self._worker, self._done, self.is_warm = Worker(PRELOADED, self._settings.memory_of_a_worker), 0, False


def _if(changed: bool, job: Job) -> list[str]:
    return [job.id] if changed else []


def _read(pipe: int) -> bytes | None:
    """What lies in a pipe; nothing at its end, None if there is nothing yet."""
    try:
        return os.read(pipe, READ_BYTES)
    except BlockingIOError:
        return None


def patiently[**P, T](orders: Orders, use: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Use the store, again and again while it is away, unless the program is to end: a job that was worked on is worth
    the wait. Whoever has the job by then takes no harm, since only the holder of its lease changes it."""
    began = time.monotonic()
    while True:
        try:
            return use(*arguments, **named)
        except StoreError as error:
            patience = ROOM_PATIENCE_SECONDS if isinstance(error, NoRoomError) else STORE_PATIENCE_SECONDS
            if orders.stop or time.monotonic() > began + patience:
                raise
            time.sleep(STORE_PAUSE_SECONDS)


@contextlib.contextmanager
def _files(count: int) -> Iterator[list[int]]:
    """Descriptors of so many files without names."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(temporary_file()).fileno() for _ in range(count)]
