"""Operand B in the DRAM banks: equal shares of columns, and the configs that go with an operand A."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError
from optimizer.layouts.dram_sharded_matmuls import (
    bank_shards,
    columns_in_banks,
    columns_per_bank,
    dram_sharded_configs,
    readers_per_bank,
    shared_evenly,
)
from optimizer.layouts.memory_config import DRAM_TILE, TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig, op_config_from_json
from optimizer.layouts.tiling import sharded_layout

N150 = DeviceSpec.preset("n150")
WIDTH, BLOCK = TensorMemoryLayout.WIDTH_SHARDED, TensorMemoryLayout.BLOCK_SHARDED


@pytest.mark.parametrize(("columns", "banks", "readers", "expected"), [(96, 12, 1, 8), (256, 12, 1, 22), (32, 8, 3, 6)])
def test_every_bank_holds_as_many_columns_for_each_of_its_readers(
    columns: int, banks: int, readers: int, expected: int
) -> None:
    assert columns_per_bank(columns, banks, readers) == expected


@pytest.mark.parametrize("columns", range(1, 130))
def test_readers_find_the_columns_where_an_equal_share_puts_them(columns: int) -> None:
    for banks, readers in ((12, 1), (8, 1), (8, 2), (7, 3)):
        assert shared_evenly(columns_per_bank(columns, banks, readers), columns, readers)


def test_a_larger_shard_is_not_always_read_as_one() -> None:
    assert [s for s in range(3, 33) if shared_evenly(s, 32, 1)] == [3, 4, 5, 6, 7, 8, 11, 16, 32]


def test_a_weight_over_the_banks_is_written_and_read_as_any_layout() -> None:
    layout = bank_shards((512, 1000), 12, 1)
    assert layout.is_over_banks
    assert layout.describe() == "dram width_sharded 1x12 [512, 96] tile"
    assert TensorLayout.from_json(layout.to_json()) == layout
    assert columns_in_banks(layout, (512, 1000)) == 3
    assert columns_in_banks(layout, (256, 1000)) == columns_in_banks(DRAM_TILE, (512, 1000)) == 0


def test_blocks_are_parts_of_a_shard_or_several_shards() -> None:
    a, result = (sharded_layout((1, 1, 32, n), WIDTH, (1, 8), N150) for n in (1536, 2048))
    blocks = [config.in0_block_w for config in dram_sharded_configs(a, result, 48, None, 1)]
    assert blocks == [48, 24, 12, 6, 3, 2, 1]
    assert {config.per_core_N for config in dram_sharded_configs(a, result, 48, None, 1)} == {8}


@pytest.mark.parametrize(
    ("a", "result"),
    [
        (sharded_layout((1, 1, 32, 1536), WIDTH, (1, 7), N150), sharded_layout((1, 1, 32, 512), WIDTH, (1, 8), N150)),
        (sharded_layout((1, 1, 64, 1536), WIDTH, (1, 8), N150), sharded_layout((1, 1, 64, 512), WIDTH, (1, 8), N150)),
        (sharded_layout((1, 1, 32, 1536), BLOCK, (1, 8), N150), sharded_layout((1, 1, 32, 512), WIDTH, (1, 8), N150)),
        (sharded_layout((1, 1, 32, 1536), WIDTH, (1, 8), N150), DRAM_TILE),
    ],
    ids=["uneven shards", "two rows of tiles", "blocks", "a result in DRAM"],
)
def test_there_is_no_config_for_other_operands(a: TensorLayout, result: TensorLayout) -> None:
    assert list(dram_sharded_configs(a, result, 48, None, 1)) == []


def test_several_readers_of_a_bank_are_blackholes() -> None:
    assert readers_per_bank(N150) == (1,)
    assert readers_per_bank(DeviceSpec.preset("p150")) == (1, 2, 3)


def test_the_config_is_written_and_read() -> None:
    config = MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(2, 1, 6, "silu", 2)
    assert config.to_json()["kind"] == "matmul_dram_sharded"
    assert op_config_from_json(config.to_json()) == config
    with pytest.raises(FormatError, match="num_workers_per_dram_bank"):
        op_config_from_json({**config.to_json(), "num_workers_per_dram_bank": 0})
