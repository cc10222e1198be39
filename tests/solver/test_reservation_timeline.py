"""Reservations, aliases and windows: hand cases, and random changes against plain lists of bytes."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import StateError
from optimizer.solver.reservation_timeline import Reservation, ReservationTimeline
from tests.samples import examples


@pytest.fixture
def timeline() -> ReservationTimeline[str]:
    """`a` at 2 .. 5 (100 B) and `b` at 4 .. 8 (30 B) of ten positions."""
    made = ReservationTimeline[str](10)
    made.reserve("a", 2, 5, 100)
    made.reserve("b", 4, 8, 30)
    return made


def test_bytes_at_positions(timeline: ReservationTimeline[str]) -> None:
    assert [timeline.active_bytes(p) for p in range(10)] == [0, 0, 100, 100, 130, 130, 30, 30, 30, 0]


def test_peaks_of_windows(timeline: ReservationTimeline[str]) -> None:
    assert (timeline.peak_bytes(0, 9), timeline.peak_bytes(0, 3), timeline.peak_bytes(6, 9)) == (130, 100, 30)


def test_fits_up_to_the_limit(timeline: ReservationTimeline[str]) -> None:
    assert timeline.fits(3, 6, 70, 200)
    assert not timeline.fits(3, 6, 71, 200)
    assert timeline.fits(6, 9, 170, 200)


def test_active_reservations(timeline: ReservationTimeline[str]) -> None:
    assert timeline.active(4) == (Reservation("a", 2, 5, 100), Reservation("b", 4, 8, 30))
    assert timeline.active(9) == ()


def test_a_view_keeps_its_source_and_costs_nothing_more(timeline: ReservationTimeline[str]) -> None:
    timeline.alias("view", "a", 7)

    assert [timeline.active_bytes(p) for p in (5, 6, 7, 8)] == [130, 130, 130, 30]
    assert timeline.reservation("view") == Reservation("a", 2, 7, 100)


def test_an_alias_of_an_alias_shares_the_same_room(timeline: ReservationTimeline[str]) -> None:
    timeline.alias("view", "a", 4)
    timeline.alias("in place", "view", 9)
    assert timeline.holder("in place") == "a"
    assert timeline.active_bytes(9) == 100
    timeline.release("in place")
    assert [timeline.active_bytes(p) for p in (5, 6, 9)] == [130, 30, 0]


def test_an_ops_own_operands_can_be_left_out(timeline: ReservationTimeline[str]) -> None:
    timeline.alias("view", "a", 5)

    assert timeline.active_bytes(4, without=("view", "a", "elsewhere")) == 30
    assert timeline.active_bytes(8, without=("a",)) == 30


def test_released_room_is_free(timeline: ReservationTimeline[str]) -> None:
    timeline.release("a")

    assert timeline.peak_bytes(0, 9) == 30
    assert timeline.reservation("a") is None


def test_misuse_is_an_error(timeline: ReservationTimeline[str]) -> None:
    timeline.alias("view", "a", 6)
    for misuse in (
        lambda: timeline.reserve("a", 0, 1, 1),
        lambda: timeline.reserve("c", 3, 2, 1),
        lambda: timeline.reserve("c", 3, 10, 1),
        lambda: timeline.reserve("c", 3, 4, -1),
        lambda: timeline.alias("c", "nothing", 4),
        lambda: timeline.alias("c", "a", 1),
        lambda: timeline.release("a"),
        lambda: timeline.release("c"),
        lambda: timeline.peak_bytes(3, 10),
        lambda: ReservationTimeline[str](0),
    ):
        with pytest.raises(StateError):
            misuse()
    assert timeline.active_bytes(6) == 130


class Naive:
    """One list of bytes per position, counted anew for every question."""

    def __init__(self) -> None:
        self.rooms: dict[int, tuple[int, int, int]] = {}
        self.shared: dict[int, tuple[int, int]] = {}

    def end(self, root: int) -> int:
        return max([self.rooms[root][1], *(end for source, end in self.shared.values() if source == root)])

    def bytes_at(self, position: int) -> int:
        return sum(size for root, (start, _, size) in self.rooms.items() if start <= position <= self.end(root))


@settings(max_examples=examples(150))
@given(st.integers(0, 2**32 - 1), st.integers(1, 40))
def test_it_agrees_with_a_naive_one(seed: int, positions: int) -> None:
    random = Random(seed)
    timeline, naive = ReservationTimeline[int](positions), Naive()
    for value in range(60):
        held = sorted(naive.rooms) + sorted(naive.shared)
        action = random.random()
        if held and action < 0.3:
            gone = random.choice(held)
            if any(source == gone for source, _ in naive.shared.values()):
                continue
            timeline.release(gone)
            naive.rooms.pop(gone, None)
            naive.shared.pop(gone, None)
        elif held and action < 0.6:
            source = random.choice(held)
            root = naive.shared[source][0] if source in naive.shared else source
            end = random.randint(naive.rooms[root][0], positions - 1)
            timeline.alias(value, source, end)
            naive.shared[value] = (root, end)
        else:
            start = random.randrange(positions)
            end, size = random.randint(start, positions - 1), random.randint(0, 50)
            timeline.reserve(value, start, end, size)
            naive.rooms[value] = (start, end, size)
        expected = [naive.bytes_at(p) for p in range(positions)]
        assert [timeline.active_bytes(p) for p in range(positions)] == expected
        low = random.randrange(positions)
        high = random.randint(low, positions - 1)
        assert timeline.peak_bytes(low, high) == max(expected[low : high + 1])
