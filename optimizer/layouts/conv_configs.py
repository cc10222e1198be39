"""The knobs of a convolution beside its shard layout: rows of an activation block, second buffers, slices from DRAM.

Left out is only what another config gives in the same time and L1 (rules of tt-metal 0.81's `conv2d_utils.cpp` and
`conv2d_op_program_factory_common.cpp`, as `opmodel/analytical/windows/conv_buffers.py` has them): block heights that
TTNN would lower to a divisor of the shard's, second buffers of what is read once, and all of them where the
convolution is a plain matmul.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import TILE, ceil_div

HEIGHTS_OF_UNKNOWN_SHARDS = (0, 64, 32)
"""Rows of a block where the shards are not known: whole, then what takes less L1."""


def is_pointwise(op: Op) -> bool:
    """Whether the convolution multiplies pixel by pixel, which TTNN does as a matmul."""
    a = op.attrs
    ones = all(tuple(a.get(name, (1, 1))) == (1, 1) for name in ("kernel_size", "stride", "dilation"))  # type: ignore[arg-type]
    return ones and not any(a.get("padding", (0, 0)))  # type: ignore[arg-type]


def block_heights(output: TensorLayout) -> tuple[int, ...]:
    """Rows of an activation block that divide a shard of the result, from the whole one (0) down to one tile."""
    spec = output.shard_spec
    if spec is None:
        return HEIGHTS_OF_UNKNOWN_SHARDS
    tall = ceil_div(spec.shape[0], TILE)
    return (0, *(n * TILE for n in range(tall - 1, 0, -1) if tall % n == 0))


def doubled(op: Op, config: Conv2dConfig) -> Iterator[Conv2dConfig]:
    """The config with second buffers, of activations, of weights and of both, where they can make a difference."""
    kind = config.shard_layout
    if is_pointwise(op) and kind != TensorMemoryLayout.WIDTH_SHARDED.value:
        return
    # Height shards of several blocks of rows keep all their weights.
    read_once = kind == TensorMemoryLayout.HEIGHT_SHARDED.value and config.act_block_h_override
    yield replace(config, enable_act_double_buffer=True)
    if not read_once:
        yield replace(config, enable_weights_double_buffer=True)
        yield replace(config, enable_act_double_buffer=True, enable_weights_double_buffer=True)
