"""Channels-last twins of values, the state of the channels-last pass.

A value keeps its foreign shape, [N, C, H, W] say, while the pass computes its twin [1, 1, N*H*W, C].
The value itself comes into being (reshape and permute) only when an op needs it in its foreign form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod

from optimizer.importers.passes.rewriting import Shape, permute, reshape
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.making import make_op
from optimizer.ir.vocabulary import opdef


class Form(StrEnum):
    """How a value relates to its twin."""

    CHANNELS_SECOND = "channels_second"
    """[N, C, *spatial]: the twin holds it with C moved last."""
    ROWS = "rows"
    """[..., C]: the twin is a reshape of it."""


SECOND, ROWS = Form.CHANNELS_SECOND, Form.ROWS


@dataclass
class Twin:
    """At least one of `flat` [1, 1, N*spatial, C] and `last` [N, *spatial, C] is set."""

    form: Form
    shape: Shape
    source: Op
    """The op that computes the value in the foreign graph; new ops are named after it."""
    flat: str | None = None
    last: str | None = None

    @property
    def channels(self) -> int:
        return self.shape[self.channel_dim]

    @property
    def channel_dim(self) -> int:
        return 1 if self.form is Form.CHANNELS_SECOND else len(self.shape) - 1

    @property
    def channels_last(self) -> Shape:
        """The order of dims that moves C from second place to the last."""
        return (0, *range(2, len(self.shape)), 1)

    @property
    def last_shape(self) -> Shape:
        """Channels-last shape with the other dims apart."""
        second = self.form is Form.CHANNELS_SECOND
        return tuple(self.shape[d] for d in self.channels_last) if second else self.shape


class Twins:
    """The twins of one graph, made on demand."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._twins: dict[str, Twin] = {}
        self._rows: set[Shape] = set()

    def get(self, value_id: str) -> Twin | None:
        return self._twins.get(value_id)

    def has_rows(self, lead: Shape) -> bool:
        """Whether a value [*lead, C] is computed as rows [1, 1, N, C]."""
        return lead in self._rows

    def add(self, value_id: str, form: Form, source: Op, *, flat: str | None = None, last: str | None = None) -> None:
        """Record the twin of a value that `source` computed."""
        value = self.graph.value(value_id)
        shape = value.shape
        self._twins[value_id] = twin = Twin(form, shape, source, flat, last)
        if value.stands_for is not None:
            held = value.stands_for
            moved = held.permuted(shape, twin.channels_last) if form is Form.CHANNELS_SECOND else held
            for v in (flat, last):
                if v is not None and self.graph.value(v).stands_for is None:
                    self.graph.set_value(replace(self.graph.value(v), stands_for=moved))
        if form is Form.ROWS:
            self._rows.add(shape[:-1])

    def flat(self, value_id: str, form: Form, like: Op) -> str:
        """The twin [1, 1, N*spatial, C] of any value; one without a twin is permuted beside `like`."""
        twin = self._twins.get(value_id)
        if twin is None or twin.form is not form:
            self.materialise(value_id)
            shape = self.graph.value(value_id).shape
            twin = Twin(form, shape, like)
            if form is Form.ROWS:
                twin.last = value_id
            elif prod(shape[2:]) == 1 or shape[1] == 1:
                twin.last = reshape(self.graph, like, value_id, twin.last_shape)
            else:
                twin.last = permute(self.graph, like, value_id, (0, *range(2, len(shape)), 1))
            self._twins[value_id] = twin
        if twin.flat is None:
            assert twin.last is not None
            count = prod(twin.shape) // twin.channels
            twin.flat = reshape(self.graph, twin.source, twin.last, (1, 1, count, twin.channels))
        return twin.flat

    def last(self, value_id: str, form: Form, like: Op) -> str:
        """The twin with its dims apart, [N, *spatial, C]."""
        flat = self.flat(value_id, form, like)
        twin = self._twins[value_id]
        if twin.last is None:
            twin.last = reshape(self.graph, twin.source, flat, twin.last_shape)
        return twin.last

    def materialise(self, value_id: str) -> None:
        """Compute the value itself from its twin, if nothing does so yet."""
        twin = self._twins.get(value_id)
        if twin is None or self.graph.producer(value_id) is not None or value_id in (twin.flat, twin.last):
            return
        if value_id in self.graph.inputs or value_id not in twin.source.outputs:
            return
        if twin.form is Form.ROWS or prod(twin.shape[2:]) == 1 or twin.channels == 1:
            start = twin.flat if twin.flat is not None else twin.last
            assert start is not None
            reshape(self.graph, twin.source, start, twin.shape, output=value_id)
            return
        rank = len(twin.shape)
        dims = (0, rank - 1, *range(1, rank - 1))
        permute(self.graph, twin.source, self.last(value_id, twin.form, twin.source), dims, output=value_id)


Rule = Callable[[Twins, Op], bool]
"""Replaces an op by one on twins and returns True, or leaves everything as it was and returns False."""


def put(graph: Graph, op: Op, name: str, inputs: Sequence[str], attrs: Mapping[str, Attr]) -> tuple[str, ...]:
    """Replace an op by one that computes new values; its old results have no producer afterwards."""
    graph.remove_op(op.id)
    ids = tuple(graph.fresh_id(f"{v}_flat") for v in op.outputs)
    return make_op(graph, replace(op, op=name, inputs=tuple(inputs), attrs=dict(attrs), outputs=ids), at=op.id).outputs


def done(twins: Twins, op: Op, form: Form, flats: Sequence[str]) -> bool:
    """Record the twins of an op's results; always True."""
    for value_id, flat in zip(op.outputs, flats, strict=True):
        twins.add(value_id, form, op, flat=flat)
    return True


def follow(twins: Twins, op: Op, form: Form, attrs: Mapping[str, Attr] | None = None) -> bool:
    """Replace an op by the same one on the twin of operand 0, with its own attributes or these; always True."""
    operands = [twins.flat(op.inputs[0], form, op), *op.inputs[1:]]
    return done(twins, op, form, put(twins.graph, op, op.op, operands, op.attrs if attrs is None else attrs))


def full_attrs(op: Op) -> dict[str, Attr]:
    """Attributes of an op with the defaults of its row."""
    return opdef(op.op).full_attrs(op)
