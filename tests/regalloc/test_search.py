"""Allocation in as few registers as possible, against trying every placement."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.regalloc.fewest import fewest_registers, peak_bound
from optimizer.regalloc.intervals import LiveInterval, pressure, union
from optimizer.regalloc.linear_scan import AllocationFailure, Hint, linear_scan
from optimizer.regalloc.search import Answer, evicting_scan, exact_search
from tests.samples import examples

Placement = dict[int, int]


@st.composite
def ranges(draw: st.DrawFn, most: int = 5) -> list[LiveInterval]:
    """Intervals of 1 to 4 registers whose components may live apart, some of them aligned with a phase."""
    found = []
    for number in range(draw(st.integers(1, most))):
        size = draw(st.sampled_from([1, 1, 2, 3, 4]))
        points = st.lists(st.integers(0, 8), min_size=2, max_size=2, unique=True)
        parts = tuple(((min(p), max(p)),) for p in (draw(points) for _ in range(size)))
        alignment = draw(st.sampled_from([1, 1, 2, 4]))
        phase = draw(st.integers(0, alignment - 1))
        whole = union(s for part in parts for s in part)
        components = parts if size > 1 and draw(st.booleans()) else ()
        found.append(LiveInterval(number, whole, size, alignment, None, phase, components))
    return found


def right(values: list[LiveInterval], placed: Placement, capacity: int, reserved: set[int]) -> bool:
    taken: set[tuple[int, int]] = set()
    for v in values:
        first = placed[v.id]
        if first % v.alignment != v.phase or first + v.size > capacity or first < 0:
            return False
        if reserved & set(range(first, first + v.size)):
            return False
        held = {(first + i, p) for i, part in enumerate(v.parts) for s, e in part for p in range(s, e)}
        if taken & held:
            return False
        taken |= held
    return True


def possible(values: list[LiveInterval], capacity: int, reserved: set[int]) -> bool:
    choices = product(range(capacity), repeat=len(values))
    return any(right(values, dict(enumerate(c)), capacity, reserved) for c in choices)


@settings(max_examples=examples(60), deadline=None)
@given(ranges(most=4), st.integers(3, 7))
def test_exact_search_finds_an_allocation_if_and_only_if_there_is_one(
    values: list[LiveInterval], capacity: int
) -> None:
    answer = exact_search(values, capacity, {0}, [1_000_000])
    assert answer is not Answer.GAVE_UP
    assert isinstance(answer, dict) == possible(values, capacity, {0})
    if isinstance(answer, dict):
        assert right(values, answer, capacity, {0})


@settings(deadline=None)
@given(ranges(most=8), st.integers(4, 20))
def test_whatever_eviction_finds_is_right(values: list[LiveInterval], capacity: int) -> None:
    answer = evicting_scan(values, capacity, {1}, [20_000])
    assert answer is None or right(values, answer, capacity, {1})


@settings(max_examples=examples(60), deadline=None)
@given(ranges(most=8))
def test_the_fewest_registers_are_as_few_as_exact_search_allows(values: list[LiveInterval]) -> None:
    answer = fewest_registers(values, 64, {0})
    assert not isinstance(answer, AllocationFailure)
    assert right(values, answer.assigned, answer.peak, {0})
    assert peak_bound(values, 64, {0}) <= answer.peak
    if answer.peak > max(answer.lower_bound, 1):
        assert exact_search(values, answer.peak - 1, {0}, [3_000_000]) is Answer.IMPOSSIBLE


@given(ranges(most=8))
def test_linear_scan_respects_components_and_phases(values: list[LiveInterval]) -> None:
    answer = linear_scan(values, 64)
    assert not isinstance(answer, AllocationFailure)
    assert right(values, answer, 64, set())


def test_a_component_that_died_leaves_its_register() -> None:
    pair = LiveInterval(0, ((0, 9),), 2, components=(((0, 3),), ((0, 9),)))
    late = LiveInterval(1, ((3, 9),))
    assert pressure([pair, late]) == 2
    assert linear_scan([pair, late], 2) == {0: 0, 1: 0}


def test_first_fit_leaves_holes_that_search_does_not() -> None:
    values = [LiveInterval(0, ((0, 4),)), LiveInterval(1, ((1, 9),)), LiveInterval(2, ((2, 4),))]
    values.append(LiveInterval(3, ((4, 9),), 2))
    assert isinstance(linear_scan(values, 3), AllocationFailure)
    answer = fewest_registers(values, 3)
    assert not isinstance(answer, AllocationFailure)
    assert answer.peak == 3


def test_a_hint_may_point_into_another_range() -> None:
    quad, copy = LiveInterval(0, ((0, 4),), 4), LiveInterval(1, ((4, 8),))
    assert linear_scan([quad, copy], 8, hints={1: [Hint(0, 2)]}) == {0: 0, 1: 2}


def test_an_interval_stays_where_it_is_held_unless_it_is_in_the_way() -> None:
    values = [LiveInterval(0, ((0, 4),)), LiveInterval(1, ((0, 9),)), LiveInterval(2, ((5, 9),), size=2, alignment=2)]
    assert evicting_scan(values[:2], 4, {0}, [1_000], {0: 3, 1: 2}) == {0: 3, 1: 2}
    placed = evicting_scan(values, 4, {0}, [1_000], {0: 3, 1: 2})
    assert placed == {0: 3, 1: 1, 2: 2}
