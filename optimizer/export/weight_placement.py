"""Where weights are, and where ops on weights read and leave them, before the first run.

Weights come to L1 last, when nothing else needs room: until then those that go there are in DRAM.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.ir.graph import Op
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import CONVERT, COPY, FETCH, SEND, opdef
from optimizer.layouts.memory_config import HOST_ROW_MAJOR, BufferType, PageLayout, TensorLayout, interleaved
from optimizer.layouts.weight_forms import reshapes_on_host
from optimizer.result import OptimizedGraph


def prepared_layout(result: OptimizedGraph, value_id: str) -> TensorLayout:
    """Where a weight is while weights are prepared."""
    layout = result.layouts[value_id]
    return interleaved(BufferType.DRAM, layout.page_layout) if layout.is_l1 else layout


def read_layouts(result: OptimizedGraph, op: Op) -> list[TensorLayout]:
    """Where an op on weights reads its operands."""
    row, found = opdef(op.op), []
    on_host = reshapes_on_host(result.graph, op)
    for position, value_id in enumerate(op.inputs):
        have = prepared_layout(result, value_id)
        page = row.required_page(op, position)
        tiled = page is Page.TILE or (page is Page.ANY and have.is_tile)
        here = interleaved(BufferType.DRAM, PageLayout.TILE if tiled else PageLayout.ROW_MAJOR)
        at = have if row.opaque or not have.is_host else here
        found.append(HOST_ROW_MAJOR if on_host else at)
    return found


def left_layout(result: OptimizedGraph, op: Op, operands: Sequence[TensorLayout]) -> TensorLayout:
    """Where an op on weights leaves its result: DRAM, in the page layout that the op gives; reshapes of weights
    whose tiles would be mostly padding on the host."""
    if reshapes_on_host(result.graph, op):
        return HOST_ROW_MAJOR
    tiled = opdef(op.op).gives_tiles(op, bool(operands) and operands[0].is_tile)
    return interleaved(BufferType.DRAM, PageLayout.TILE if tiled else PageLayout.ROW_MAJOR)


def moves(source: TensorLayout, target: TensorLayout) -> tuple[tuple[str, TensorLayout], ...]:
    """The ops that bring a tensor from one placement and page layout into another, with what each gives."""
    found: list[tuple[str, TensorLayout]] = []
    at = source
    if source.page_layout is not target.page_layout:
        at = TensorLayout(target.page_layout, source.memory)
        found.append((CONVERT, at))
    if at.memory != target.memory and not (at.is_host and target.is_host):
        found.append((SEND if at.is_host else FETCH if target.is_host else COPY, target))
    return tuple(found)
