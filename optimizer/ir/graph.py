"""The graph every stage works on: ops and values by id, static shapes, no layouts.

Ops and values are frozen; a pass replaces them through `Graph`, which keeps producer and consumer
indices up to date in constant time per edit. Iteration order is the schedule: `Graph.ops()` yields ops
in an order in which every producer precedes its consumers (passes that add ops call `sort`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from math import prod
from typing import Any

from optimizer.errors import GraphError
from optimizer.ir.dtype import DType
from optimizer.ir.sizes import check_shape
from optimizer.ir.topological import topological_order

Scalar = int | float | bool | str
Attr = Scalar | None | tuple["Attr", ...]
"""What an attribute may hold: scalars, None, and nested tuples of them."""


class ValueKind(StrEnum):
    INPUT = "input"
    """Fed by the caller on every run."""
    PARAMETER = "parameter"
    """A weight, or computed from weights only: prepared once, not part of a run."""
    CONSTANT = "constant"
    """Small tensor whose elements are part of the model."""
    ACTIVATION = "activation"
    """Computed on every run."""


STATIC = (ValueKind.PARAMETER, ValueKind.CONSTANT)
"""What is the same on every run."""


@dataclass(frozen=True, slots=True)
class ForeignTensor:
    """A tensor of the model as its file has it, and how a value holds it: dims in this order, then reshaped.

    `value == tensor.transpose(dims).reshape(value.shape)`.
    """

    name: str
    shape: tuple[int, ...]
    dims: tuple[int, ...]

    @staticmethod
    def whole(name: str, shape: tuple[int, ...]) -> ForeignTensor:
        """The tensor with its dims in order."""
        return ForeignTensor(name, shape, tuple(range(len(shape))))

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "shape": list(self.shape), "dims": list(self.dims)}

    @staticmethod
    def from_json(record: Mapping[str, Any], place: str, held: tuple[int, ...]) -> ForeignTensor:
        """Read back for a value of shape `held`; GraphError naming the place where that cannot hold the tensor."""
        shape, dims = tuple(record["shape"]), tuple(record["dims"])
        check_shape(place, shape)
        if sorted(dims) != list(range(len(shape))) or prod(shape) != prod(held):
            raise GraphError(f"{list(shape)} with dims {list(dims)} is not held by {list(held)}", node=place)
        return ForeignTensor(str(record["name"]), shape, dims)

    def permuted(self, held: tuple[int, ...], dims: tuple[int, ...]) -> ForeignTensor | None:
        """Of a value of shape `held` that is permuted; None where that is no order of the tensor's own dims."""
        if tuple(self.shape[d] for d in self.dims) == held:
            return replace(self, dims=tuple(self.dims[d] for d in dims))
        long = [d for d in dims if held[d] != 1]
        return self if long == sorted(long) else None


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor: a static shape and an element type."""

    id: str
    shape: tuple[int, ...]
    dtype: DType
    kind: ValueKind
    data: tuple[float, ...] | None = field(default=None, repr=False)
    """Elements in row-major order; only for constants."""
    stands_for: ForeignTensor | None = None
    """The tensor of the model that this value equals up to rounding; None: no tensor of the model has its elements."""

    @property
    def volume(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Op:
    """One operation. `inputs` and `outputs` are value ids; `attrs` belongs to the op and is not mutated."""

    id: str
    op: str
    """Vocabulary name, e.g. `ttnn.conv2d`; a name the vocabulary lacks makes the op opaque."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    name: str = ""
    """What a person calls it (the foreign node's name where there is one); overrides are keyed by it."""
    origin: tuple[str, ...] = ()
    """Names of the foreign nodes this op computes."""

    @cached_property
    def attrs_key(self) -> tuple[tuple[str, Attr], ...]:
        """Attributes as a hashable, sorted tuple."""
        return tuple(sorted(self.attrs.items()))

    def attr(self, name: str) -> Any:
        """An attribute that the vocabulary requires; GraphError names op and attribute when absent."""
        try:
            return self.attrs[name]
        except KeyError:
            raise GraphError(f"{self.op} needs attribute '{name}'", node=self.id) from None

    def with_attrs(self, **changes: Attr) -> Op:
        return replace(self, attrs={**self.attrs, **changes})


class Graph:
    """A directed acyclic graph of ops over values."""

    def __init__(self, name: str, inputs: Iterable[str] = (), outputs: Iterable[str] = ()) -> None:
        self.name = name
        self.inputs: list[str] = list(inputs)
        """Ids of the values fed by the caller, in call order."""
        self._outputs: tuple[str, ...] = ()
        self._returned: dict[str, int] = {}
        self.values: dict[str, Value] = {}
        self._ops: dict[str, Op] = {}
        self._producer: dict[str, str] = {}
        self._consumers: dict[str, dict[str, int]] = {}
        """Value -> op that reads it -> at how many operand positions."""
        self._rank: dict[str, tuple[int, ...]] = {}
        self._serial = 0
        self._fresh: dict[str, int] = {}
        self.outputs = tuple(outputs)

    def __repr__(self) -> str:
        counts = {"op": len(self), "input": len(self.inputs), "output": len(self.outputs)}
        return f"<Graph '{self.name}': {', '.join(f'{n} {of}{"" if n == 1 else "s"}' for of, n in counts.items())}>"

    @property
    def outputs(self) -> tuple[str, ...]:
        """Ids of the values returned, in return order (a value may be returned twice)."""
        return self._outputs

    @outputs.setter
    def outputs(self, value_ids: Iterable[str]) -> None:
        self._outputs = tuple(value_ids)
        self._returned = dict(Counter(self._outputs))

    # -- reading -----------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self._ops)

    def ops(self) -> Iterator[Op]:
        """Ops in schedule order. Safe against edits made while iterating."""
        for op_id in list(self._ops):
            op = self._ops.get(op_id)
            if op is not None:
                yield op

    def op(self, op_id: str) -> Op:
        return self._ops[op_id]

    def has_op(self, op_id: str) -> bool:
        return op_id in self._ops

    def value(self, value_id: str) -> Value:
        return self.values[value_id]

    def producer(self, value_id: str) -> Op | None:
        """The op that computes a value; None for inputs, parameters and constants."""
        op_id = self._producer.get(value_id)
        return None if op_id is None else self._ops[op_id]

    def consumers(self, value_id: str) -> tuple[Op, ...]:
        """Distinct ops that read a value, in insertion order."""
        return tuple(self._ops[op_id] for op_id in self._consumers.get(value_id, ()))

    def consumer_count(self, value_id: str) -> int:
        """Number of distinct ops that read a value, in constant time."""
        return len(self._consumers.get(value_id, ()))

    def use_count(self, value_id: str) -> int:
        """Number of operand positions plus graph outputs that read a value."""
        reads = sum(self._consumers.get(value_id, {}).values())
        return reads + self._returned.get(value_id, 0)

    def is_output(self, value_id: str) -> bool:
        """Whether the graph returns a value, in constant time."""
        return value_id in self._returned

    def produced_by(self, value_id: str, *names: str) -> Op | None:
        """The producer of a value if it is one of the named ops (`ttnn.` left out)."""
        op = self.producer(value_id)
        return op if op is not None and op.op.removeprefix("ttnn.") in names else None

    def only_use(self, value_id: str) -> Op | None:
        """The op that reads a value, if it is read exactly once and is no graph output."""
        if self.consumer_count(value_id) != 1 or self.is_output(value_id):
            return None
        op = self.consumers(value_id)[0]
        return op if op.inputs.count(value_id) == 1 else None

    def leading_to(
        self, value_ids: Iterable[str], followed: Callable[[Op], Iterable[str]] = lambda op: op.inputs
    ) -> Iterator[Op]:
        """The ops that compute values, and those that compute what these read, each once; `followed` says of an op
        which of its operands count."""
        stack, seen = list(value_ids), set[str]()
        while stack:
            op = self.producer(stack.pop())
            if op is not None and op.id not in seen:
                seen.add(op.id)
                yield op
                stack.extend(followed(op))

    def is_read(self, value_id: str) -> bool:
        """Whether any op reads a value or the graph returns it."""
        return self.consumer_count(value_id) > 0 or self.is_output(value_id)

    def is_const_eval(self, op: Op) -> bool:
        """Whether an op depends on weights and constants only, so that it runs once, not on every run."""
        return bool(op.outputs) and all(self.values[v].kind is ValueKind.PARAMETER for v in op.outputs)

    def is_static(self, value_id: str) -> bool:
        """Whether a value is a weight or constant, or computed from such only."""
        return self.values[value_id].kind in STATIC

    def run_ops(self) -> list[Op]:
        """Ops executed on every run, in schedule order (const-eval ops left out)."""
        return [op for op in self.ops() if not self.is_const_eval(op)]

    # -- editing -----------------------------------------------------------------------------------
    def fresh_id(self, stem: str) -> str:
        """An id not yet used by an op or value: `stem`, else `stem_1`, `stem_2`, ..."""
        candidate = stem
        while candidate in self._ops or candidate in self.values:
            self._fresh[stem] = self._fresh.get(stem, 0) + 1
            candidate = f"{stem}_{self._fresh[stem]}"
        return candidate

    def add_value(self, value: Value) -> Value:
        if value.id in self.values:
            raise GraphError("value defined twice", node=value.id)
        self.values[value.id] = value
        return value

    def set_value(self, value: Value) -> None:
        """Replace the description of an existing value."""
        if value.id not in self.values:
            raise GraphError("no such value", node=value.id)
        self.values[value.id] = value

    def add_op(self, op: Op, at: str | None = None) -> Op:
        """Append an op; `at` gives it the schedule rank of an existing op, used by the next `sort`."""
        if op.id in self._ops:
            raise GraphError("op defined twice", node=op.id)
        self._serial += 1
        self._rank[op.id] = (*self._rank[at][:1], self._serial) if at is not None else (self._serial, 0)
        self._attach(op)
        return op

    def remove_op(self, op_id: str) -> None:
        """Remove an op; its output values stay until `prune` unless produced again."""
        self._detach(self._ops[op_id])

    def replace_op(self, op: Op) -> None:
        """Put `op` in the place of the op with the same id, keeping its position in the schedule."""
        old = self._ops[op.id]
        for v in old.inputs:
            self._consumers.get(v, {}).pop(op.id, None)
        for v in old.outputs:
            if v not in op.outputs:
                self._producer.pop(v, None)
        self._ops[op.id] = op
        self._index(op)

    def replace_uses(self, old: str, new: str) -> None:
        """Make every consumer and graph output that reads `old` read `new` instead."""
        for op in self.consumers(old):
            self.replace_op(replace(op, inputs=tuple(new if v == old else v for v in op.inputs)))
        if old in self._returned:
            self.outputs = tuple(new if v == old else v for v in self.outputs)

    def prune(self) -> int:
        """Drop ops and values that no graph output depends on; returns the number of ops dropped."""
        keep = {op.id for op in self.leading_to(self.outputs)}
        dead = [op for op in self._ops.values() if op.id not in keep]
        for op in dead:
            self._detach(op)
        live = {v for op in self._ops.values() for v in (*op.inputs, *op.outputs)} | {*self.inputs, *self.outputs}
        self.values = {k: v for k, v in self.values.items() if k in live}
        self._consumers = {k: v for k, v in self._consumers.items() if k in live}
        return len(dead)

    def sort(self) -> None:
        """Restore schedule order: topological, ties by rank (original position). Raises on a cycle."""
        ops = sorted(self._ops.values(), key=lambda op: self._rank[op.id])
        at = {op.id: i for i, op in enumerate(ops)}
        needs = [{at[self._producer[v]] for v in op.inputs if v in self._producer} for op in ops]
        self.reorder([ops[i].id for i in topological_order(needs, lambda i: ops[i].id)])

    def reorder(self, op_ids: Iterable[str]) -> None:
        """Set the schedule to an explicit order of all ops."""
        order = list(op_ids)
        if len(order) != len(self._ops) or set(order) != set(self._ops):
            raise GraphError("a schedule must name every op exactly once")
        self._ops = {op_id: self._ops[op_id] for op_id in order}
        for position, op_id in enumerate(order):
            self._rank[op_id] = (position, 0)
        self._serial = len(order)

    def copy(self) -> Graph:
        """An independent graph with the same ops, values and order."""
        twin = Graph(self.name, self.inputs, self.outputs)
        twin.values = dict(self.values)
        for op in self._ops.values():
            twin.add_op(op)
        return twin

    # -- indices -----------------------------------------------------------------------------------
    def _attach(self, op: Op) -> None:
        self._ops[op.id] = op
        self._index(op)

    def _index(self, op: Op) -> None:
        for v in op.inputs:
            readers = self._consumers.setdefault(v, {})
            readers[op.id] = readers.get(op.id, 0) + 1
        for v in op.outputs:
            other = self._producer.get(v)
            if other is not None and other != op.id:
                raise GraphError(f"value '{v}' is produced by '{other}' and by '{op.id}'", node=v)
            self._producer[v] = op.id

    def _detach(self, op: Op) -> None:
        del self._ops[op.id]
        for v in op.inputs:
            self._consumers.get(v, {}).pop(op.id, None)
        for v in op.outputs:
            if self._producer.get(v) == op.id:
                del self._producer[v]
