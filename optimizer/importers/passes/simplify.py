"""Arithmetic in one spelling, so that the patterns after it need to know only that one; the types of index tensors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from optimizer.families.elementwise.rows import BINARY
from optimizer.importers.passes.rewriting import (
    Pass,
    computes_otherwise,
    drop_dead,
    finish,
    fuse,
    is_scalar_op,
    origins,
    rewrites_each,
)
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.shape_rules import broadcast


@partial(Pass, "simplify")
def simplify(graph: Graph) -> int:
    """x/c -> x*(1/c); 1/sqrt(x) -> rsqrt; a/sqrt(b) -> a*rsqrt(b); x*x -> x^2; x*1, x+0, x^1 vanish."""
    return finish(graph, sum(_simplified(graph, op) for op in graph.ops()))


def _simplified(graph: Graph, op: Op) -> int:
    if not op.op.startswith("ttnn."):
        return 0
    scalar = op.attrs.get("scalar")
    if (
        is_scalar_op(op, "divide")
        and isinstance(scalar, int | float)
        and scalar
        and graph.value(op.inputs[0]).dtype.is_float
    ):
        op = replace(op, op="ttnn.multiply", attrs={**op.attrs, "scalar": 1.0 / float(scalar)})
        graph.replace_op(op)
        return 1 + _drop_neutral(graph, op)
    if _drop_neutral(graph, op):
        return 1
    if op.op == "ttnn.multiply" and len(op.inputs) == 2 and op.inputs[0] == op.inputs[1]:
        graph.replace_op(replace(op, op="ttnn.square", inputs=op.inputs[:1], attrs={}))
        return 1
    return _reciprocal_root(graph, op)


def _drop_neutral(graph: Graph, op: Op) -> int:
    neutral = (is_scalar_op(op, "multiply") and op.attrs["scalar"] == 1) or (
        is_scalar_op(op, "add", "subtract") and op.attrs["scalar"] == 0
    )
    if not neutral or op.attrs.get("activations") or graph.producer(op.inputs[0]) is None:
        return 0
    graph.replace_uses(op.outputs[0], op.inputs[0])
    drop_dead(graph, [op.id])
    return 1


def _reciprocal_root(graph: Graph, op: Op) -> int:
    divisor: str | None = None
    if op.op == "ttnn.reciprocal" or (op.op == "ttnn.rdiv" and op.attrs["scalar"] == 1):
        divisor = op.inputs[0]
    elif op.op == "ttnn.divide" and len(op.inputs) == 2:
        divisor = op.inputs[1]
    root = graph.produced_by(divisor, "sqrt") if divisor is not None else None
    if root is None or divisor is None or graph.only_use(divisor) is None:
        return 0
    if op.op != "ttnn.divide":
        fuse(graph, op, root, "rsqrt", root.inputs, {}, [])
        return 1
    graph.replace_op(replace(root, op="ttnn.rsqrt"))
    graph.replace_op(replace(op, op="ttnn.multiply"))
    computes_otherwise(graph, divisor)
    return 1


@rewrites_each("drop-repeat", *BINARY, "where")
def drop_repeat(graph: Graph, op: Op) -> int:
    """An operand repeated only to the other operands' shape: elementwise ops broadcast it themselves."""
    if len(op.inputs) < 2:
        return 0
    out = graph.value(op.outputs[0]).shape
    for index, value_id in enumerate(op.inputs):
        repeat = graph.produced_by(value_id, "repeat")
        if repeat is None:
            continue
        shape = graph.value(repeat.inputs[0]).shape
        inputs = (*op.inputs[:index], repeat.inputs[0], *op.inputs[index + 1 :])
        grown = all(s == 1 for s, r in zip(shape, repeat.attr("repeats"), strict=True) if r != 1)
        if not grown or broadcast(*[graph.value(v).shape for v in inputs]) != out:
            continue
        graph.replace_op(replace(op, inputs=inputs, origin=origins([repeat, op])))
        drop_dead(graph, [repeat.id])
        return 1
    return 0


@partial(Pass, "common-subexpressions")
def common_subexpressions(graph: Graph) -> int:
    """Ops with the same name, operands and attributes are computed once."""
    seen: dict[tuple[object, ...], Op] = {}
    merged: dict[str, list[Op]] = {}
    rewrites = 0
    returned = set(graph.outputs)
    for op in graph.ops():
        if not op.op.startswith(("ttnn.", "nchw.")):
            continue
        op = graph.op(op.id)
        key = (op.op, op.inputs, op.attrs_key)
        first = seen.setdefault(key, op)
        if first.id == op.id or any(v in returned for v in op.outputs):
            continue
        for old, new in zip(op.outputs, first.outputs, strict=True):
            graph.replace_uses(old, new)
        merged.setdefault(first.id, []).append(op)
        graph.remove_op(op.id)
        rewrites += 1
    for op_id, others in merged.items():
        kept = graph.op(op_id)
        graph.replace_op(replace(kept, origin=origins([kept, *others])))
    return finish(graph, rewrites)


_MOVES = ("ttnn.reshape", "ttnn.permute", "ttnn.slice", "ttnn.split", "ttnn.repeat")


@partial(Pass, "index-types")
def index_types(graph: Graph) -> int:
    """An i32 input that is only moved about and then cast to u32 becomes a u32 input."""
    given = [v for v in graph.inputs if graph.value(v).dtype is DType.I32]
    return finish(graph, sum(_visit(graph, v) for v in given))


def _visit(graph: Graph, start: str) -> int:
    moved: list[str] = []
    casts: list[Op] = []
    stack = [start]
    while stack:
        value_id = stack.pop()
        moved.append(value_id)
        if graph.is_output(value_id):
            return 0
        for op in graph.consumers(value_id):
            if op.op == "ttnn.typecast" and op.attr("dtype") == DType.U32.value:
                casts.append(op)
            elif op.op in _MOVES:
                stack.extend(v for v in op.outputs if v not in moved)
            else:
                return 0
    if not casts:
        return 0
    for value_id in moved:
        graph.set_value(replace(graph.value(value_id), dtype=DType.U32))
    for cast in casts:
        graph.replace_uses(cast.outputs[0], cast.inputs[0])
        drop_dead(graph, [cast.id])
    return len(casts)
