"""Addresses for lifetimes: hand cases, every engine against trying all orders, and the checker itself."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_solvers.placement import (
    Lifetime,
    PlacementStatus,
    peak_load,
    place,
    placement_problem,
)
from reference_solvers.placement_cpsat import solve_placement_cpsat
from reference_solvers.placement_search import PlacementSearch, search

from optimizer.errors import OptionError
from tests.samples import examples

Plain = list[tuple[int, int, int]]
HOLES = [
    Lifetime(0, 2, 2),
    Lifetime(0, 4, 1),
    Lifetime(2, 6, 2),
    Lifetime(4, 8, 1),
    Lifetime(6, 8, 2),
    Lifetime(1, 3, 1),
]


def lifetimes(plain: Plain) -> list[Lifetime]:
    return [Lifetime(*buffer) for buffer in plain]


def random_buffers(seed: int, count: int, times: int = 8) -> Plain:
    random = Random(seed)
    starts = [random.randrange(times) for _ in range(count)]
    return [(start, random.randint(start + 1, times), random.randint(1, 6)) for start in starts]


def puzzle(seed: int, pieces: int, time: int = 40, room: int = 30) -> Plain:
    """A rectangle of time and room cut into pieces: they fit its height with nothing to spare."""
    random = Random(seed)
    rectangles = [(0, time, room)]
    while len(rectangles) < pieces:
        start, end, size = rectangles.pop(random.randrange(len(rectangles)))
        if random.random() < 0.5 and end - start > 1:
            cut = random.randint(start + 1, end - 1)
            rectangles += [(start, cut, size), (cut, end, size)]
        elif size > 1:
            part = random.randint(1, size - 1)
            rectangles += [(start, end, part), (start, end, size - part)]
        else:
            rectangles.append((start, end, size))
    return rectangles


def least_capacity(plain: Plain) -> int:
    """By all orders: in some optimum every buffer lies on the floor or on one that was put before it."""
    best = sum(size for _, _, size in plain)
    for order in permutations(plain):
        tops: list[int] = []
        for i, (start, end, size) in enumerate(order):
            below = (tops[j] for j in range(i) if order[j][0] < end and start < order[j][1])
            tops.append(max(below, default=0) + size)
        best = min(best, max(tops))
    return best


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_all_engines_agree_with_trying_every_order(seed: int, count: int) -> None:
    plain = random_buffers(seed, count)
    least = least_capacity(plain)
    for capacity, feasible in ((least, True), (least - 1, False)):
        for found in (search(plain, capacity), solve_placement_cpsat(plain, capacity)):
            assert (found.addresses is not None, found.complete) == (feasible, True)
            if found.addresses is not None:
                assert placement_problem(lifetimes(plain), found.addresses, capacity) is None
        result = place(lifetimes(plain), capacity)
        assert result.status is (PlacementStatus.PLACED if feasible else PlacementStatus.INFEASIBLE)


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32 - 1))
def test_search_and_cp_sat_agree_where_addresses_are_scarce(seed: int) -> None:
    plain = random_buffers(seed, 14, times=12)
    capacity = peak_load(lifetimes(plain))

    searched, modelled = search(plain, capacity), solve_placement_cpsat(plain, capacity)

    assert (searched.complete, modelled.complete) == (True, True)
    assert (searched.addresses is None) == (modelled.addresses is None)


def test_parts_that_share_no_time_are_solved_apart() -> None:
    """300 times six buffers of which first fit needs too much room: only independent parts finish at all."""
    plain = [(start + 10 * i, end + 10 * i, size) for i in range(300) for start, end, size in random_buffers(7, 6)]

    found = search(plain, least_capacity(random_buffers(7, 6)), max_nodes=20_000)

    assert found.addresses is not None
    assert placement_problem(lifetimes(plain), found.addresses, least_capacity(random_buffers(7, 6))) is None


@pytest.mark.parametrize("seed", range(8))
def test_puzzles_without_a_spare_byte_are_solved(seed: int) -> None:
    plain = puzzle(seed, 60, time=60, room=60)

    result = place(lifetimes(plain), 60)

    assert result.status is PlacementStatus.PLACED
    assert result.addresses is not None
    assert placement_problem(lifetimes(plain), result.addresses, 60) is None


def test_a_limit_in_nodes_is_kept_and_repeatable() -> None:
    hard = puzzle(9, 150, time=300, room=200)

    first, second = search(hard, 200, max_nodes=400), search(hard, 200, max_nodes=400)

    assert first == second
    assert (first.addresses, first.complete) == (None, False)
    assert first.nodes == 400


def test_a_limit_in_seconds_is_kept() -> None:
    assert search(puzzle(9, 150, time=300, room=200), 200, seconds=0.0).complete is False


def test_a_paused_search_goes_on_where_it_was() -> None:
    plain = puzzle(1, 60, time=60, room=60)
    at_once = search(plain, 60)
    paused = PlacementSearch(plain, 60)

    pauses = 0
    while not (found := paused.run(pause_seconds=0.0)).complete:
        pauses += 1

    assert pauses > 0
    assert found == at_once


def test_more_load_than_room_is_refused_without_search() -> None:
    result = place(HOLES, peak_load(HOLES) - 1)

    assert (result.status, result.engine, result.addresses) == (PlacementStatus.INFEASIBLE, "load", None)


def test_easy_cases_are_first_fit() -> None:
    result = place(HOLES, 6)

    assert (result.status, result.engine) == (PlacementStatus.PLACED, "first-fit")
    assert result.addresses is not None
    assert placement_problem(HOLES, result.addresses, 6) is None


def test_nothing_and_empty_buffers_are_placed() -> None:
    assert place([], 0).addresses == ()
    assert search([], 0).addresses == ()
    assert place([Lifetime(0, 2, 0), Lifetime(0, 2, 4)], 4).status is PlacementStatus.PLACED


def test_sizes_are_searched_in_their_common_unit() -> None:
    plain = random_buffers(11, 6)
    large = [Lifetime(start, end, size * 4096) for start, end, size in plain]
    room = least_capacity(plain) * 4096

    assert place(large, room + 4095).status is PlacementStatus.PLACED
    assert place(large, room - 1).status is PlacementStatus.INFEASIBLE


@pytest.mark.parametrize(
    ("addresses", "problem"),
    [
        ((0, 4), None),
        ((0, 3), "overlap at time 1"),
        ((-1, 4), "buffer 0 at -1 leaves"),
        ((0, 7), "buffer 1 at 7 leaves"),
        ((0,), "1 addresses for 2 buffers"),
    ],
)
def test_the_checker_finds_what_is_wrong(addresses: tuple[int, ...], problem: str | None) -> None:
    found = placement_problem([Lifetime(0, 2, 4), Lifetime(1, 3, 4)], addresses, 8)

    assert (found is None) == (problem is None)
    assert found is None or str(problem) in found


@pytest.mark.parametrize("buffer", [Lifetime(2, 2, 1), Lifetime(3, 2, 1), Lifetime(0, 1, -1)])
def test_impossible_buffers_are_errors(buffer: Lifetime) -> None:
    with pytest.raises(OptionError):
        place([buffer], 10)
