"""First fit from the top: hand cases, and a byte-by-byte simulation on random programs."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import OptionError, StateError
from optimizer.l1.allocator import L1Allocator

BASE, TOP, STEP = 1000, 2024, 16


def addresses(program: str) -> dict[str, int | None]:
    """Where every buffer went: `a=64 b=16 -a` makes a and b, then frees a."""
    allocator = L1Allocator(BASE, TOP, STEP)
    found: dict[str, int | None] = {}
    for word in program.split():
        if word.startswith("-"):
            address = found[word[1:]]
            assert address is not None
            allocator.free(address)
        else:
            name, size = word.split("=")
            found[name] = allocator.allocate(int(size))
    return found


@pytest.mark.parametrize(
    ("program", "last"),
    [
        ("a=100", TOP - 112),
        ("a=100 b=16", TOP - 128),
        ("a=64 b=16 c=32 d=16 -a -c e=32", TOP - 32),  # the highest hole that fits, not the tightest
        ("a=32 b=16 -a c=48", TOP - 96),  # a hole too small is skipped
        ("a=32 b=32 c=16 -b -a d=64", TOP - 64),  # neighbouring holes join
        ("a=0 b=1", TOP - 32),  # an empty buffer takes one unit
        ("a=1024", BASE),
        ("a=1025", None),
        ("a=512 b=256 -a c=528", None),
    ],
)
def test_a_buffer_goes_to_the_upper_end_of_the_highest_hole_that_takes_it(program: str, last: int | None) -> None:
    assert list(addresses(program).values())[-1] == last


def test_misuse_is_an_error() -> None:
    allocator = L1Allocator(BASE, TOP, STEP)
    with pytest.raises(StateError):
        allocator.free(TOP - 16)
    with pytest.raises(StateError):
        allocator.allocate(-1)
    with pytest.raises(OptionError):
        L1Allocator(TOP, BASE, STEP)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
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


def test_a_copy_goes_its_own_way() -> None:
    allocator = L1Allocator(BASE, TOP, STEP)
    first = allocator.allocate(32)
    other = allocator.copy()
    assert other.allocate(16) == TOP - 48
    assert first is not None
    other.free(first)

    assert allocator.lowest_address == first
