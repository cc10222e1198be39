"""The harness sees each way in which a case may end as no input may."""

from __future__ import annotations

import os
import random
import time

import pytest
from fuzzing.harness import Case, run_cases

from optimizer.errors import GraphError, VerificationError


class Ways:
    """A target whose case number says how it ends."""

    name = "ways"
    seconds = 1.0
    memory_bytes = 64 << 20

    def case(self, _rng: random.Random) -> Case:
        return Case("way", b"")

    def run(self, _payload: bytes) -> str:
        raise NotImplementedError


def ending(way: str) -> Ways:
    def run(payload: bytes) -> str:
        if way == "refused":
            raise GraphError("no")
        if way == "defect":
            raise VerificationError("no")
        if way == "raises":
            raise KeyError("x")
        if way == "dies":
            os._exit(3)
        if way == "sleeps":
            time.sleep(60)
        if way == "grows":
            return str(len(bytearray(256 << 20)))
        return "ok"

    target = Ways()
    target.run = run  # type: ignore[method-assign]
    return target


@pytest.mark.parametrize(
    ("way", "outcome", "is_finding"),
    [
        ("ok", "ok", False),
        ("refused", "refused: bad-graph", False),
        ("defect", "defect: verification-failed", True),
        ("raises", "defect: KeyError", True),
        ("dies", "defect: died", True),
        ("sleeps", "defect: too slow", True),
        ("grows", "defect: MemoryError", True),
    ],
)
def test_an_ending_is_told(way: str, outcome: str, is_finding: bool) -> None:
    first, second = run_cases(ending(way), [0, 1])

    assert (first.outcome, bool(first.finding)) == (second.outcome, bool(second.finding)) == (outcome, is_finding)
