"""Linear scan: values that live together never share a register; no more registers than needed where that is known."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.errors import StateError
from optimizer.regalloc.intervals import LiveInterval, pressure, union
from optimizer.regalloc.linear_scan import AllocationFailure, Hint, linear_scan
from optimizer.regalloc.union_find import UnionFind


@st.composite
def intervals(draw: st.DrawFn, holes: bool = True, sizes: tuple[int, ...] = (1, 2, 4)) -> list[LiveInterval]:
    found = []
    for number in range(draw(st.integers(1, 10))):
        cuts = 2 * draw(st.integers(1, 3)) if holes else 2
        points = sorted(draw(st.lists(st.integers(0, 30), min_size=cuts, max_size=cuts, unique=True)))
        segments = union(zip(points[::2], points[1::2], strict=True))
        size = draw(st.sampled_from(sizes))
        found.append(LiveInterval(number, segments, size, draw(st.sampled_from([1, size]))))
    return found


def allocated(values: list[LiveInterval], capacity: int, **options: object) -> dict[int, int]:
    answer = linear_scan(values, capacity, **options)  # type: ignore[arg-type]
    assert not isinstance(answer, AllocationFailure), str(answer)
    return answer


@given(intervals())
def test_values_that_live_together_never_share_a_register(values: list[LiveInterval]) -> None:
    placed = allocated(values, 64, reserved={0, 5})
    for a, b in combinations(values, 2):
        registers = (set(range(placed[v.id], placed[v.id] + v.size)) for v in (a, b))
        assert not a.overlaps(b) or set.isdisjoint(*registers)
    for v in values:
        assert placed[v.id] % v.alignment == 0
        assert {0, 5}.isdisjoint(range(placed[v.id], placed[v.id] + v.size))


@given(intervals(holes=False, sizes=(1,)))
def test_single_registers_without_holes_take_exactly_the_pressure(values: list[LiveInterval]) -> None:
    placed = allocated(values, 64)
    assert max(placed.values()) + 1 == pressure(values)


def test_a_hole_is_used_by_another_value() -> None:
    kept = LiveInterval(0, ((0, 2), (8, 10)))
    short = LiveInterval(1, ((3, 7),))
    assert allocated([kept, short], 1) == {0: 0, 1: 0}


def test_fixed_registers_are_kept_free_for_their_value() -> None:
    placed = allocated([LiveInterval(0, ((0, 5),)), LiveInterval(1, ((3, 9),), fixed=0)], 2)
    assert placed == {0: 1, 1: 0}


def test_a_hint_is_followed_where_it_is_free() -> None:
    source, other, copy = LiveInterval(0, ((0, 4),)), LiveInterval(1, ((0, 9),)), LiveInterval(2, ((4, 8),))
    assert allocated([source, other, copy], 3, hints={2: (Hint(1), Hint(0))})[2] == 0


def test_failure_names_the_value_and_what_is_in_its_way_longest_first() -> None:
    long, short, late = LiveInterval(0, ((0, 9),)), LiveInterval(1, ((1, 4),)), LiveInterval(2, ((2, 5),))
    answer = linear_scan([long, short, late], 2)
    assert isinstance(answer, AllocationFailure)
    assert answer.interval == late
    assert [i.id for i in answer.overlapping] == [0, 1]
    assert "interval 2 [2, 5)" in str(answer)


def test_a_range_needs_consecutive_registers_and_its_alignment() -> None:
    single, quad = LiveInterval(0, ((0, 9),)), LiveInterval(1, ((1, 9),), size=4, alignment=4)
    assert allocated([single, quad], 8)[1] == 4
    assert isinstance(linear_scan([single, quad], 7), AllocationFailure)


@pytest.mark.parametrize("segments", [(), ((3, 3),), ((0, 4), (2, 6))])
def test_ill_formed_intervals_are_refused(segments: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(StateError):
        LiveInterval(0, segments)


def test_union_find_joins_sets_under_their_smallest_member() -> None:
    sets = UnionFind()
    sets.union(5, 3)
    sets.union(9, 5)
    assert sets.find(9) == 3
    assert sets.members(9) == (3, 5, 9)
    assert sets.find(7) == 7
