"""Ops of a finished import whose results are f32 though the model is imported in bf16: those whose error is too large.

The interface stays as it is: what is given and returned in bf16 is cast, and so is what an op that is not among them
reads. Weights that only such ops read are f32 as they come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from optimizer.importers.passes.exact_values import read_as
from optimizer.importers.passes.rewriting import emit
from optimizer.ir.dtype import DType
from optimizer.ir.graph import STATIC, Attr, Graph, Op, ValueKind
from optimizer.ir.opdef import RESULT_DTYPE
from optimizer.ir.vocabulary import CAST, opdef


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
    return made


def widen(graph: Graph, op_ids: Collection[str], inputs: bool = False) -> None:
    """Let ops read and give f32 instead of bf16; with `inputs` the model's inputs that they read become f32 too."""
    chosen = sorted(op.id for op in graph.run_ops() if op.id in op_ids and can_widen(graph, op))
    for op in map(graph.op, chosen):
        results = _results(graph, op)
        graph.replace_op(replace(op, attrs=_without_bf16(op)))
        for v, dtype in zip(op.outputs, results, strict=True):
            if graph.value(v).dtype is not dtype:
                _widen(graph, op.id, v, dtype, chosen)
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


def _widen(graph: Graph, op_id: str, value_id: str, dtype: DType, chosen: Collection[str]) -> None:
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
