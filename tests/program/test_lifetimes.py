"""What shares a buffer is freed together, right after the last read of any of it."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.errors import StateError
from optimizer.program.lifetimes import Event, deallocations


def event(label: str, reads: str = "", writes: str = "", shares: str | None = None, **more: Any) -> Event:
    return Event(label, tuple(reads.split()), tuple(writes.split()), shares, **more)


def test_buffers_are_freed_after_the_last_read_of_everything_in_them() -> None:
    maybe = event("2", "a", "b", shares="a", may_copy=True)
    events = [event("1", "", "a"), maybe, event("3", "b", "c"), event("4", "c", "d")]
    assert deallocations(events, {"d"}) == [(), (), ("a", "b"), ("c",)]
    assert deallocations([events[0], event("2", "a", "b", shares="a"), *events[2:]], {"d"})[2] == ("a",)
    assert deallocations(events, {"b", "d"})[2] == ()


def test_an_op_that_frees_a_buffer_still_needed_is_refused() -> None:
    view = event("view", "a", "b", shares="a")
    conv = event("conv", "b", "c", frees=("b",))
    assert deallocations([event("1", "", "a"), view, conv], {"c"}) == [(), (), ()]
    with pytest.raises(StateError, match="'conv' frees its operand 'a'"):
        deallocations([event("1", "", "a"), view, conv, event("late", "a", "d")], {"c", "d"})
    with pytest.raises(StateError, match="'conv'"):
        deallocations([event("1", "", "a"), view, conv], {"a", "c"})
