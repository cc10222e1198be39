"""The knobs of a convolution beside its shard layout and the rows of an activation block: second buffers.

Left out is only what another config gives in the same time and L1 (rules of tt-metal 0.81's `conv2d_utils.cpp` and
`conv2d_op_program_factory_common.cpp`, as `opmodel/analytical/windows/conv_buffers.py` has them): second buffers of
what is read once, and all of them where the convolution is a plain matmul.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig


def is_pointwise(attrs: Mapping[str, Any]) -> bool:
    """Whether the convolution multiplies pixel by pixel, which TTNN does as a matmul."""
    ones = all(tuple(attrs.get(name, (1, 1))) == (1, 1) for name in ("kernel_size", "stride", "dilation"))
    return ones and not any(attrs.get("padding", (0, 0)))


def doubled(op: Op, config: Conv2dConfig) -> Iterator[Conv2dConfig]:
    """The config with second buffers, of activations, of weights and of both, where they can make a difference."""
    kind = config.shard_layout
    if is_pointwise(op.attrs) and kind != TensorMemoryLayout.WIDTH_SHARDED.value:
        return
    # Height shards of several blocks of rows keep all their weights.
    read_once = kind == TensorMemoryLayout.HEIGHT_SHARDED.value and config.act_block_h_override
    yield replace(config, enable_act_double_buffer=True)
    if not read_once:
        yield replace(config, enable_weights_double_buffer=True)
        yield replace(config, enable_act_double_buffer=True, enable_weights_double_buffer=True)
