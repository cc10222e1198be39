"""Runs the cases of a fuzz target in forked workers, each with a limit on time and memory.

A case is made from its seed alone, so a finding is repeated by naming target and seed. A refusal of the input is what
a case should end in, or a result; everything else is a finding.
"""

from __future__ import annotations

import os
import pickle
import random
import resource
import select
import signal
import struct
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from optimizer.errors import TtoptError

DEFECT_STATUS = 500
"""An error with this HTTP status or a higher one says that something here is wrong."""
KILL_GRACE_S = 1.0


@dataclass(frozen=True)
class Case:
    """One input: what was done to it, and its bytes."""

    name: str
    payload: bytes


class Target(Protocol):
    """Something that reads input of strangers."""

    name: str
    seconds: float
    """Wall time that one case may take."""
    memory_bytes: int
    """Address space that one case may take beyond what the worker has."""

    def case(self, rng: random.Random) -> Case:
        """A case, made from `rng` alone."""
        ...

    def run(self, payload: bytes) -> str:
        """What became of it, in a word or two. Raises what the target raises."""
        ...


@dataclass(frozen=True)
class Verdict:
    """How one case ended; `finding` is empty unless it ended as no input may."""

    seed: int
    name: str
    outcome: str
    finding: str
    seconds: float


def judge(target: Target, payload: bytes) -> tuple[str, str]:
    """`(outcome, finding)` of one payload, in this process and without limits."""
    try:
        return target.run(payload), ""
    except TtoptError as error:
        if error.http_status < DEFECT_STATUS:
            return f"refused: {error.code}", ""
        return f"defect: {error.code}", traceback.format_exc()
    except BaseException as error:  # noqa: BLE001 - whatever a case ends in is the finding
        return f"defect: {type(error).__name__}", traceback.format_exc()


def make_case(target: Target, seed: int) -> Case:
    return target.case(random.Random(f"{target.name}:{seed}"))


def run_cases(target: Target, seeds: Iterable[int], jobs: int = 1) -> Iterator[Verdict]:
    """Verdicts as the cases end; their order is that of the seeds with one job only."""
    waiting = iter(seeds)
    workers = [_Worker(target) for _ in range(jobs)]
    try:
        busy = [w for w in workers if _give(w, waiting)]
        while busy:
            for worker in _ready(busy):
                yield worker.verdict()
                if not _give(worker, waiting):
                    busy.remove(worker)
    finally:
        for worker in workers:
            worker.end()


def _give(worker: _Worker, seeds: Iterator[int]) -> bool:
    seed = next(seeds, None)
    if seed is not None:
        worker.start(seed)
    return seed is not None


def _ready(busy: list[_Worker]) -> list[_Worker]:
    """Workers that have answered, died or run out of time."""
    while True:
        patience = max(0.0, min(w.deadline for w in busy) - time.monotonic())
        answered, _, _ = select.select([w.answers for w in busy], [], [], patience)
        found = [w for w in busy if w.answers in answered or time.monotonic() >= w.deadline]
        if found:
            return found


class _Worker:
    """A forked process that runs case after case; another takes its place when a case has ended it."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.seed = 0
        self.deadline = self.began = 0.0
        self._fork()

    def _fork(self) -> None:
        orders, self.orders = os.pipe()
        self.answers, answers = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.orders)
            os.close(self.answers)
            _serve(self.target, orders, answers)
        os.close(orders)
        os.close(answers)

    def start(self, seed: int) -> None:
        self.seed, self.began = seed, time.monotonic()
        self.deadline = self.began + self.target.seconds + KILL_GRACE_S
        os.write(self.orders, struct.pack("<q", seed))

    def verdict(self) -> Verdict:
        seconds = time.monotonic() - self.began
        answer = _receive(self.answers) if time.monotonic() < self.deadline else None
        if answer is None:
            outcome, finding = self._bury()
        else:
            outcome, finding = answer
            if seconds > self.target.seconds:
                outcome, finding = "defect: too slow", f"took {seconds:.1f} s, the limit is {self.target.seconds:g} s"
        return Verdict(self.seed, make_case(self.target, self.seed).name, outcome, finding, seconds)

    def _bury(self) -> tuple[str, str]:
        late = time.monotonic() >= self.deadline
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self.orders)
        os.close(self.answers)
        self._fork()
        if late:
            return "defect: too slow", f"not done after {self.target.seconds:g} s"
        return "defect: died", f"the process ended with status {status}"

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.orders)
        os.close(self.answers)


def _receive(descriptor: int) -> tuple[str, str] | None:
    """One answer; None: the process is gone."""
    head = os.read(descriptor, 4)
    if len(head) < 4:
        return None
    (size,) = struct.unpack("<I", head)
    body = b""
    while len(body) < size:
        part = os.read(descriptor, size - len(body))
        if not part:
            return None
        body += part
    answer: tuple[str, str] = pickle.loads(body)
    return answer


def _serve(target: Target, orders: int, answers: int) -> None:
    """The worker process; it never returns."""
    try:
        limit = _address_space_bytes() + target.memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        while order := os.read(orders, 8):
            (seed,) = struct.unpack("<q", order)
            body = pickle.dumps(judge(target, make_case(target, seed).payload))
            os.write(answers, struct.pack("<I", len(body)))
            while body:
                body = body[os.write(answers, body) :]
    finally:
        os._exit(1)


def _address_space_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
