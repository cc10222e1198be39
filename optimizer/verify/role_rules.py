"""Roles: that every op is what the result says it is there for."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.ir.graph import Op, ValueKind
from optimizer.ir.vocabulary import CONVERT, COPY, FETCH, SEND, opdef
from optimizer.result import Role
from optimizer.verify.subject import Error, Subject

COPIES = (Role.RESHARD, Role.SPILL, Role.LOAD)
_OPS = {
    **dict.fromkeys(COPIES, (COPY,)),
    Role.LAYOUT: (CONVERT,),
    Role.TRANSFER: (FETCH, SEND),
}
"""What an op of a role is called, where that is fixed."""


def is_called_so(subject: Subject) -> Iterator[Error]:
    """Copies are `to_memory_config`, conversions `to_layout`, transfers `from_device` or `to_device`."""
    for op in subject.graph.ops():
        role = subject.role(op)
        if role in _OPS and op.op not in _OPS[role]:
            yield op.id, f"{op.op} is no {role.value}: that is {' or '.join(_OPS[role])}"


def prepares_weights(subject: Subject) -> Iterator[Error]:
    """The host runs what depends on weights only, and what TTNN lacks."""
    graph = subject.graph
    for op in graph.ops():
        if subject.role(op) is not Role.HOST or opdef(op.op).opaque:
            continue
        for v in op.inputs:
            maker = graph.producer(v)
            prepared = maker is None or subject.role(maker) is Role.HOST
            if not graph.is_static(v) or not prepared:
                yield op.id, f"{op.op} has role host, but reads '{v}', which is no weight"
        for v in op.outputs:
            if graph.value(v).kind is not ValueKind.PARAMETER:
                yield op.id, f"{op.op} has role host, but '{v}' is of kind {graph.value(v).kind.value}"


def shares_its_operand(subject: Subject) -> Iterator[Error]:
    """A view is one by the vocabulary, in the very layout of its operand, and takes no L1."""
    for op in subject.graph.ops():
        if subject.role(op) is not Role.VIEW:
            continue
        why = _no_view(subject, op)
        if why:
            yield op.id, f"is no view: {why}"
            continue
        answer = subject.answers[op.id]
        if answer.valid and answer.l1_peak_bytes:
            yield op.id, f"is no view: {op.op} allocates {answer.l1_peak_bytes} B"


def _no_view(subject: Subject, op: Op) -> str:
    row = opdef(op.op)
    if not (row.view or row.view_of_rows) or not op.inputs or len(op.outputs) != 1:
        return f"{op.op} makes a tensor of its own"
    source, target = subject.layout(op.inputs[0]), subject.layout(op.outputs[0])
    if source != target:
        return f"{source.describe()} -> {target.describe()}"
    x, y = subject.graph.value(op.inputs[0]), subject.graph.value(op.outputs[0])
    if row.is_view(op, x.shape, y.shape, source.is_tile, x.dtype):
        return ""
    return f"{list(x.shape)} -> {list(y.shape)} in {x.dtype} moves elements"


def copies_something(subject: Subject) -> Iterator[Error]:
    """A copy is read, goes to another layout, and between the memories that its role names."""
    for op in subject.graph.ops():
        role = subject.role(op)
        if role not in COPIES:
            continue
        source, target = subject.layout(op.inputs[0]), subject.layout(op.outputs[0])
        if source == target:
            yield op.id, "copies a value to the layout it already has"
        if not subject.graph.use_count(op.outputs[0]):
            yield op.id, "copy that nothing reads"
        expected = {
            Role.SPILL: source.is_l1 and target.is_dram,
            Role.LOAD: source.is_dram and target.is_l1,
            Role.RESHARD: source.is_l1 and target.is_l1,
        }
        if not expected[role]:
            yield op.id, f"is no {role.value}: {source.describe()} -> {target.describe()}"


def serves_the_host(subject: Subject) -> Iterator[Error]:
    """A transfer brings what an op on the host reads, or sends back what one computes."""
    graph = subject.graph
    for op in graph.ops():
        if subject.role(op) is not Role.TRANSFER or op.op not in _OPS[Role.TRANSFER]:
            continue
        source, target = subject.layout(op.inputs[0]), subject.layout(op.outputs[0])
        if op.op == FETCH:
            served = [r for r in graph.consumers(op.outputs[0]) if opdef(r.op).opaque]
            fits = target.is_host and source.is_dram
        else:
            maker = graph.producer(op.inputs[0])
            served = [maker] if maker is not None and opdef(maker.op).opaque else []
            fits = source.is_host and target.is_dram
        if not fits:
            yield op.id, f"is no transfer: {source.describe()} -> {target.describe()}"
        if not served:
            yield op.id, "is a transfer that no op on the host needs"
