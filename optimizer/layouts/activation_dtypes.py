"""Block-float activations: which results have them.

bfp8_b and bfp4_b exist in tiles only. A result has them where its op's call can state its element type (`dtype=`), or
passes on that of its operands; it keeps bf16 where it is an output of the model or lies in rows, where its padding may
hold infinities, and where an op that reads it takes no blocks. Inputs, weights and biases are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.opdef import RESULT_DTYPE
from optimizer.ir.padding import spoils_blocks
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import PageLayout

Runs = Callable[[Graph, Op], bool]
"""Whether an op of a graph runs with the element types that it has there."""


def with_block_activations(graph: Graph, pages: Mapping[str, PageLayout], block: DType, runs: Runs) -> Graph:
    """A copy in which every result that can be in the block format is; `pages` are those of the values.

    Results that may not be blocks, and ops that refuse them, send the ops that would have to give them back to bf16,
    until every op runs.
    """
    asked = frozenset(op.id for op in graph.run_ops() if _can_state(graph, pages, op))
    while True:
        typed, makers = _typed(graph, asked, block)
        refused = frozenset(_refused(typed, graph, pages, makers, runs))
        if not refused:
            return typed
        asked -= refused


def _storable(graph: Graph, pages: Mapping[str, PageLayout], value_id: str) -> bool:
    value = graph.value(value_id)
    tiled = pages[value_id] is PageLayout.TILE
    own = tiled and value.kind is ValueKind.ACTIVATION and not graph.is_output(value_id)
    return own and not spoils_blocks(graph, value_id)


def _can_state(graph: Graph, pages: Mapping[str, PageLayout], op: Op) -> bool:
    if not opdef(op.op).takes_dtype or RESULT_DTYPE in op.attrs:
        return False
    return all(graph.value(v).dtype is DType.BF16 and _storable(graph, pages, v) for v in op.outputs)


def _typed(graph: Graph, asked: frozenset[str], block: DType) -> tuple[Graph, Mapping[str, frozenset[str]]]:
    """The graph with these ops giving blocks, and per value that is blocks now the ops that made it so."""
    typed = graph.copy()
    makers: dict[str, frozenset[str]] = {}
    for op in list(typed.run_ops()):
        row = opdef(op.op)
        if row.opaque:
            continue
        inputs = tuple(typed.value(v).dtype for v in op.inputs)
        natural = row.infer_dtypes(op, inputs, len(op.outputs))
        wanted = natural
        if row.takes_dtype and RESULT_DTYPE not in op.attrs:
            own = tuple(graph.value(v).dtype for v in op.outputs)
            wanted = (block,) * len(own) if op.id in asked else own
            if wanted != natural:
                typed.replace_op(op.with_attrs(**{RESULT_DTYPE: wanted[0].value}))
        for v, dtype in zip(op.outputs, wanted, strict=True):
            if dtype is not graph.value(v).dtype:
                typed.set_value(replace(typed.value(v), dtype=dtype))
                passed_on = frozenset[str]().union(*(makers.get(x, frozenset()) for x in op.inputs))
                makers[v] = frozenset((op.id,)) if op.id in asked else passed_on
    return typed, makers


def _refused(
    typed: Graph, graph: Graph, pages: Mapping[str, PageLayout], makers: Mapping[str, frozenset[str]], runs: Runs
) -> Iterator[str]:
    """Ops that may not give blocks: their results, or what becomes of them, may not be blocks or are read by an op that
    does not run so."""
    for op in typed.run_ops():
        of_results = [makers[v] for v in op.outputs if v in makers]
        of_operands = [makers[v] for v in op.inputs if v in makers]
        if any(v in makers and not _storable(graph, pages, v) for v in op.outputs):
            yield from frozenset().union(*of_results)
        elif (of_results or of_operands) and not runs(typed, op):
            yield from frozenset().union(*(of_operands or of_results))
