"""The compute config that the calls of a graph's op state."""

from __future__ import annotations

from typing import Any

from optimizer.ir.compute_config import COMPUTE, Computation
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import OpConfig
from optimizer.layouts.tiling import TILE, ceil_div


def in0_block_w(config: OpConfig | None) -> int:
    """Tiles along K that a program config's kernel takes at a time; 0: no config, or none that says so."""
    return getattr(config, "in0_block_w", 0)


def stated_compute(graph: Graph, op: Op, block_w: int = 0) -> Attr:
    """Attribute `compute` of the op's questions with in0 blocks of this width (0: TTNN chooses).

    None for ops without such a config. An op that brings its own, as those of other compilers' plans do, keeps it.
    """
    row = opdef(op.op)
    if row.compute is None or COMPUTE in op.attrs:
        return op.attrs.get(COMPUTE)
    values = [graph.value(v) for v in op.inputs]
    depth = 0
    if row.cost_class is CostClass.MATMUL:
        depth = ceil_div(values[0].shape[-2 if op.attrs.get("transpose_a") else -1], TILE)
        depth = min(depth, block_w or depth)
    asked = op.attrs.get("math_fidelity")
    return row.compute(Computation(tuple(v.dtype for v in values), depth, None if asked is None else str(asked))).attr


def sums_in_f32(graph: Graph, op: Op, block_w: int) -> bool:
    """Whether the op's calls ask for 32-bit destination registers, of which half as many tiles fit."""
    stated: dict[str, Any] = dict(stated_compute(graph, op, block_w) or ())  # type: ignore[arg-type]
    return bool(stated.get("fp32"))
