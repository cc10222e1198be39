"""What every importer does last: output names, schedule, the well-formedness of the result, the report.

Which tensors of the model the values equal: a value that the lowering names after a tensor stands for it
(`Value.stands_for`) and keeps that through the passes; a pass that makes a value something else says so
(`passes.rewriting.computes_otherwise`). What a pass adds stands for nothing, but for channels-last twins. Here follow
the values around those that do: permutes and reshapes move elements and change none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from optimizer.errors import DTypeError, GraphError, UnsupportedOpError
from optimizer.importers.model import ImportedModel, ImportReport
from optimizer.importers.passes.tile_padding import tile_padding
from optimizer.ir.dtype import DType
from optimizer.ir.graph import ForeignTensor, Graph, Op, Value, ValueKind
from optimizer.ir.making import check_graph
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import opdef
from optimizer.process import logs

_log = logs.room("importers")


def finish(
    graph: Graph,
    output_names: Sequence[str],
    *,
    sha256: str,
    foreign_ops: Mapping[str, int],
    fused: Mapping[str, int],
    conversions: Mapping[str, int],
    warnings: Sequence[str],
    reasons: Mapping[str, str] | None = None,
) -> ImportedModel:
    """Fill padding that ops take for elements, name the outputs as the model does, order the schedule and sum up."""
    filled = tile_padding.apply(graph)
    graph.prune()
    _compute_outputs(graph, output_names)
    _name_outputs(graph, output_names)
    graph.sort()
    follow_movement(graph)
    _drop_unused_data(graph)
    check(graph)
    notes = list(dict.fromkeys(warnings))
    if conversions:
        shown = ", ".join(f"{n} tensors {kind}" for kind, n in sorted(conversions.items()))
        notes.append(f"element types converted: {shown}")
    parameters = [v for v in graph.values.values() if v.kind is ValueKind.PARAMETER and graph.producer(v.id) is None]
    report = ImportReport(
        foreign_ops=dict(sorted(foreign_ops.items())),
        fused={**fused, **({tile_padding.name: filled} if filled else {})},
        unsupported=_unsupported(graph),
        warnings=tuple(notes),
        parameter_count=sum(v.volume for v in parameters),
        parameter_bytes=sum(parameter_bytes(v) for v in parameters),
        dtype_conversions=dict(sorted(conversions.items())),
        reasons=dict(reasons or {}),
    )
    _log.info(
        "imported",
        graph=graph.name,
        nodes=sum(foreign_ops.values()),
        ops=len(graph.run_ops()),
        fused=report.fused,
        unsupported=len(report.unsupported),
        warnings=len(report.warnings),
    )
    return ImportedModel(graph, sha256, report, output_names=tuple(output_names))


def check(graph: Graph) -> None:
    """`check_graph`, and that what TTNN prepares on the host are floats that are known before a run."""
    check_graph(graph)
    for op in graph.ops():
        if op.op.startswith("nchw."):
            raise GraphError(f"{op.op} was not lowered", node=op.name)
        row = opdef(op.op)
        for index, value_id in enumerate(op.inputs):
            if row.required_page(op, index) is Page.HOST and not graph.value(value_id).dtype.is_float:
                raise DTypeError(
                    f"operand {index} '{value_id}' of {op.op} is {graph.value(value_id).dtype}: TTNN prepares weights "
                    "of floating-point types only",
                    node=op.name or op.id,
                    alternatives=[str(dtype) for dtype in DType if dtype.is_float],
                )
            computed = graph.value(value_id).kind in (ValueKind.INPUT, ValueKind.ACTIVATION)
            if computed and row.required_page(op, index) is Page.HOST and not graph.is_const_eval(op):
                raise UnsupportedOpError(
                    f"operand {index} '{value_id}' of {op.op} must be a parameter or computed from parameters: "
                    "TTNN prepares it once, on the host",
                    node=op.name or op.id,
                )


def parameter_bytes(value: Value) -> int:
    """Bytes of a tensor's elements, a 1024th of a tile each (block formats share exponents)."""
    return -(-value.volume * value.dtype.tile_bytes // 1024)


def _unsupported(graph: Graph) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, list[str]] = {}
    for op in graph.ops():
        if opdef(op.op).opaque:
            found.setdefault(op.op, []).append(op.name or op.id)
    return tuple((kind, tuple(names)) for kind, names in sorted(found.items()))


def _compute_outputs(graph: Graph, names: Sequence[str]) -> None:
    """A model may return an input or a weight as it is; every returned value gets an op that computes it."""
    returned = list(graph.outputs)
    for position, (value_id, name) in enumerate(zip(graph.outputs, names, strict=True)):
        if graph.producer(value_id) is not None:
            continue
        source = graph.value(value_id)
        kind = ValueKind.ACTIVATION if source.kind is ValueKind.INPUT else ValueKind.PARAMETER
        stem = "".join(c if c.isalnum() else "_" for c in name)
        op_id = graph.fresh_id(f"return_{stem}")
        result = replace(source, id=graph.fresh_id(name), kind=kind, data=None)
        graph.add_value(result)
        graph.add_op(Op(op_id, "ttnn.identity", (value_id,), (result.id,), {}, op_id))
        returned[position] = result.id
    graph.outputs = returned


def _name_outputs(graph: Graph, names: Sequence[str]) -> None:
    """Passes may have given an output's value another id; call it as the model does where that is possible."""
    seen = Counter(graph.outputs)
    for position, name in enumerate(names):
        current = graph.outputs[position]
        producer = graph.producer(current)
        if current == name or producer is None or seen[current] > 1 or name in graph.values:
            continue
        value = graph.value(current)
        graph.add_value(replace(value, id=name))
        outputs = tuple(name if v == current else v for v in producer.outputs)
        graph.replace_op(replace(producer, outputs=outputs))
        graph.replace_uses(current, name)
        del graph.values[current]


def _drop_unused_data(graph: Graph) -> None:
    """Every value is read, written or an input; anything else would only confuse a reader."""
    if not graph.outputs:
        raise GraphError("the graph has no outputs")
    outputs = set(graph.outputs)
    for value_id in [v for v in graph.values if graph.consumer_count(v) == 0 and v not in outputs]:
        produced = graph.producer(value_id) is not None
        if not produced and value_id not in graph.inputs:
            del graph.values[value_id]


def name_outputs(graph: Graph, names: Sequence[str]) -> None:
    """What the graph returns stands for the model's outputs, in its shape."""
    for value_id, name in zip(graph.outputs, names, strict=True):
        value = graph.value(value_id)
        if value.id == name or value.stands_for is None:
            graph.set_value(replace(value, stands_for=ForeignTensor.whole(name, value.shape)))


def follow_movement(graph: Graph) -> None:
    """Give every value that is only moved elements of one that stands for a tensor, or is moved into one, its own."""
    ops = list(graph.ops())
    for op in reversed(ops):
        _follow(graph, op, backwards=True)
    for op in ops:
        _follow(graph, op, backwards=False)


def _follow(graph: Graph, op: Op, backwards: bool) -> None:
    if op.op not in ("ttnn.reshape", "ttnn.permute", "ttnn.identity"):
        return
    source, result = graph.value(op.inputs[0]), graph.value(op.outputs[0])
    known, other = (result, source) if backwards else (source, result)
    if known.stands_for is not None and other.stands_for is None:
        graph.set_value(replace(other, stands_for=_moved(op, known, backwards)))


def _moved(op: Op, known: Value, backwards: bool) -> ForeignTensor | None:
    """The tensor of a value on the other side of a movement."""
    held = known.stands_for
    if held is None or op.op != "ttnn.permute":
        return held
    dims = tuple(int(d) % len(known.shape) for d in op.attr("dims"))
    order = tuple(dims.index(d) for d in range(len(dims))) if backwards else dims
    return held.permuted(known.shape, order)
