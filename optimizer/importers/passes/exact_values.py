"""Values whose absolute error counts are computed in f32: arguments of sin and cos that come from inputs, grids, and
what becomes an integer without any layer before it.

bf16 keeps 8 bits: position 4,032 times a frequency is off by up to 8 radians, a point of a grid on an image of 160
pixels by a third of a pixel, and buckets of relative positions, which are logarithms made whole, by one. What such a
value is computed from, back to inputs and weights, is f32 here, and becomes bf16 again where it is read by anything
else. Exporters keep just these values in f32 in models of bf16.

An angle that grows with an integer input (a position) is first reduced to one turn: the kernels of sin and cos count
its half turns in 16 bits, which 102,943 exceeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import pi

from optimizer.importers.passes.rewriting import Pass, emit, finish
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.opdef import RESULT_DTYPE, CostClass
from optimizer.ir.vocabulary import opdef

CAST, GRID = "ttnn.typecast", "ttnn.grid_sample"
EXACT_OPERAND = {"ttnn.sin": 0, "ttnn.cos": 0, GRID: 1, CAST: 0}
"""Ops with the operand whose absolute error counts; of casts, those to integers."""
F32 = DType.F32


@dataclass
class _Island:
    """What a value is computed from by element-wise ops and movement alone."""

    values: list[str] = field(default_factory=list)
    """Floats among them."""
    ops: list[Op] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)
    """Floats that ops of other kinds make: products, norms."""
    counts: bool = False
    """Whether it begins at integers that the model is given."""
    given: bool = False
    """Whether it begins at inputs at all."""


@partial(Pass, "exact-values")
def exact_values(graph: Graph) -> int:
    """Compute such values in f32; rewrites are the ops that read one."""
    wide: dict[str, None] = {}
    inside: set[str] = set()
    done = 0
    for root in [op for op in graph.ops() if op.op in EXACT_OPERAND]:
        if root.op == CAST and DType(root.attr(RESULT_DTYPE)).is_float:
            continue
        island = _island(graph, root.inputs[EXACT_OPERAND[root.op]])
        if not island.values or not (root.op == GRID or (not island.edges and (island.given or root.op == CAST))):
            continue
        wide |= dict.fromkeys(_widen(graph, island))
        inside |= {root.id, *(op.id for op in island.ops)}
        if root.op not in (GRID, CAST):
            wide |= dict.fromkeys(_turn(graph, root, island, inside))
        done += 1
    for value_id in wide:
        _narrow(graph, value_id, inside)
    return finish(graph, done)


def _island(graph: Graph, wanted: str) -> _Island:
    found, stack, seen = _Island(), [wanted], set[str]()
    while stack:
        value_id = stack.pop()
        if value_id in seen:
            continue
        seen.add(value_id)
        value, op = graph.value(value_id), graph.producer(value_id)
        if not value.dtype.is_float:
            found.counts |= _is_given(graph, value_id)
            continue
        if op is None:
            found.values.append(value_id)
            found.given |= value.kind is ValueKind.INPUT
        elif not _is_followed(graph, op):
            found.edges.append(value_id)
        elif op not in found.ops:
            found.values.extend(op.outputs)
            found.ops.append(op)
            stack.extend(op.inputs)
    found.given |= found.counts
    return found


def _is_given(graph: Graph, value_id: str) -> bool:
    """Whether integers depend on an input."""
    stack, seen = [value_id], set[str]()
    while stack:
        here = stack.pop()
        if here not in seen:
            seen.add(here)
            if graph.value(here).kind is ValueKind.INPUT:
                return True
            op = graph.producer(here)
            stack.extend(op.inputs if op is not None else ())
    return False


def _is_followed(graph: Graph, op: Op) -> bool:
    """Element-wise ops and movement, and products of a column with a row, which add nothing up."""
    row = opdef(op.op)
    if row.opaque:
        return False
    if _is_outer_product(graph, op):
        return True
    return row.cost_class is CostClass.ELTWISE or (row.moves_elements and row.cost_class is not CostClass.EMBEDDING)


def _is_outer_product(graph: Graph, op: Op) -> bool:
    return op.op == "ttnn.matmul" and graph.value(op.inputs[0]).shape[-1:] == (1,) and len(op.inputs) == 2


def _widen(graph: Graph, island: _Island) -> list[str]:
    """Make an island f32; the values that are f32 now."""
    for op in island.ops:
        if op.op == CAST:
            graph.replace_op(op.with_attrs(**{RESULT_DTYPE: F32.value}))
        elif _is_outer_product(graph, op):
            graph.replace_op(replace(op, op="ttnn.multiply", attrs={}))
    for value_id in island.edges:
        maker = graph.producer(value_id)
        if maker is not None and opdef(maker.op).takes_dtype and len(maker.outputs) == 1:
            graph.replace_op(maker.with_attrs(**{RESULT_DTYPE: F32.value}))
            island.values.append(value_id)
        else:
            among = {op.id for op in island.ops if op.op != CAST}  # a cast gives f32 of it already
            read_as(graph, value_id, F32, [op for op in graph.consumers(value_id) if op.id in among])
    for value_id in island.values:
        graph.set_value(replace(graph.value(value_id), dtype=F32))
    return island.values


def _turn(graph: Graph, root: Op, island: _Island, inside: set[str]) -> list[str]:
    """Let sin or cos of f32 read the angle within one turn; its results."""
    angle = root.inputs[0]
    if island.counts:
        turns = emit(graph, root, "multiply", [angle], {"scalar": 0.5 / pi})
        angle = emit(graph, root, "multiply", [emit(graph, root, "frac", [turns], {})], {"scalar": 2 * pi})
        inside |= {op.id for op in graph.consumers(root.inputs[0])}
    graph.replace_op(replace(root, inputs=(angle,)))
    graph.set_value(replace(graph.value(root.outputs[0]), dtype=F32))
    return list(root.outputs)


def _narrow(graph: Graph, value_id: str, inside: set[str]) -> None:
    """Let ops outside read a value in bf16."""
    read_as(graph, value_id, DType.BF16, [op for op in graph.consumers(value_id) if op.id not in inside])


def read_as(graph: Graph, value_id: str, dtype: DType, readers: Sequence[Op], source: str = "") -> None:
    """Let ops read a value, or what stands for it, through one cast to another element type."""
    if not readers:
        return
    cast = emit(graph, readers[0], "typecast", [source or value_id], {RESULT_DTYPE: dtype.value})
    for op in readers:
        inputs = tuple(cast if v == value_id else v for v in op.inputs)
        graph.replace_op(replace(graph.op(op.id), inputs=inputs))
