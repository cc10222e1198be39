"""Work is counted: what takes more steps than it may ends with an error that says so."""

from __future__ import annotations

import pytest

from optimizer.errors import LimitError
from optimizer.process.work_limit import bounded, spend


def test_as_many_steps_as_the_limit_may_be_made() -> None:
    with bounded("reading it", 10, "k.kir"):
        spend(4)
        spend(6)


def test_one_more_is_refused_with_place_limit_and_alternatives() -> None:
    with bounded("reading it", 10_000, "k.kir", ("a shorter one",)):
        spend(10_000)
        with pytest.raises(
            LimitError, match=r"^k.kir: reading it takes more than 10,000 steps.*a shorter one"
        ) as error:
            spend(1)
    assert error.value.limit == 10_000


def test_steps_count_for_the_block_around_too() -> None:
    with bounded("all", 10, "document"):
        with bounded("one", 8, "case"):
            spend(7)
        with bounded("one", 8, "case"), pytest.raises(LimitError, match="document: all takes"):
            spend(4)


def test_a_limit_ends_with_its_block() -> None:
    with pytest.raises(LimitError), bounded("reading it", 1, "k.kir"):
        spend(2)
    spend(1_000_000)
