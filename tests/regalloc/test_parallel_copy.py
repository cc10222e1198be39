"""Copies that happen at once, as a sequence: every target ends up with what its source held."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from optimizer.regalloc.parallel_copy import sequential


def after(copies: list[tuple[int, int]]) -> dict[int, int]:
    held = {r: r for r in range(12)}
    for target, source in copies:
        held[target] = held[source]
    return held


@given(st.permutations(range(10)), st.permutations(range(10)), st.integers(0, 10))
def test_every_target_gets_what_its_source_held(targets: list[int], sources: list[int], count: int) -> None:
    wanted = dict(zip(targets[:count], sources[:count], strict=True))
    copies = sequential(wanted, [11])
    assert copies is not None
    held = after(copies)
    assert {target: held[target] for target in wanted} == wanted
    assert {target for target, _ in copies} <= {11, *wanted}


def test_nothing_is_copied_that_stays() -> None:
    assert sequential({3: 3, 4: 5}) == [(4, 5)]


def test_a_chain_needs_no_spare_register_and_a_cycle_does() -> None:
    assert sequential({1: 2, 2: 3, 3: 4}) == [(1, 2), (2, 3), (3, 4)]
    assert sequential({1: 2, 2: 1}) is None
    assert sequential({1: 2, 2: 1}, [7, 8]) == [(7, 1), (1, 2), (2, 7)]
