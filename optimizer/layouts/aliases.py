"""Which results of TTNN calls live in their operand's buffer, and which calls free their operand."""

from __future__ import annotations

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig, OpConfig


def may_alias(graph: Graph, op: Op, source: TensorLayout, target: TensorLayout) -> bool:
    """Whether the first result of an op may share the buffer of its first operand.

    TTNN returns the operand itself when nothing changes, and reshapes and the like are views more often than
    the vocabulary promises (of sharded tensors too).
    """
    if not op.inputs or source != target or source.is_host:
        return False
    x, y = graph.value(op.inputs[0]), graph.value(op.outputs[0])
    if x.dtype is not y.dtype:
        return False
    row = opdef(op.op)
    if row.is_view(op, x.shape, y.shape, source.is_tile, source.dtype or x.dtype):
        return True
    returned = row.returns_operand
    return returned is not None and x.shape == y.shape and returned(row.full_attrs(op), x.shape, source.is_tile)


def frees_operand(config: OpConfig | None, source: TensorLayout) -> bool:
    """Whether a conv frees its input: with `deallocate_activation`, wherever in L1 it lies (not in DRAM)."""
    return isinstance(config, Conv2dConfig) and config.deallocate_activation and source.is_l1


def may_keep_operand(config: OpConfig | None, source: TensorLayout) -> bool:
    """Whether a conv that is told to free its input may leave it: rows in width shards that need no halo (conv2d.cpp of
    ttnn 0.81.1). Freeing a tensor twice does nothing."""
    width = isinstance(config, Conv2dConfig) and config.shard_layout == TensorMemoryLayout.WIDTH_SHARDED
    return width and not source.is_tile
