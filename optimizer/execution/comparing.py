"""Values of a program beside those of its model: outputs, and results of single ops where they mean the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from optimizer.errors import ExecutionError
from optimizer.export.ttnn_py.run_model import Array
from optimizer.ir.graph import ForeignTensor, Graph
from optimizer.result import OptimizedGraph
from optimizer.values.compare import compare
from optimizer.values.judged import NEARLY, SATURATED

Record = dict[str, Any]


@dataclass(frozen=True)
class Bounds:
    """How near values have to be."""

    least_pcc: float = 0.99
    most_error: float = 0.1
    """Relative L2 error."""


def bounds_of(result: OptimizedGraph) -> Bounds:
    """The usual ones, or of a plan within an error budget, which is for the correlation alone, that."""
    least = result.options.least_pcc
    return Bounds() if least is None else Bounds(least, math.inf)


def compared(name: str, found: Array, expected: Array, bounds: Bounds) -> Record:
    """One tensor beside what is expected: `{name, shape, pcc, relative_error, ratio, largest_error, blind, ok}`.

    `blind` says why these figures tell little of what made the tensor, if they do (`blind_to`).

    Shapes may differ in dims of one element, as a program has no tensors without dims.
    """
    if found.size != expected.size:
        raise ExecutionError(f"'{name}' has the shape {list(found.shape)}, the model gives {list(expected.shape)}")
    measured = compare(found.reshape(expected.shape), expected)
    ok = measured.acceptable(bounds.least_pcc, bounds.most_error)
    shape, blind = list(expected.shape), blind_to(expected)
    return {"name": name, "shape": shape, **measured.record(), "blind": blind, "ok": ok}


def blind_to(expected: Array) -> str | None:
    """Why a tensor hardly shows errors of the values that it is made of; None where it does."""
    if not expected.size or expected.dtype.kind != "f":
        return None
    low, high = float(expected.min()), float(expected.max())
    if low == high:
        return "the same number everywhere"
    ends = np.mean((expected < NEARLY) | (expected > 1 - NEARLY))
    if low >= 0 and high <= 1 + NEARLY and float(ends) >= SATURATED and high > 1 - NEARLY:
        return "almost only zeros and ones"
    return None


def as_in_model(found: Array, held: ForeignTensor) -> Array:
    """A value's elements in the order and shape of the model's tensor that it holds."""
    permuted = found.reshape([held.shape[d] for d in held.dims])
    return permuted.transpose([held.dims.index(d) for d in range(len(held.dims))])


def standing_values(graph: Graph) -> dict[str, ForeignTensor]:
    """Results of a graph's ops that equal a tensor of the model, in the order of the schedule.

    The importer says so of each value (`Value.stands_for`); others have lost or changed their meaning on the way.
    """
    found: dict[str, ForeignTensor] = {}
    for op in graph.ops():
        for v in () if graph.is_const_eval(op) else op.outputs:
            held = graph.value(v).stands_for
            if held is not None:
                found[v] = held
    return found


@dataclass
class OpComparison:
    """Results of ops as they come, each beside the model's tensor that it stands for."""

    bounds: Bounds
    standing: Mapping[str, ForeignTensor]
    """Value of the result -> the model's tensor."""
    expected: Mapping[str, Array]
    """The model's tensors by name."""
    ops: list[Record] = field(default_factory=list)
    skipped: int = 0
    """Results that stand for none."""

    def take(self, op: str, kind: str, value: str, found: Array) -> None:
        """Compare the result of an op."""
        held = self.standing[value]
        measured = compared(held.name, as_in_model(found, held), self.expected[held.name], self.bounds)
        self.ops.append({"op": op, "kind": kind, **measured})

    def record(self) -> Record:
        """`{compared, skipped, first_bad, worst, ops}`."""
        bad = [entry for entry in self.ops if not entry["ok"]]
        worst = min(self.ops, key=lambda e: e["pcc"] if math.isfinite(e["pcc"]) else -2.0, default=None)
        return {
            "compared": len(self.ops),
            "skipped": self.skipped,
            "first_bad": bad[0] if bad else None,
            "worst": worst,
            "ops": self.ops,
        }


def outputs_compared(
    names: Sequence[str], found: Sequence[Array], expected: Sequence[Array], bounds: Bounds
) -> list[Record]:
    """Outputs of a program beside those of its model, by position."""
    return [compared(n, f, e, bounds) for n, f, e in zip(names, found, expected, strict=True)]
