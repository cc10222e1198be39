"""The element types that occur in a graph, user overrides included (tt-mlir `ScalarDataTypeAnalysis`).

An override of an op's element type becomes an explicit `ttnn.typecast` behind the op: few TTNN ops convert
while they compute, and a conversion that costs time must be visible in the result.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.errors import OptionError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import CAST, opdef
from optimizer.layouts.overrides import Overrides


def scalar_dtypes(graph: Graph, overrides: Overrides) -> tuple[DType, ...]:
    """Element types of all values and of all overrides, sorted by name; layouts are generated for no others."""
    found = {value.dtype for value in graph.values.values()}
    found |= {override.dtype for override in overrides.output_layouts.values() if override.dtype is not None}
    return tuple(sorted(found, key=lambda d: d.value))


def apply_dtype_overrides(graph: Graph, overrides: Overrides) -> Graph:
    """A graph in which every op with an overridden element type is followed by a typecast to it.

    Readers of the op and graph outputs read the converted value, and what they compute takes its element type
    from there by the vocabulary's rules. OptionError for ops with several results.
    """
    changed: set[str] = set()
    wanted = {op_id: o.dtype for op_id, o in overrides.output_layouts.items() if o.dtype is not None}
    for op_id, dtype in sorted(wanted.items()):
        op = graph.op(op_id)
        if len(op.outputs) != 1:
            raise OptionError(f"override-output-layout: {op.op} has {len(op.outputs)} results", node=op_id)
        source = graph.value(op.outputs[0])
        if source.dtype is dtype or _is_cast(graph, source.id, dtype):
            continue
        cast = graph.add_value(replace(source, id=graph.fresh_id(f"{source.id}_{dtype.value}"), dtype=dtype))
        graph.replace_uses(source.id, cast.id)
        cast_id = graph.fresh_id(f"{op_id}_typecast")
        graph.add_op(Op(cast_id, CAST, (source.id,), (cast.id,), {"dtype": dtype.value}, cast_id, op.origin), at=op_id)
        changed.add(cast.id)
    if changed:
        graph.sort()
        _propagate(graph, changed)
    return graph


def _is_cast(graph: Graph, value_id: str, dtype: DType) -> bool:
    """Whether everything that reads a value is a cast to the element type, as in a result that is solved again."""
    readers = graph.consumers(value_id)
    casts = all(op.op == CAST and op.attrs.get("dtype") == dtype.value for op in readers)
    return bool(readers) and casts and not graph.is_output(value_id)


def _propagate(graph: Graph, changed: set[str]) -> None:
    """Infer the element types of everything that depends on the changed values."""
    for op in graph.ops():
        row = opdef(op.op)
        if row.opaque or not changed.intersection(op.inputs):
            continue
        inferred = row.infer_dtypes(op, tuple(graph.value(v).dtype for v in op.inputs), len(op.outputs))
        for v, dtype in zip(op.outputs, inferred, strict=True):
            if graph.value(v).dtype is not dtype:
                graph.set_value(replace(graph.value(v), dtype=dtype))
                changed.add(v)
