"""Graphs with layouts put on by hand, for what works on finished results."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.device import DeviceSpec
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.memory_config import DRAM_TILE, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import sharded_layout
from optimizer.options import Options
from optimizer.result import OpRecord, OptimizedGraph, Role

N150 = DeviceSpec.preset("n150")
BLOCK, HEIGHT, WIDTH = (
    TensorMemoryLayout.BLOCK_SHARDED,
    TensorMemoryLayout.HEIGHT_SHARDED,
    TensorMemoryLayout.WIDTH_SHARDED,
)


def shards(shape: tuple[int, ...], grid: tuple[int, int], kind: TensorMemoryLayout = BLOCK) -> TensorLayout:
    """Shards over a grid of (rows, columns) on an n150."""
    return sharded_layout(shape, kind, grid, N150)


def placed(graph: Graph, layouts: Mapping[str, TensorLayout], **options: object) -> OptimizedGraph:
    """A result with these layouts, everything else in DRAM; copies get their roles."""
    chosen = {v: layouts.get(v, DRAM_TILE) for v in graph.values}

    def role(op: Op) -> Role:
        if op.op != "ttnn.to_memory_config":
            return Role.COMPUTE
        source, target = chosen[op.inputs[0]], chosen[op.outputs[0]]
        return Role.LOAD if source.is_dram else Role.RESHARD if target.is_l1 else Role.SPILL

    records = {op.id: OpRecord(role(op), request=chosen[op.outputs[0]].memory) for op in graph.ops()}
    model = {"name": graph.name, "sha256": None}
    return OptimizedGraph(graph, chosen, records, N150, Options.from_mapping({"board": "n150", **options}), model)
