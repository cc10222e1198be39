"""Which results of TTNN calls live in their operand's buffer, and which calls free their operand."""

from __future__ import annotations

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import Conv2dConfig, OpConfig

_UNCHANGED = frozenset(
    {
        "ttnn.to_memory_config", "ttnn.to_layout", "ttnn.slice", "ttnn.concat", "ttnn.repeat_interleave",
        "ttnn.transpose", "ttnn.reshape", "ttnn.permute", "ttnn.pad", "ttnn.repeat", "ttnn.split",
    }
)  # fmt: skip
"""Ops that hand back their operand when there is nothing to do (measured on mock devices)."""


def may_alias(graph: Graph, op: Op, source: TensorLayout, target: TensorLayout) -> bool:
    """Whether the first result of an op may share the buffer of its first operand.

    TTNN returns the operand itself when nothing changes, and reshapes and the like are views more often than
    the vocabulary promises (row-major and sharded tensors too).
    """
    if not op.inputs or source != target or source.is_host:
        return False
    x, y = graph.value(op.inputs[0]), graph.value(op.outputs[0])
    if x.dtype is not y.dtype:
        return False
    if op.op == "ttnn.reshape" and not source.is_tile and x.shape[-1:] == y.shape[-1:]:
        return True  # rows stay as they are, however many there are of each outer index
    row = opdef(op.op)
    if row.view is not None and row.view(row.full_attrs(op), x.shape, y.shape):
        return True
    return op.op in _UNCHANGED and x.shape == y.shape


def frees_operand(config: OpConfig | None, source: TensorLayout) -> bool:
    """Whether a conv frees its input: with `deallocate_activation`, wherever in L1 it lies (not in DRAM)."""
    return isinstance(config, Conv2dConfig) and config.deallocate_activation and source.is_l1
