"""Pools that tt-metal accepts and computes wrongly, or beyond their result: none of them is legal.

Every case was run on tt-metal's simulator (`benchmarks/layout_values.py`), with canaries around operand and result.
"""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorLayout, TensorMemoryLayout, interleaved
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, Rejection, TensorSpec

N150 = DeviceSpec.preset("n150")
BLOCK = TensorMemoryLayout.BLOCK_SHARDED
HEIGHT = TensorMemoryLayout.HEIGHT_SHARDED
WIDTH = TensorMemoryLayout.WIDTH_SHARDED
ROWS, TILES = PageLayout.ROW_MAJOR, PageLayout.TILE


def sharded(
    side: int, channels: int, kind: TensorMemoryLayout, grid: tuple[int, int], page: PageLayout
) -> TensorLayout:
    return sharded_layout((1, 1, side * side, channels), kind, grid, N150, page)


def pooled(
    model: OpModel, side: int, channels: int, layout: TensorLayout, kernel: int = 3, op: str = "max_pool2d"
) -> OpConstraints:
    attrs: dict[str, Any] = {
        "batch_size": 1,
        "input_height": side,
        "input_width": side,
        "channels": channels,
        "kernel_size": (kernel, kernel),
        "stride": (1, 1),
        "padding": (kernel // 2,) * 4,
        "dilation": (1, 1),
        "ceil_mode": False,
    }
    x = TensorSpec((1, 1, side * side, channels), DType.BF16, layout)
    return model.constraints(OpQuery(f"ttnn.{op}", (x,), tuple(sorted(attrs.items()))))


@pytest.mark.parametrize(
    ("side", "channels", "kind", "grid", "page"),
    [
        (20, 64, BLOCK, (8, 8), ROWS),
        (10, 16, BLOCK, (5, 2), ROWS),
        (10, 48, BLOCK, (5, 2), ROWS),
    ],
    ids=["8 a core", "8 of 16", "24 a core"],
)
def test_shards_that_are_rounded_up_in_the_result_put_channels_out_of_place(
    analytical: OpModel, side: int, channels: int, kind: TensorMemoryLayout, grid: tuple[int, int], page: PageLayout
) -> None:
    answer = pooled(analytical, side, channels, sharded(side, channels, kind, grid, page))

    assert answer.kind is Rejection.WRONG_VALUES
    assert "channels out of place" in str(answer.error)


@pytest.mark.parametrize(("channels", "kind", "grid"), [(96, WIDTH, (1, 2)), (80, BLOCK, (4, 2))])
def test_columns_of_different_widths_are_pooled_as_if_they_were_equal(
    analytical: OpModel, channels: int, kind: TensorMemoryLayout, grid: tuple[int, int]
) -> None:
    """96 channels as 64 and 32 hang; of 80 as 64 and 16 every value is wrong."""
    answer = pooled(analytical, 10, channels, sharded(10, channels, kind, grid, TILES), kernel=5)

    assert "channels out of place" in str(answer.error)


@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize(
    ("side", "channels", "kind", "grid", "page"),
    [
        (20, 128, BLOCK, (8, 8), ROWS),
        (10, 32, WIDTH, (1, 2), ROWS),
        (10, 48, HEIGHT, (5, 1), ROWS),
        (10, 48, HEIGHT, (4, 1), TILES),
        (10, 96, BLOCK, (5, 2), ROWS),
    ],
    ids=["16 a core", "16 in columns", "48 in rows", "48 in tiles", "48 a core"],
)
def test_half_a_last_tile_is_written_beyond_the_shard(
    analytical: OpModel,
    op: str,
    kernel: int,
    side: int,
    channels: int,
    kind: TensorMemoryLayout,
    grid: tuple[int, int],
    page: PageLayout,
) -> None:
    answer = pooled(analytical, side, channels, sharded(side, channels, kind, grid, page), kernel, op)

    assert answer.kind is Rejection.WRONG_VALUES
    assert "writes 32 bytes beyond" in str(answer.error)


@pytest.mark.parametrize(
    ("side", "channels", "kind", "grid", "page"),
    [
        (20, 128, BLOCK, (8, 4), ROWS),
        (10, 16, HEIGHT, (5, 1), ROWS),
        (10, 16, HEIGHT, (4, 1), TILES),
        (10, 8, HEIGHT, (5, 1), ROWS),
        (10, 24, HEIGHT, (5, 1), ROWS),
        (10, 96, BLOCK, (4, 3), TILES),
        (10, 256, WIDTH, (1, 4), TILES),
    ],
)
def test_what_is_right_stays_legal(
    analytical: OpModel, side: int, channels: int, kind: TensorMemoryLayout, grid: tuple[int, int], page: PageLayout
) -> None:
    assert pooled(analytical, side, channels, sharded(side, channels, kind, grid, page)).valid


@pytest.mark.parametrize("place", [BufferType.DRAM, BufferType.L1])
def test_a_pool_that_shards_its_operand_itself_and_writes_beyond_its_result_is_alone_in_l1(
    analytical: OpModel, place: BufferType
) -> None:
    x = TensorSpec((1, 1, 100, 48), DType.BF16, interleaved(place, ROWS))
    held = 0 if place is BufferType.DRAM else 2 * 48 * 2

    answer = pooled(analytical, 10, 48, x.layout)

    assert answer.valid
    assert answer.choice_room_bytes == N150.l1_bank_bytes(32768) - held


def test_other_pools_share_l1(analytical: OpModel) -> None:
    assert pooled(analytical, 10, 64, interleaved(BufferType.DRAM, ROWS)).choice_room_bytes == 0
