"""What `make test` tries of a property or a sweep. The slow part tries more, `make check-long` all of a sweep."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

PART = "TTOPT_TESTED_PART"
"""Set by `tests/conftest.py` before any test is collected, to one of these."""
SHARES = {"quick": 4, "slow": 2, "long": 1}
"""Of the examples of a property, a part tries one in so many,"""
LEAST = 5
"""but so many where a property has them."""
SOLVED_BEFORE = "TTOPT_SOLVED_BEFORE"
"""Set there as well: a folder for what the tests of all workers have solved (`tests/plans.py`)."""


def examples(count: int) -> int:
    """How many examples of a property to try: `count` in the long part, else the first of the same ones."""
    return min(count, max(LEAST, count // SHARES[os.environ[PART]]))


def sampled(cases: Iterable[Any], kept: Collection[Any], slow: Collection[Any] | None = None) -> list[Any]:
    """The cases of a sweep for `parametrize`: those not in `kept` are slow, or long where `slow` lacks them too.

    ValueError for a kept or slow one that is none.
    """
    listed = list(cases)
    unknown = [case for case in (*kept, *(slow or ())) if case not in listed]
    if unknown:
        raise ValueError(f"no cases of this sweep: {unknown}")
    others = listed if slow is None else slow
    return [case if case in kept else _marked(case, "slow" if case in others else "long") for case in listed]


def _marked(case: Any, mark: str) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=getattr(pytest.mark, mark))
