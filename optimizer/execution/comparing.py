"""Values of a program beside those of its model: outputs, and results of single ops where they mean the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from optimizer.errors import ExecutionError
from optimizer.export.ttnn_py.run_model import Array, agreement
from optimizer.ir.graph import Graph

Record = dict[str, Any]


@dataclass(frozen=True)
class Bounds:
    """How near values have to be."""

    least_pcc: float = 0.99
    most_error: float = 0.1
    """Relative L2 error."""

    def hold(self, measured: Mapping[str, float]) -> bool:
        """Whether measured agreement is enough; never for values that are not finite."""
        return measured["pcc"] >= self.least_pcc and measured["relative_error"] <= self.most_error


def compared(name: str, found: Array, expected: Array, bounds: Bounds) -> Record:
    """One tensor beside what is expected: `{name, shape, pcc, relative_error, ratio, largest_error, ok}`."""
    aligned = in_shape_of(found, expected)
    if aligned is None:
        raise ExecutionError(f"'{name}' has the shape {list(found.shape)}, the model gives {list(expected.shape)}")
    measured = agreement(aligned, expected)
    return {"name": name, "shape": list(expected.shape), **measured, "ok": bounds.hold(measured)}


def in_shape_of(found: Array, expected: Array) -> Array | None:
    """A tensor in the order and shape of an ONNX value: as it is, reshaped, or its channels moved to dim 1.

    None where neither can be, as the number of elements differs.
    """
    if found.shape == expected.shape:
        return found
    if prod(found.shape) != prod(expected.shape):
        return None
    channels = expected.shape[1] if expected.ndim > 2 else 0
    if channels and found.shape[-1] == channels and expected.shape[-1] != channels:
        rest = (expected.shape[0], *expected.shape[2:])
        order = (0, expected.ndim - 1, *range(1, expected.ndim - 1))
        return found.reshape((*rest, channels)).transpose(order)
    return found.reshape(expected.shape)


def tapped_values(graph: Graph, known: frozenset[str]) -> tuple[str, ...]:
    """Values of a result that its model computes too, under the same name, in the order of the schedule."""
    return tuple(v for op in graph.ops() if not graph.is_const_eval(op) for v in op.outputs if v in known)


@dataclass
class OpComparison:
    """Results of ops as they come, each beside the model's value of that name."""

    bounds: Bounds
    expected: Mapping[str, Array]
    ops: list[Record] = field(default_factory=list)
    skipped: int = 0
    """Results for which the model has no value."""

    def take(self, op: str, kind: str, value: str, found: Array) -> None:
        """Compare the result of an op."""
        wanted = self.expected.get(value)
        if wanted is None or in_shape_of(found, wanted) is None:
            self.skipped += 1
            return
        self.ops.append({"op": op, "kind": kind, **compared(value, found, wanted, self.bounds)})

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
