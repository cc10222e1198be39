"""Whether a finished graph computes what another one does, by a walk over both.

The reference is the model as imported. Ops of the plan that have the id of one of the reference have to be that op, on
operands that stand for the reference's operands; every other op has to be one that a plan inserts and that changes no
element: a copy, a conversion between tiles and rows, a transfer. What such an op makes stands for what it reads.
Nothing of how plans are written into graphs is used here.

A plan within an error budget may hold tensors that are bf16 in the model in block floats, outputs excepted, and its ops
may state compute configs and result types of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value
from optimizer.ir.opdef import RESULT_DTYPE, ConfigFamily
from optimizer.ir.vocabulary import CAST, CONVERT, COPY, FETCH, SEND, opdef
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.result import OptimizedGraph, Role
from optimizer.verify.subject import Error

_INSERTED = {
    COPY: (Role.RESHARD, Role.SPILL, Role.LOAD, Role.HOST),
    CONVERT: (Role.LAYOUT, Role.HOST),
    FETCH: (Role.TRANSFER,),
    SEND: (Role.TRANSFER,),
}
"""Ops that a plan inserts -> their roles."""


def differences(
    result: OptimizedGraph, model: Graph, prepared: Mapping[str, str], fixed: Mapping[str, Mapping[str, object]]
) -> Iterator[Error]:
    """Everything in which a result computes something else than a model.

    `prepared` maps convs to the element type that their weights are prepared into, `fixed` to the fields of their
    configs that the user fixed.
    """
    precise = result.options.least_pcc is not None
    asked = result.options.activations_dtype
    in_blocks = precise or (asked is not None and DType(asked).is_block_float)
    yield from _Walk(result, model, precise, in_blocks).errors()
    for op_id, wanted in prepared.items() if not precise else ():
        record = result.records.get(op_id)
        config = None if record is None else record.config
        if isinstance(config, Conv2dConfig) and "weights_dtype" not in fixed.get(op_id, {}):
            found = config.weights_dtype or wanted
            if found != wanted and opdef(result.graph.op(op_id).op).config is ConfigFamily.CONV2D:
                yield op_id, f"prepares its weights as {found}, the model's are {wanted}"


class _Walk:
    def __init__(self, result: OptimizedGraph, model: Graph, precise: bool, in_blocks: bool) -> None:
        self.result, self.graph, self.model = result, result.graph, model
        self.precise = precise
        """Whether element types and compute configs are the plan's to choose."""
        self.in_blocks = in_blocks
        """Whether results may be in block formats."""
        self.stands_for: dict[str, str] = {}
        """Value of the result -> the model's value that it holds."""

    def errors(self) -> Iterator[Error]:
        yield from self._sources()
        for op in self.graph.ops():
            if self.model.has_op(op.id):
                yield from self._op(op, self.model.op(op.id))
            else:
                yield from self._inserted(op)
        for op in self.model.ops():
            if not self.graph.has_op(op.id):
                yield op.id, f"{op.op} of the model is missing"
        if list(self.graph.inputs) != list(self.model.inputs):
            yield "model", f"takes {self.graph.inputs}, the model {self.model.inputs}"
        returned = [self.stands_for.get(v, v) for v in self.graph.outputs]
        if returned != list(self.model.outputs):
            yield "model", f"returns {returned}, the model {self.model.outputs}"

    def _sources(self) -> Iterator[Error]:
        """What no op computes is in both, and the same."""
        given = {v for v in self.graph.values if self.graph.producer(v) is None}
        wanted = {v for v in self.model.values if self.model.producer(v) is None}
        for v in sorted(given ^ wanted):
            yield v, "is given to the plan, but not to the model" if v in given else "of the model is missing"
        for v in sorted(given & wanted):
            self.stands_for[v] = v
            yield from self._same_value(v, v)

    def _op(self, op: Op, wanted: Op) -> Iterator[Error]:
        if op.op != wanted.op:
            yield op.id, f"is {op.op}, in the model {wanted.op}"
        names = sorted(k for k in {*op.attrs, *wanted.attrs} if op.attrs.get(k) != wanted.attrs.get(k))
        free = ({COMPUTE} if self.precise else set()) | (
            {RESULT_DTYPE} if self.in_blocks and opdef(op.op).takes_dtype else set()
        )
        names = [name for name in names if name not in free or name in wanted.attrs]
        if names:
            yield op.id, f"has other attributes than in the model: {', '.join(names)}"
        if (op.name, op.origin) != (wanted.name, wanted.origin):
            given = f"'{op.name}' of {list(op.origin)}"
            yield op.id, f"is called {given}, in the model '{wanted.name}' of {list(wanted.origin)}"
        read = tuple(self.stands_for.get(v, v) for v in op.inputs)
        if read != wanted.inputs:
            yield op.id, f"reads {list(read)}, in the model {list(wanted.inputs)}"
        if len(op.outputs) != len(wanted.outputs):
            yield op.id, f"has {len(op.outputs)} results, in the model {len(wanted.outputs)}"
        for v, w in zip(op.outputs, wanted.outputs, strict=False):
            self.stands_for[v] = w
            yield from self._same_value(v, w)

    def _inserted(self, op: Op) -> Iterator[Error]:
        """An op that the model lacks hands on what it reads."""
        role = self.result.records[op.id].role
        if self.precise and self._rounds_weight(op, role):
            self.stands_for[op.outputs[0]] = self.stands_for.get(op.inputs[0], op.inputs[0])
            return
        if role not in _INSERTED.get(op.op, ()) or len(op.inputs) != 1 or len(op.outputs) != 1:
            yield op.id, f"{op.op} as {role.value} is not in the model"
            return
        source, copy = self.graph.value(op.inputs[0]), self.graph.value(op.outputs[0])
        if (source.shape, source.dtype) != (copy.shape, copy.dtype):
            yield op.id, f"makes {list(copy.shape)} {copy.dtype.value} of {list(source.shape)} {source.dtype.value}"
        self.stands_for[copy.id] = self.stands_for.get(source.id, source.id)

    def _rounds_weight(self, op: Op, role: Role) -> bool:
        """Whether an op makes a form of a weight in block floats, once."""
        if op.op != CAST or role is not Role.HOST or len(op.inputs) != 1:
            return False
        source, made = self.graph.value(op.inputs[0]), self.graph.value(op.outputs[0])
        return source.shape == made.shape and source.dtype.is_float and made.dtype.is_block_float

    def _same_value(self, value_id: str, model_id: str) -> Iterator[Error]:
        found, wanted = self.graph.value(value_id), self.model.value(model_id)
        rounded = wanted.dtype is DType.BF16 and found.dtype.is_block_float and model_id not in self.model.outputs
        if self.in_blocks and rounded:
            found = replace(found, dtype=wanted.dtype)
        yield from _same_value(found, wanted)


def _same_value(found: Value, wanted: Value) -> Iterator[Error]:
    for name in ("shape", "dtype", "kind", "data", "stands_for"):
        given, right = getattr(found, name), getattr(wanted, name)
        if given != right and not (name == "data" and _same_elements(given, right)):
            yield found.id, f"has another {name} than in the model"


def _same_elements(given: tuple[float, ...] | None, right: tuple[float, ...] | None) -> bool:
    """Whether elements are equal; what is no number equals itself here."""
    if given is None or right is None or len(given) != len(right):
        return False
    return all(a == b or (a != a and b != b) for a, b in zip(given, right, strict=True))
