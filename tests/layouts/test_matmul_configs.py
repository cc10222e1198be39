"""Program configs of matmuls: widths of in0 blocks, output blocks, grids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import FormatError
from optimizer.ir.dtype import DType
from optimizer.layouts.matmul_configs import in0_block_widths, interleaved_matmul_configs
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    OpConfig,
    op_config_from_json,
)
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpQuery, TensorSpec

MULTICAST = (MatmulMultiCoreReuseMultiCast1DProgramConfig, MatmulMultiCoreReuseMultiCastProgramConfig)


def _configs(tiles: tuple[int, int, int], grid_yx: tuple[int, int]) -> tuple[OpConfig, ...]:
    return interleaved_matmul_configs(tiles, grid_yx, lambda width: width > 4, None)


def test_every_divisor_of_k_is_a_width() -> None:
    assert in0_block_widths(24) == (24, 12, 8, 6, 4, 3, 2, 1)
    assert in0_block_widths(1) == (1,)


@pytest.mark.parametrize("tiles", [(16, 24, 96), (128, 10, 10), (1, 64, 4008)])
def test_blocks_and_subblocks_divide_what_they_cut(tiles: tuple[int, int, int]) -> None:
    for config in _configs(tiles, (8, 8)):
        assert isinstance(config, MULTICAST)
        block_h, block_w = config.out_block_h or config.per_core_M, config.out_block_w or config.per_core_N
        assert config.per_core_M % block_h == config.per_core_N % block_w == 0
        assert block_h % config.out_subblock_h == block_w % config.out_subblock_w == 0
        assert config.out_subblock_h * config.out_subblock_w <= (4 if config.in0_block_w > 4 else 8)


def test_smaller_output_blocks_take_less_l1_and_read_operands_again() -> None:
    device = DeviceSpec.preset("n150")
    model = registry.create("analytical", device)
    operands = tuple(TensorSpec(shape, DType.BF16, DRAM_TILE) for shape in ((1, 1, 2048, 1024), (1, 1, 1024, 2048)))
    sizes, read = [], []
    for block in (None, 4, 2, 1):
        config = MatmulMultiCoreReuseMultiCastProgramConfig((8, 8), 4, 1, 1, 8, 8, out_block_w=block)
        query = OpQuery("ttnn.matmul", operands, (), config)
        answer = model.constraints(query)
        assert answer.valid, answer.error
        sizes.append(answer.peak_bytes)
        read.append(dict(model.cost(query).parts[0].terms))
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes)
    bounds = [sum(terms.values()) for terms in read]
    assert bounds[-1] > bounds[0]


def test_a_block_that_is_no_number_of_tiles_is_refused_and_none_is_a_cores_whole_output() -> None:
    config = MatmulMultiCoreReuseMultiCastProgramConfig((8, 8), 4, 1, 1, 8, 8, out_block_w=2)
    record = config.to_json()
    assert op_config_from_json(record) == config
    assert op_config_from_json({**record, "out_block_w": None}) == replace(config, out_block_w=None)
    for wrong in (0, -1, 2.0, "2", True):
        with pytest.raises(FormatError, match="out_block_w"):
            op_config_from_json({**record, "out_block_w": wrong})
