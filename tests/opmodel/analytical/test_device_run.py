"""The simulated run: what is in L1 when, and the peaks tt-metal would report."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.opmodel.analytical.case import Case, Refused
from optimizer.opmodel.analytical.device_run.session import Held, Session, view
from optimizer.opmodel.base import OpQuery, Rejection, TensorSpec

ROWS, TILED = PageLayout.ROW_MAJOR, PageLayout.TILE
BANK_TILE = 2048
"""Bytes per core of 64 interleaved bf16 tiles on 64 cores."""


@pytest.fixture
def start(n150: DeviceSpec) -> Any:
    def started(*inputs: TensorSpec) -> Session:
        return Session(Case(OpQuery("ttnn.reshape", inputs, ()), n150, {}, 32768))

    return started


def tiles(session: Session, memory: MemoryConfig, count: int) -> Held:
    """A tensor of `count` tiles per core."""
    return session.make((64 * count * 32, 32), DType.BF16, TILED, memory)


def test_tensors_fill_l1_from_the_top_where_they_first_fit(start: Any, layouts: Any) -> None:
    session = start()
    first, second = tiles(session, layouts.l1, 2), tiles(session, layouts.l1, 1)
    top = first.buffer.address
    assert second.buffer.address == top - BANK_TILE
    session.free(first)
    small, large = tiles(session, layouts.l1, 1), tiles(session, layouts.l1, 3)
    assert small.buffer.address == top + BANK_TILE
    assert large.buffer.address == top - 4 * BANK_TILE
    assert session.free_l1() == large.buffer.address


def test_a_program_stays_counted_until_the_next_starts(start: Any, layouts: Any) -> None:
    session = start()
    one = tiles(session, layouts.l1, 1)
    session.run(dfb=1000, scratch=24)
    two = tiles(session, layouts.l1, 1)
    assert session.peak_total == 2 * BANK_TILE + 1024
    session.free(one)
    session.run(cb=100)
    three = tiles(session, layouts.l1, 1)
    usage = session.usage(two, three)
    assert (usage.l1, usage.peak) == (2 * BANK_TILE, 2 * BANK_TILE + 1024)
    assert usage.cb == 1000 + 24 + 100  # a peak for each kind of buffer


def test_inputs_take_room_but_are_not_counted(start: Any, layouts: Any) -> None:
    session = start(layouts.tensor((2048, 32), layouts.l1))
    assert (session.tensors, session.peak_tensors) == (0, 0)
    assert session.free_l1() == session.bank - BANK_TILE


def refusal(action: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        action()
    return caught.value


def test_lack_of_room(start: Any, layouts: Any, n150: DeviceSpec) -> None:
    session = start()
    too_many = refusal(lambda: tiles(session, layouts.l1, 700))
    assert too_many.kind is Rejection.OOM_L1
    assert refusal(lambda: session.run(cb=n150.cb_limit_bytes + 32)).kind is Rejection.CB_TOO_BIG
    held = tiles(session, layouts.l1, 100)
    assert refusal(lambda: session.run(cb=held.buffer.address + 32)).kind is Rejection.CB_CLASH
    session.run(cb=held.buffer.address)
    assert refusal(lambda: session.run(small=32769)).kind is Rejection.OOM_L1
    assert refusal(lambda: session.make((2**20, 2**13), DType.BF16, TILED, layouts.dram)).kind is Rejection.OOM_DRAM


def test_freed_dram_can_be_used_again(start: Any, layouts: Any) -> None:
    session = start()
    for _ in range(3):
        held = session.make((2**16, 2**16), DType.BF16, TILED, layouts.dram)
        assert session.in_dram == held.buffer.size
        session.free(held)
    assert session.in_dram == 0


def test_a_view_allocates_nothing_and_keeps_the_buffer(start: Any, layouts: Any) -> None:
    session = start()
    held = session.make((64, 64), DType.BF16, TILED, layouts.l1)
    seen = session.replace(held, view(held, (1, 64, 64)))
    assert session.live == [seen.buffer]
    assert session.tensors == seen.buffer.size
    assert seen.recut == 0


def test_height_shards_viewed_narrower_grow_taller(start: Any, layouts: Any) -> None:
    session = start()
    held = session.make((384, 64), DType.BF16, ROWS, layouts.height(6, 64, 64))
    seen = view(held, (768, 32), (768, 32))
    assert seen.spec.shape == (128, 32)
    assert seen.recut == 128  # bytes of a row as it lies in L1


def test_width_shards_viewed_narrower_are_refused(start: Any, layouts: Any) -> None:
    session = start()
    held = session.make((384, 32), DType.BF16, ROWS, layouts.width(1, 384, 32))
    assert "must match physical height" in refusal(lambda: view(held, (384, 16), (384, 16))).args[0]


def test_cores_outside_the_grid_run_nothing(start: Any) -> None:
    assert "out of bounds" in refusal(lambda: start().run(ranges=((0, 0, 8, 0),))).args[0]
