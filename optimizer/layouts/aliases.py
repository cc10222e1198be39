"""Which results of TTNN calls live in their operand's buffer, and which calls free their operand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import Conv2dConfig, OpConfig

_UNCHANGED = frozenset(
    {
        "ttnn.to_memory_config", "ttnn.to_layout", "ttnn.slice", "ttnn.concat", "ttnn.repeat_interleave",
        "ttnn.reshape", "ttnn.pad", "ttnn.repeat", "ttnn.split",
    }
)  # fmt: skip
"""Ops that hand back their operand when there is nothing to do (measured on mock devices)."""

_TURNED = ("ttnn.permute", "ttnn.transpose")
"""Ops that hand it back when only dimensions of size 1 change places and the shape stays as it is."""


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
    row = opdef(op.op)
    if source.is_tile:
        if row.view is not None and row.view(row.full_attrs(op), x.shape, y.shape):
            return True
    elif op.op == "ttnn.reshape" and (x.shape[-1:] or (1,)) == (y.shape[-1:] or (1,)):
        return True  # rows stay as they are, however many there are of each outer index
    if op.op in _TURNED:
        return x.shape == y.shape and _keeps_order(op, x.shape, source.is_tile)
    return op.op in _UNCHANGED and x.shape == y.shape


def _keeps_order(op: Op, shape: tuple[int, ...], tiled: bool) -> bool:
    """Whether the dimensions larger than 1 stay in their order, and those of tiles in place: else elements move."""
    attrs: Mapping[str, Any] = opdef(op.op).full_attrs(op)
    order = list(range(len(shape)))
    if op.op == "ttnn.permute":
        order = [d % len(shape) for d in attrs["dims"]]
    else:
        one, other = (attrs[name] % len(shape) for name in ("dim0", "dim1"))
        order[one], order[other] = order[other], order[one]
    kept = [d for d in order if shape[d] != 1]
    return kept == sorted(kept) and not (tiled and order[-2:] != list(range(len(shape)))[-2:])


def frees_operand(config: OpConfig | None, source: TensorLayout) -> bool:
    """Whether a conv frees its input: with `deallocate_activation`, wherever in L1 it lies (not in DRAM)."""
    return isinstance(config, Conv2dConfig) and config.deallocate_activation and source.is_l1
