"""Questions through children on the simulator: each is answered, also when the simulator ends the process."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from optimizer.opmodel.base import OpQuery

CHILD = Path(__file__).resolve().parent / "simulated.py"
CASES_PER_CHILD = 150
_WHY = ("UndefinedBehavior", "UnsupportedFunctionality", "UnimplementedFunctionality", "AssertionFailure", "ERROR")
"""How the simulator begins the line that says why it stopped."""


class Verdict(StrEnum):
    """What became of a case; the first that holds."""

    OVERWRITES = "overwrites"
    """A canary or an operand that must stay has changed."""
    WRONG = "wrong values"
    RIGHT = "right"
    UNREADABLE = "unreadable"
    """The host does not find on the device what it has put there, so nothing is said of the op."""
    REFUSED = "refused"
    """TTNN throws, when the operands are made or in the call."""
    STOPPED = "simulator stops"
    """The process ended: an instruction that the simulator lacks, or one that it calls undefined behaviour."""
    TIMEOUT = "timeout"


@dataclass(frozen=True)
class Outcome:
    """A case and what became of it."""

    query: OpQuery
    verdict: Verdict
    detail: str
    record: dict[str, Any] = field(default_factory=dict)


def outcome(query: OpQuery, record: dict[str, Any]) -> Outcome:
    """The verdict on what a child has answered."""
    if "refused" in record:
        return Outcome(query, Verdict.REFUSED, f"{record['refused']} {record.get('more', '')}".strip(), record)
    told = "; ".join([*record["faults"], *([record["values"]] if record["wrong"] else [])])
    if record["faults"]:
        return Outcome(query, Verdict.OVERWRITES, told, record)
    if record["wrong"] and record["unreadable"]:
        return Outcome(query, Verdict.UNREADABLE, f"operands {record['unreadable']}; {told}", record)
    verdict = Verdict.WRONG if record["wrong"] else Verdict.RIGHT
    return Outcome(query, verdict, told or f"relative error {record['error']:.3g}", record)


def run_cases(queries: Sequence[OpQuery], timeout_seconds: float) -> Iterator[Outcome]:
    """Outcomes in order."""
    child: _Child | None = None
    try:
        for query in queries:
            if child is None or child.asked >= CASES_PER_CHILD:
                if child is not None:
                    child.close()
                child = _Child()
            record = child.ask(query, timeout_seconds)
            if isinstance(record, dict):
                yield outcome(query, record)
                continue
            child.close()
            yield Outcome(query, Verdict.TIMEOUT if record else Verdict.STOPPED, child.last_words())
            child = None
    finally:
        if child is not None:
            child.close()


class _Child:
    """One process with an open device."""

    def __init__(self) -> None:
        to_child, questions = os.pipe()
        answers, from_child = os.pipe()
        self.words: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        command = [sys.executable, str(CHILD), str(to_child), str(from_child)]
        self.process = subprocess.Popen(
            command, pass_fds=(to_child, from_child), stdout=self.words, stderr=subprocess.STDOUT
        )
        os.close(to_child)
        os.close(from_child)
        self.questions, self.answers = os.fdopen(questions, "wb"), os.fdopen(answers, "rb")
        self.asked = 0

    def ask(self, query: OpQuery, timeout_seconds: float) -> dict[str, Any] | bool:
        """The answer; True after a timeout, False when the process has ended."""
        self.asked += 1
        try:
            pickle.dump(query, self.questions)
            self.questions.flush()
        except BrokenPipeError:
            return False
        ready, _, _ = select.select([self.answers], [], [], timeout_seconds)
        if not ready:
            return True
        line = self.answers.readline()
        return json.loads(line) if line else False  # type: ignore[no-any-return]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.questions, self.answers):
            try:
                stream.close()
            except BrokenPipeError:  # what was not sent is not wanted any more
                continue

    def last_words(self) -> str:
        """What the process printed last; the simulator's own reason, if it gave one."""
        self.words.seek(0)
        lines = [line.strip() for line in self.words.read().decode(errors="replace").splitlines() if line.strip()]
        reasons = [line for line in lines if any(word in line for word in _WHY)]
        return f"{(reasons or lines or [''])[-1][:300]} (exit {self.process.returncode})"
