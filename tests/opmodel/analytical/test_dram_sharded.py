"""Matmuls that read operand B from the DRAM banks: published times, what bounds them, and wrong places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.dram_sharded_matmuls import bank_shards
from optimizer.layouts.memory_config import DRAM_TILE, MemoryConfig, PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig
from optimizer.layouts.tiling import TILE, sharded_layout
from optimizer.opmodel import registry
from optimizer.opmodel.base import Bound, OpQuery, Rejection, TensorSpec

WIDTH = TensorMemoryLayout.WIDTH_SHARDED


def asked(
    board: str, sizes: tuple[int, int], cores: tuple[int, int], block: int, dtype: DType, readers: int = 1
) -> OpQuery:
    """32 rows times a weight of `sizes`, on so many cores for A and for the result."""
    device = DeviceSpec.preset(board)
    depth, columns = sizes
    a, result = (
        sharded_layout((1, 1, 32, n), WIDTH, (1, c), device) for n, c in zip((depth, columns), cores, strict=True)
    )
    assert result.shard_spec is not None
    config = MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(
        block, 1, result.shard_spec.shape[1] // TILE, None, readers
    )
    weight = TensorSpec(sizes, dtype, bank_shards(sizes, device.dram_banks, readers))
    fidelity = "LoFi" if dtype is DType.BFP4_B else "HiFi2"
    compute = (("fid", fidelity), ("fp32", False), ("l1acc", True))
    operands = (TensorSpec((1, 1, 32, depth), DType.BF16, a), weight)
    return OpQuery("ttnn.matmul", operands, (("compute", compute),), config, result.memory, DType.BF16)


def time_ns(board: str, query: OpQuery) -> int:
    model = registry.create("analytical", DeviceSpec.preset(board))
    assert model.constraints(query).valid, model.constraints(query).error
    return model.cost(query).time_ns


@pytest.mark.parametrize(
    ("board", "sizes", "cores", "block", "dtype", "published_us"),
    [
        ("n150", (8192, 1280), (8, 8), 8, DType.BFP8_B, 61.6),
        ("n150", (8192, 1024), (8, 8), 8, DType.BFP8_B, 50.7),
        ("p150", (6656, 50688), (52, 104), 2, DType.BFP4_B, 602.9),
    ],
)
def test_published_times_are_met_within_a_tenth(
    board: str, sizes: tuple[int, int], cores: tuple[int, int], block: int, dtype: DType, published_us: float
) -> None:
    """tenstorrent/tt-metal #42593, and a vocabulary on Blackhole (docs/knobs.md)."""
    assert time_ns(board, asked(board, sizes, cores, block, dtype)) == pytest.approx(published_us * 1000, rel=0.1)


def test_large_weights_are_bound_by_the_banks_and_come_at_their_rate() -> None:
    query = asked("n150", (4096, 14336), (32, 64), 2, DType.BFP8_B)
    cost = registry.create("analytical", DeviceSpec.preset("n150")).cost(query)
    assert cost.bound is Bound.DRAM
    assert 220 < cost.dram_read_bytes / cost.time_ns < 240


def test_two_readers_of_a_bank_are_faster_than_one_and_three_no_slower_by_much() -> None:
    one, two, three = (time_ns("p150", asked("p150", (4096, 12288), (32, 64), 2, DType.BFP8_B, n)) for n in (1, 2, 3))
    assert two < 0.8 * one
    assert three < 1.05 * two


def test_narrow_blocks_wait_for_the_cores_that_send_them() -> None:
    """tenstorrent/tt-metal #55443: one hop after the other."""
    times = [time_ns("n150", asked("n150", (8192, 384), (64, 12), block, DType.BFP4_B)) for block in (1, 4)]
    assert times[1] < 0.6 * times[0]


@pytest.mark.parametrize(
    ("tiles", "accepted"), [(3, True), (5, True), (12, False)], ids=["an equal share", "larger shards", "uneven"]
)
def test_a_weight_is_where_the_readers_look_for_it(tiles: int, accepted: bool) -> None:
    query = asked("n150", (512, 1024), (8, 8), 2, DType.BFP8_B)
    a, b = query.inputs
    spec = b.layout.shard_spec
    assert spec is not None
    memory = replace(b.layout.memory, shard_spec=replace(spec, shape=(512, tiles * TILE)))
    moved = replace(query, inputs=(a, replace(b, layout=TensorLayout(PageLayout.TILE, memory))))
    answer = registry.create("analytical", DeviceSpec.preset("n150")).constraints(moved)
    assert answer.valid is accepted
    assert answer.kind in (None, Rejection.WRONG_VALUES)


@pytest.mark.parametrize("over_banks", [True, False])
def test_a_bias_lies_over_the_banks_too(over_banks: bool) -> None:
    query = asked("n150", (512, 1024), (8, 8), 2, DType.BFP8_B)
    layout = bank_shards((1, 1024), 12, 1) if over_banks else DRAM_TILE
    linear = replace(query, op="ttnn.linear", inputs=(*query.inputs, TensorSpec((1, 1024), DType.BF16, layout)))
    answer = registry.create("analytical", DeviceSpec.preset("n150")).constraints(linear)
    assert answer.valid is over_banks
    assert over_banks or answer.kind is Rejection.WRONG_VALUES


def test_the_result_is_in_the_shards_of_the_config_whatever_is_asked_for() -> None:
    query = asked("n150", (512, 1024), (8, 8), 2, DType.BFP8_B)
    model = registry.create("analytical", DeviceSpec.preset("n150"))
    bare = replace(query, output=MemoryConfig(WIDTH, query.inputs[0].layout.memory.buffer_type))
    assert model.constraints(bare).outputs == model.constraints(query).outputs
