"""First-fit from the top and its replay: hand cases, and a byte-by-byte simulation on random programs."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import OptionError, StateError
from optimizer.solver.l1_allocator import (
    Alloc,
    AllocatorReplay,
    Event,
    Execute,
    Free,
    L1Allocator,
    Region,
    Replay,
    ReplayError,
    replay,
)
from tests.samples import examples

BASE, TOP, STEP = 1000, 2024, 16


def run(*events: Event, cb_end: int | None = None) -> Replay:
    return replay(events, base_bytes=BASE, top_bytes=TOP, alignment_bytes=STEP, cb_end_bytes=cb_end)


def addresses(result: Replay) -> dict[int | str, int]:
    return {placement.buffer: placement.address for placement in result.placements}


def test_buffers_stack_downwards_from_the_top() -> None:
    assert addresses(run(Alloc("a", 100), Alloc("b", 16))) == {"a": TOP - 112, "b": TOP - 128}


def test_the_highest_hole_that_fits_is_taken_not_the_tightest() -> None:
    """Holes of 64 (upper) and 32 (lower) bytes; a 32-byte buffer goes to the upper end of the upper one."""
    program = [Alloc("a", 64), Alloc("b", 16), Alloc("c", 32), Alloc("d", 16), Free("a"), Free("c"), Alloc("e", 32)]

    assert addresses(run(*program))["e"] == TOP - 32


def test_a_hole_too_small_is_skipped() -> None:
    program = [Alloc("a", 32), Alloc("b", 16), Free("a"), Alloc("c", 48)]

    assert addresses(run(*program))["c"] == TOP - 48 - 48


def test_neighbouring_holes_join() -> None:
    program = [Alloc("a", 32), Alloc("b", 32), Alloc("c", 16), Free("b"), Free("a"), Alloc("d", 64)]

    assert addresses(run(*program))["d"] == TOP - 64


def test_an_empty_buffer_takes_one_alignment_unit() -> None:
    assert addresses(run(Alloc("a", 0), Alloc("b", 1))) == {"a": TOP - 16, "b": TOP - 32}


def test_out_of_memory_names_the_step_and_the_largest_hole() -> None:
    result = run(Alloc("a", 512), Alloc("b", 256), Free("a"), Alloc("c", 528))

    failure = result.failure
    assert failure is not None
    assert (failure.step, failure.error, failure.buffer) == (3, ReplayError.OUT_OF_MEMORY, "c")
    assert (failure.needed_bytes, failure.available_bytes, failure.live_bytes) == (528, 512, 256)


def test_the_whole_bank_can_be_used() -> None:
    assert run(Alloc("a", 1024)).ok
    assert not run(Alloc("a", 1025)).ok


def test_circular_buffers_may_touch_but_not_reach_the_lowest_buffer() -> None:
    assert run(Alloc("a", 1000), Execute(16)).ok

    failure = run(Alloc("a", 1000), Execute(17)).failure
    assert failure is not None
    assert (failure.step, failure.error, failure.available_bytes) == (1, ReplayError.CB_CLASH, 16)


def test_a_hole_above_the_lowest_buffer_does_not_help_circular_buffers() -> None:
    """Sum of bytes fits easily (16 + 900), but the live buffer sits deep."""
    result = run(Alloc("a", 800), Alloc("b", 16), Free("a"), Execute(900))

    assert result.failure is not None
    assert result.failure.error is ReplayError.CB_CLASH
    assert result.failure.live_bytes == 16


def test_circular_buffers_alone_may_use_l1_small_but_no_more() -> None:
    assert run(Execute(1040), cb_end=TOP + 16).ok

    failure = run(Execute(1041), cb_end=TOP + 16).failure
    assert failure is not None
    assert failure.error is ReplayError.CB_TOO_BIG


def test_peaks_tell_holes_from_use() -> None:
    result = run(Alloc("a", 512), Alloc("b", 16), Free("a"), Execute(32))

    assert (result.peak_extent_bytes, result.peak_sum_bytes) == (528 + 32, 528)


@pytest.mark.parametrize(
    ("events", "error"),
    [([Free("x")], ReplayError.UNKNOWN_BUFFER), ([Alloc("x", 1), Alloc("x", 1)], ReplayError.DUPLICATE_BUFFER)],
)
def test_events_that_make_no_sense_are_failures(events: list[Event], error: ReplayError) -> None:
    failure = run(*events).failure

    assert failure is not None
    assert (failure.step, failure.error) == (len(events) - 1, error)


def test_misuse_of_the_allocator_is_an_error() -> None:
    allocator = L1Allocator(BASE, TOP, STEP)
    with pytest.raises(StateError):
        allocator.free(TOP - 16)
    with pytest.raises(StateError):
        allocator.allocate(-1)
    with pytest.raises(OptionError):
        L1Allocator(TOP, BASE, STEP)


@settings(max_examples=examples(200), deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**32 - 1))
def test_addresses_match_a_byte_by_byte_simulation(seed: int) -> None:
    """The simulation marks every byte and tries addresses downwards one alignment unit at a time."""
    random = Random(seed)
    used = bytearray(TOP)
    live: dict[int, tuple[int, int]] = {}
    allocator = L1Allocator(BASE, TOP, STEP)
    for _ in range(60):
        if live and random.random() < 0.45:
            address, size = live.pop(random.choice(sorted(live)))
            allocator.free(address)
            used[address : address + size] = bytes(size)
            continue
        size = random.randint(0, 160)
        room = -(-max(size, 1) // STEP) * STEP
        expected = next((a for a in range(TOP - room, BASE - 1, -STEP) if not any(used[a : a + room])), None)

        assert allocator.allocate(size) == expected

        if expected is not None:
            live[expected] = (expected, room)
            used[expected : expected + room] = b"\1" * room
        assert allocator.lowest_address == min(live, default=None)
        assert allocator.live_bytes == sum(used)


def test_the_small_region_is_an_allocator_of_its_own() -> None:
    program = [
        Alloc("table", 16, Region.SMALL),
        Alloc("a", 16),
        Execute(1008),
        Free("table"),
        Alloc("b", 64, Region.SMALL),
    ]
    result = replay(program, base_bytes=BASE, top_bytes=TOP, alignment_bytes=STEP, small_end_bytes=TOP + 64)

    assert result.ok
    assert addresses(result) == {"table": TOP + 48, "a": TOP - 16, "b": TOP}
    assert run(Alloc("table", 16, Region.SMALL)).failure is not None


def test_a_failed_event_changes_nothing() -> None:
    replaying = AllocatorReplay(base_bytes=BASE, top_bytes=TOP, alignment_bytes=STEP)
    assert replaying.apply(0, Alloc("a", 512)) is None
    assert replaying.apply(1, Alloc("b", 528)) is not None
    assert replaying.address("b") is None
    assert replaying.apply(2, Alloc("c", 512)) is None
    assert replaying.address("c") == BASE


def test_a_copy_goes_its_own_way() -> None:
    allocator = L1Allocator(BASE, TOP, STEP)
    first = allocator.allocate(32)
    other = allocator.copy()
    assert other.allocate(16) == TOP - 48
    assert first is not None
    other.free(first)

    assert (allocator.live_bytes, allocator.lowest_address) == (32, first)
