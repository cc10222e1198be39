"""The graph itself: its interface, what its values are, and that every op computes what it states."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from optimizer.errors import InputError, TtoptError
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.attribute_kinds import check_kinds
from optimizer.ir.graph import Op, Value, ValueKind
from optimizer.ir.opdef import OpDef
from optimizer.ir.sizes import check_shape
from optimizer.ir.vocabulary import opdef
from optimizer.result import Role
from optimizer.verify.subject import Error, Subject


def has_inputs(subject: Subject) -> Iterator[Error]:
    """Exactly the values of kind input are listed as inputs, each once, and no op computes one."""
    listed = subject.graph.inputs
    for v in dict.fromkeys(v for v in listed if listed.count(v) > 1) if len(set(listed)) < len(listed) else ():
        yield v, "is listed as an input more than once"
    for v in listed:
        if subject.graph.values[v].kind is not ValueKind.INPUT:
            yield v, f"is listed as an input, but is of kind {subject.graph.values[v].kind.value}"
        if subject.graph.producer(v) is not None:
            yield v, "is listed as an input, but an op computes it"
    named = set(listed)
    for v, value in subject.graph.values.items():
        if value.kind is ValueKind.INPUT and v not in named:
            yield v, "is of kind input, but is not listed as one"


def has_outputs(subject: Subject) -> Iterator[Error]:
    """There are outputs, and every one is a value."""
    if not subject.graph.outputs:
        yield subject.graph.name, "the graph has no outputs"
    for v in dict.fromkeys(subject.graph.outputs):
        if v not in subject.graph.values:
            yield v, "graph output is never computed"


def has_records(subject: Subject) -> Iterator[Error]:
    """Every op has a decision."""
    for op in subject.graph.ops():
        if op.id not in subject.records:
            yield op.id, "op without a record"


def is_in_order(subject: Subject) -> Iterator[Error]:
    """Every op stands behind the ops that compute its operands, and every value is computed once."""
    graph = subject.graph
    defined = {v for v in graph.values if graph.producer(v) is None}
    for op in graph.ops():
        for v in op.inputs:
            if v not in defined:
                yield op.id, f"reads '{v}' before it is computed"
        for v in op.outputs:
            if v in defined:
                yield op.id, f"computes '{v}' a second time"
            defined.add(v)


def has_kinds(subject: Subject) -> Iterator[Error]:
    """What a run computes is an activation, what is prepared for it a weight, and an activation has a producer."""
    graph = subject.graph
    for v, value in graph.values.items():
        op = graph.producer(v)
        if op is None:
            if value.kind is ValueKind.ACTIVATION:
                yield v, "activation without a producer"
            continue
        if _is_opaque_on_weights(subject, op):
            continue  # run once or on every run, as the importer has it
        record = subject.records.get(op.id)
        prepared = record is not None and record.role is Role.HOST and not opdef(op.op).opaque
        wanted = ValueKind.PARAMETER if prepared else ValueKind.ACTIVATION
        if value.kind is not wanted:
            yield v, f"is of kind {value.kind.value}, but '{op.id}' computes it as {wanted.value}"


def _is_opaque_on_weights(subject: Subject, op: Op) -> bool:
    """Whether TTNN lacks an op, and it reads weights only or nothing."""
    return opdef(op.op).opaque and all(subject.graph.is_static(v) for v in op.inputs)


def has_elements(subject: Subject) -> Iterator[Error]:
    """Constants, and only they, have elements: as many as their shape says, of their type."""
    for v, value in subject.graph.values.items():
        if value.kind is ValueKind.CONSTANT and value.data is None:
            yield v, "constant without elements"
        elif value.kind is not ValueKind.CONSTANT and value.data is not None:
            yield v, f"a value of kind {value.kind.value} has no elements"
        elif value.data is not None:
            yield from _elements(value)


def _elements(value: Value) -> Iterator[Error]:
    data = value.data or ()
    if len(data) != value.volume:
        yield value.id, f"has {len(data)} elements, its shape {list(value.shape)} holds {value.volume}"
    for element in data:
        if not value.dtype.holds(element):
            yield value.id, f"element {element!r} is no {value.dtype.value}"
            return


def has_uses(subject: Subject) -> Iterator[Error]:
    """Every value is read, computed, fed or returned."""
    graph = subject.graph
    kept = {*graph.inputs, *graph.outputs}
    for v in graph.values:
        if v not in kept and graph.producer(v) is None and not graph.consumer_count(v):
            yield v, "nothing reads or computes this value"


def has_sizes(subject: Subject) -> Iterator[Error]:
    """Every tensor has a shape that a tensor may have (`optimizer.ir.sizes`)."""
    for v, value in subject.graph.values.items():
        try:
            check_shape(v, value.shape)
        except InputError as error:
            yield v, error.message


def has_shapes(subject: Subject) -> Iterator[Error]:
    """Every op has the operands and attributes that its row of the vocabulary names, and gives the stated shapes."""
    graph = subject.graph
    for op in graph.ops():
        row = opdef(op.op)
        if row.opaque:
            continue
        if not row.min_inputs <= len(op.inputs) <= row.max_inputs:
            yield op.id, f"{op.op} takes {row.min_inputs} to {row.max_inputs} operands, not {len(op.inputs)}"
            continue
        try:
            if subject.is_ours:
                row.check_attrs(op)
            check_kinds(row, op if subject.is_ours else _of_the_vocabulary(row, op))
            shapes = row.infer_shapes(op, tuple(graph.value(v).shape for v in op.inputs))
        except TtoptError as error:
            yield op.id, str(error)
            continue
        stated = tuple(graph.value(v).shape for v in op.outputs)
        if shapes != stated:
            yield op.id, f"shape rule gives {shapes}, the values state {stated}"


def _of_the_vocabulary(row: OpDef, op: Op) -> Op:
    """An op of another optimizer's plan with what our vocabulary names; it may apply activations that ours does not."""
    known = {name: value for name, value in op.attrs.items() if name in row.attrs}
    for name in ("activations", *OPERAND_ACTIVATIONS):
        named = known.get(name)
        if isinstance(named, tuple) and all(isinstance(activation, str) for activation in named):
            del known[name]
    return replace(op, attrs=known)


def has_types(subject: Subject) -> Iterator[Error]:
    """What an op on the host gives has the type of its row of the vocabulary."""
    graph = subject.graph
    for op in graph.ops():
        if opdef(op.op).opaque or subject.role(op) is not Role.HOST:
            continue
        operands = tuple(graph.value(v).dtype for v in op.inputs)
        for v, dtype in zip(op.outputs, opdef(op.op).infer_dtypes(op, operands, len(op.outputs)), strict=True):
            if graph.value(v).dtype is not dtype:
                yield op.id, f"'{v}' is stated as {graph.value(v).dtype.value}, {op.op} gives {dtype.value}"
