"""What of a model's values is judged by itself: outputs, parts of outputs on scales of their own, and what a saturated
softmax or sigmoid is made of.

One correlation over all numbers of an output is that of its largest ones: of a detector's boxes in pixels, beside which
scores of classes between 0 and 1 do not count. Where the slices of an output along one of its dims differ in spread,
with a gap between the small and the large ones, each side of the gap is a part. And where a softmax or sigmoid gives
almost only zeros and ones, its results hardly move though its operand is far off: then the operand is judged too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.values.compare import FEW
from optimizer.values.reference.kinds import Array

if TYPE_CHECKING:
    from optimizer.values.graph_values import Seen

GAP = 4.0
"""Ratio of the spreads of two slices, neighbours in size, from which on they are on different scales."""
MOST_SLICES = 4096
"""Slices along a dim that are looked at."""
_EVEN = 2.0**-5
"""Spread of a slice, as a share of its largest number, below which rounding that to bf16 alone would decide."""
SATURATED = 0.9
"""Share of a softmax's rows, or of a sigmoid's results, that are nearly zeros and ones."""
NEARLY = 0.01


@dataclass(frozen=True)
class Part:
    """Numbers of one value that are judged together."""

    value: str
    dim: int | None = None
    """Along which the value is cut; None: all of it."""
    slices: tuple[int, ...] = ()
    """Positions along that dim."""
    before: str = ""
    """The output that a softmax or sigmoid makes of the value; empty where it is an output itself."""

    def of(self, array: Array) -> Array:
        """These numbers of the value."""
        return array if self.dim is None else array.take(self.slices, axis=self.dim)

    def back(self, part: Array, shape: tuple[int, ...]) -> Array:
        """An array of the value's shape that holds these numbers, and zeros else."""
        if self.dim is None:
            return part.reshape(shape)
        found = np.zeros(shape, part.dtype)
        place = [slice(None)] * len(shape)
        place[self.dim] = list(self.slices)  # type: ignore[call-overload]
        found[tuple(place)] = part.reshape(found[tuple(place)].shape)
        return found

    def text(self) -> str:
        """For people: what of the value this is; empty for a whole output."""
        cut = ""
        if self.dim is not None:
            first, last = self.slices[0], self.slices[-1]
            whole = last - first + 1 == len(self.slices)
            which = f"{first} to {last}" if whole and last > first else f"{first}" if whole else f"{first}, ... {last}"
            cut = f"{which} along dim {self.dim}"
        return ", ".join(filter(None, (cut, f"'{self.value}' before '{self.before}'" if self.before else "")))


def judged_parts(graph: Graph, values: Mapping[str, Array]) -> tuple[Part, ...]:
    """The parts of all float outputs of a model that gives these values, and what saturated ones are made of."""
    found: dict[Part, None] = {}
    for v in graph.outputs:
        if graph.value(v).dtype.is_float and values[v].size:
            found.update(dict.fromkeys(_parts(v, values[v])))
            op = _saturating(graph, v)
            if op is not None and graph.producer(op.inputs[0]) is not None and _is_saturated(op, values[op.outputs[0]]):
                found[Part(op.inputs[0], before=v)] = None
    return tuple(found)


def judged_arrays(parts: Sequence[Part], outputs: Sequence[str], run: Callable[[Seen], Sequence[Array]]) -> list[Array]:
    """The parts' numbers as a run gives them, which hands over its outputs in this order."""
    inner = {part.value for part in parts if part.before}
    found: dict[str, Array] = {}

    def seen(op: Op, results: list[Array]) -> None:
        found.update((v, r) for v, r in zip(op.outputs, results, strict=True) if v in inner)

    given = run(seen)
    found.update(zip(outputs, given, strict=True))
    return [part.of(found[part.value]) for part in parts]


def _parts(value: str, array: Array) -> Iterator[Part]:
    """One part, or one per scale along the dim with the most of them."""
    best: list[list[int]] = []
    along = 0
    for dim, size in enumerate(array.shape):
        if 1 < size <= MOST_SLICES and array.size // size >= FEW:
            groups = _scales(np.moveaxis(array, dim, 0).reshape(size, -1).astype(np.float64))
            if len(groups) > max(1, len(best)):
                best, along = groups, dim
    if not best:
        yield Part(value)
    for group in best:
        yield Part(value, along, tuple(sorted(group)))


def _scales(rows: Array) -> list[list[int]]:
    """Rows whose spreads are alike, the smallest first; rows of nearly equal numbers have no scale of their own."""
    spreads = rows.std(axis=1)
    size = np.abs(rows).max(axis=1)
    order = [int(k) for k in np.argsort(spreads, kind="stable") if spreads[k] > _EVEN * size[k]]
    groups = [order[:1]]
    for before, k in pairwise(order):
        if spreads[k] > GAP * spreads[before]:
            groups.append([])
        groups[-1].append(k)
    return groups if order else []


def _saturating(graph: Graph, value_id: str) -> Op | None:
    """The softmax or sigmoid whose results an output holds, moved perhaps."""
    op = graph.producer(value_id)
    while op is not None and opdef(op.op).moves_elements and len(op.inputs) == 1:
        op = graph.producer(op.inputs[0])
    return op if op is not None and op.op in ("ttnn.softmax", "ttnn.sigmoid") else None


def _is_saturated(op: Op, results: Array) -> bool:
    if op.op == "ttnn.sigmoid":
        return float(np.mean((results < NEARLY) | (results > 1 - NEARLY))) >= SATURATED
    dim = opdef(op.op).attr(op, "dim")
    return float(np.mean(results.max(axis=int(dim)) > 1 - NEARLY)) >= SATURATED  # type: ignore[arg-type]
