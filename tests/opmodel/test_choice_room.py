"""What tt-metal chooses by itself depends on how much L1 is free: the answer says how much it takes for granted."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE, TensorLayout
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.base import OpConstraints, OpQuery, TensorSpec

SMALL = 32768
DEVICE = DeviceSpec.preset("p150")


def linear(rows: int, depth: int, columns: int, layout: TensorLayout, small: int = SMALL) -> OpConstraints:
    inputs = (
        TensorSpec((1, 1, rows, depth), DType.BF16, layout),
        TensorSpec((1, 1, depth, columns), DType.BF16, DRAM_TILE),
    )
    return AnalyticalOpModel(DEVICE, small).constraints(OpQuery("ttnn.linear", inputs))


@pytest.mark.parametrize(("rows", "depth", "columns"), [(392, 2048, 512), (196, 1024, 512), (784, 480, 128)])
@pytest.mark.parametrize("layout", [L1_TILE, DRAM_TILE])
def test_the_choice_is_the_same_down_to_the_room_stated(
    rows: int, depth: int, columns: int, layout: TensorLayout
) -> None:
    alone = linear(rows, depth, columns, layout)
    operand = -(-rows // 32) * (depth // 32) * 2048 if layout is L1_TILE else 0
    free = DEVICE.l1_bank_bytes(SMALL) - -(-operand // (DEVICE.num_cores * 2048)) * 2048
    spare = free - alone.choice_room_bytes
    assert alone.choice_room_bytes
    assert linear(rows, depth, columns, layout, SMALL + spare // 32 * 32) == alone


def test_with_less_room_another_program_is_chosen() -> None:
    """13 x 64 tiles by 64 x 16: buffers of 16 x 16 tiles are taken to fit in an empty L1, then of 8 x 8."""
    alone, crowded = linear(392, 2048, 512, L1_TILE), linear(392, 2048, 512, L1_TILE, SMALL + 150_000)
    assert (alone.cb_bytes, crowded.cb_bytes) == (12_288, 262_144)
    assert crowded.choice_room_bytes < alone.choice_room_bytes


def test_other_ops_take_nothing_for_granted() -> None:
    inputs = (TensorSpec((1, 1, 32, 32), DType.BF16, DRAM_TILE),)
    assert AnalyticalOpModel(DEVICE, SMALL).constraints(OpQuery("ttnn.relu", inputs)).choice_room_bytes == 0
