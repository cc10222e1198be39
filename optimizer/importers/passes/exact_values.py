"""Values of bf16 models that are computed in f32 because their error counts.

Of some the absolute error counts: arguments of sin and cos that come from inputs, grids, and what becomes an integer
without any layer before it.

bf16 keeps 8 bits: position 4,032 times a frequency is off by up to 8 radians, a point of a grid on an image of 160
pixels by a third of a pixel, and buckets of relative positions, which are logarithms made whole, by one. What such a
value is computed from, back to inputs and weights, is f32 here, and becomes bf16 again where it is read by anything
else. Exporters keep just these values in f32 in models of bf16.

An angle that grows with an integer input (a position) is first reduced to one turn: the kernels of sin and cos count
its half turns in 16 bits, which 102,943 exceeds.

What is selected by its size is computed in f32, back to the inputs, where little leads to it: scores that bf16 makes
equal, or turns round, select other rows than the model does, and no later op mends that. In f32 few are near enough to
each other. Back through a whole network it would cost half of its speed, hence the limits: what lies beyond them stays
a numeric risk (`selection-of-rounded-scores`).

Ops of a finished import whose error is too large are made f32 too. The interface stays as it is: what is given and
returned in bf16 is cast, and so is what an op that is not among them reads. Weights that only such ops read are f32 as
they come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import pi

from optimizer.importers.passes.rewriting import Pass, emit, finish
from optimizer.importers.passes.tile_padding import with_filled_padding
from optimizer.ir.dtype import DType
from optimizer.ir.graph import STATIC, Attr, Graph, Op, ValueKind
from optimizer.ir.opdef import RESULT_DTYPE, CostClass
from optimizer.ir.vocabulary import CAST, opdef

GRID = "ttnn.grid_sample"
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
        wide |= dict.fromkeys(_widen_island(graph, island))
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
    before = (v for op in graph.leading_to([value_id]) for v in op.inputs)
    return any(graph.value(v).kind is ValueKind.INPUT for v in (value_id, *before))


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


def _widen_island(graph: Graph, island: _Island) -> list[str]:
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


def can_widen(graph: Graph, op: Op) -> bool:
    """Whether an op gives bf16 that would be f32 if its operands were."""
    row = opdef(op.op)
    found = [graph.value(v).dtype for v in op.outputs]
    if row.opaque or op.op == CAST or DType.BF16 not in found or DType.F32 not in row.takes:
        return False
    return all(wide is _wide(old) or not old.is_float for old, wide in zip(found, _results(graph, op), strict=True))


def widened(graph: Graph, op_ids: Collection[str]) -> Graph:
    """A copy in which these ops read and give f32 instead of bf16; those that cannot stay as they are."""
    made = graph.copy()
    widen(made, op_ids)
    return with_filled_padding(made)


def widen(graph: Graph, op_ids: Collection[str], inputs: bool = False) -> None:
    """Let ops read and give f32 instead of bf16; with `inputs` the model's inputs that they read become f32 too."""
    chosen = sorted(op.id for op in graph.run_ops() if op.id in op_ids and can_widen(graph, op))
    for op in map(graph.op, chosen):
        results = _results(graph, op)
        graph.replace_op(replace(op, attrs=_without_bf16(op)))
        for v, dtype in zip(op.outputs, results, strict=True):
            if graph.value(v).dtype is not dtype:
                _widen_result(graph, op.id, v, dtype, chosen)
    kinds = (*STATIC, ValueKind.INPUT) if inputs else STATIC
    for v in dict.fromkeys(v for op_id in chosen for v in graph.op(op_id).inputs):
        value, readers = graph.value(v), graph.consumers(v)
        if value.dtype is not DType.BF16:
            continue
        wide = [op for op in readers if op.id in chosen]
        given = graph.producer(v) is None and value.kind in kinds
        if given and (len(wide) == len(readers) or value.kind is ValueKind.INPUT):
            graph.set_value(replace(value, dtype=DType.F32))
            read_as(graph, v, DType.BF16, _others(readers, chosen))
        else:
            _read_exact(graph, v, wide)
    graph.sort()


def _read_exact(graph: Graph, value_id: str, readers: Sequence[Op]) -> None:
    """Let ops read in f32 what is in bf16, from before the cast where one made it bf16."""
    maker = graph.producer(value_id)
    source = value_id if maker is None or maker.op != CAST else maker.inputs[0]
    if graph.value(source).dtype is not DType.F32:
        read_as(graph, value_id, DType.F32, readers, source)
        return
    for op in readers:
        graph.replace_op(replace(op, inputs=tuple(source if v == value_id else v for v in op.inputs)))


def _results(graph: Graph, op: Op) -> tuple[DType, ...]:
    """Element types that an op would give if its operands of bf16 were f32."""
    given = tuple(_wide(graph.value(v).dtype) for v in op.inputs)
    plain = replace(op, attrs=_without_bf16(op))
    return tuple(opdef(op.op).infer_dtypes(plain, given, len(op.outputs)))


def _widen_result(graph: Graph, op_id: str, value_id: str, dtype: DType, chosen: Collection[str]) -> None:
    """Give a result another element type; what reads the old one, outside or as an output of the model, gets a cast."""
    value = graph.value(value_id)
    if not graph.is_output(value_id):
        graph.set_value(replace(value, dtype=dtype))
        read_as(graph, value_id, value.dtype, _others(graph.consumers(value_id), chosen))
        return
    op = graph.op(op_id)
    wide = graph.add_value(replace(value, id=graph.fresh_id(f"{value_id}_{dtype.value}"), dtype=dtype)).id
    graph.replace_op(replace(op, outputs=tuple(wide if v == value_id else v for v in op.outputs)))
    for reader in graph.consumers(value_id):
        if reader.id in chosen:
            graph.replace_op(replace(reader, inputs=tuple(wide if v == value_id else v for v in reader.inputs)))
    emit(graph, graph.op(op_id), "typecast", [wide], {RESULT_DTYPE: value.dtype.value}, output=value_id)


def _others(ops: Iterable[Op], chosen: Collection[str]) -> list[Op]:
    return [op for op in ops if op.id not in chosen]


def _without_bf16(op: Op) -> dict[str, Attr]:
    return {k: v for k, v in op.attrs.items() if not (k == RESULT_DTYPE and v == DType.BF16.value)}


def _wide(dtype: DType) -> DType:
    return DType.F32 if dtype is DType.BF16 else dtype


SELECTING = ("ttnn.topk", "ttnn.sort")
MOST_OPS = 48
"""Ops that lead to a selection,"""
MOST_PRODUCTS = 1 << 24
"""and their multiply-adds, up to which they are computed in f32: programs of this size take their start's time."""


@partial(Pass, "exact-selection")
def exact_selection(graph: Graph) -> int:
    """Compute what is selected from in f32; rewrites are the selecting ops."""
    done = 0
    for op_id in [op.id for op in graph.ops() if op.op in SELECTING]:
        root = graph.op(op_id)
        before = [op for op in graph.leading_to(root.inputs) if not graph.is_const_eval(op)]
        products = sum(_products(graph, op) for op in before)
        if not can_widen(graph, root) or len(before) > MOST_OPS or products > MOST_PRODUCTS:
            continue
        widen(graph, [op_id, *(op.id for op in before)], inputs=True)
        done += 1
    return finish(graph, done)


def _products(graph: Graph, op: Op) -> int:
    """Multiply-adds of an op."""
    row = opdef(op.op)
    if row.products is None:
        return 0
    return row.products(row.full_attrs(op), [graph.value(v).shape for v in op.inputs]).multiply_adds
