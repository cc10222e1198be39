"""Ops of a finished import whose results are f32 though the model is imported in bf16: those whose error is too large.

The interface stays as it is: what is given and returned in bf16 is cast, and so is what an op that is not among them
reads. Weights that only such ops read are f32 as they come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from optimizer.importers.passes.exact_values import read_as
from optimizer.importers.passes.rewriting import STATIC, emit
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.opdef import RESULT_DTYPE
from optimizer.ir.vocabulary import CAST, opdef


def can_widen(graph: Graph, op: Op) -> bool:
    """Whether an op gives bf16 that would be f32 if its operands were."""
    row = opdef(op.op)
    if row.opaque or op.op == CAST or not op.outputs:
        return False
    found = [graph.value(v).dtype for v in op.outputs]
    given = tuple(_wide(graph.value(v).dtype) for v in op.inputs)
    plain = replace(op, attrs=_without_bf16(op))
    return DType.BF16 in found and row.infer_dtypes(plain, given, len(found)) == tuple(map(_wide, found))


def widened(graph: Graph, op_ids: Collection[str]) -> Graph:
    """A copy in which these ops read and give f32 instead of bf16; those that cannot stay as they are."""
    made = graph.copy()
    chosen = {op.id for op in made.run_ops() if op.id in op_ids and can_widen(made, op)}
    for op in [made.op(op_id) for op_id in sorted(chosen)]:
        made.replace_op(replace(op, attrs=_without_bf16(op)))
        for v in op.outputs:
            if made.value(v).dtype is DType.BF16:
                _widen(made, op.id, v, chosen)
    operands = dict.fromkeys(v for op_id in sorted(chosen) for v in made.op(op_id).inputs)
    for v in [v for v in operands if made.value(v).dtype is DType.BF16]:
        readers = [op for op in made.consumers(v) if op.id in chosen]
        value = made.value(v)
        if made.producer(v) is None and value.kind in STATIC and len(readers) == made.consumer_count(v):
            made.set_value(replace(value, dtype=DType.F32))
        else:
            read_as(made, v, DType.F32, readers)
    made.sort()
    return made


def _widen(graph: Graph, op_id: str, value_id: str, chosen: Collection[str]) -> None:
    """Make a result f32; what reads it in bf16, outside or as an output of the model, gets a cast."""
    value = graph.value(value_id)
    if not graph.is_output(value_id):
        graph.set_value(replace(value, dtype=DType.F32))
        read_as(graph, value_id, DType.BF16, _others(graph.consumers(value_id), chosen))
        return
    op = graph.op(op_id)
    wide = graph.add_value(replace(value, id=graph.fresh_id(f"{value_id}_f32"), dtype=DType.F32)).id
    graph.replace_op(replace(op, outputs=tuple(wide if v == value_id else v for v in op.outputs)))
    for reader in graph.consumers(value_id):
        if reader.id in chosen:
            graph.replace_op(replace(reader, inputs=tuple(wide if v == value_id else v for v in reader.inputs)))
    emit(graph, graph.op(op_id), "typecast", [wide], {RESULT_DTYPE: DType.BF16.value}, output=value_id)


def _others(ops: Iterable[Op], chosen: Collection[str]) -> list[Op]:
    return [op for op in ops if op.id not in chosen]


def _without_bf16(op: Op) -> dict[str, Attr]:
    return {k: v for k, v in op.attrs.items() if not (k == RESULT_DTYPE and v == DType.BF16.value)}


def _wide(dtype: DType) -> DType:
    return DType.F32 if dtype is DType.BF16 else dtype
