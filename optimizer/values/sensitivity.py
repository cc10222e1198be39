"""How far an error in one tensor moves a model's outputs: of all tensors, by one pass from the outputs back.

A small error n of a tensor moves an output by J n, J being the output's derivatives. With independent errors of mean
square s_k^2 the output's error has the mean square sum_k s_k^2 |column k of J|^2, which is the expectation of
sum_k s_k^2 (J^T u)_k^2 over normal u of unit size (M. F. Hutchinson, "A stochastic estimator of the trace", 1990).
J^T u is what reverse mode gives, of every tensor at once (`optimizer.values.adjoint`). What s is relative to, and what
counts of an output's error, is in `optimizer.values.noise`: u is projected as that error would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from optimizer import families
from optimizer.errors import ExecutionError
from optimizer.ir.graph import STATIC, Graph, Op, ValueKind
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.values.adjoint.kinds import Call, Rule
from optimizer.values.float_run import FloatRun
from optimizer.values.injected import injected_into
from optimizer.values.judged import Part
from optimizer.values.noise import around_mean, error_sizes, unlike
from optimizer.values.reference.kinds import Array

_TELLING = 64
"""Elements of an output, times its probes, that are enough."""
_PART = 1 << 22
"""Elements of a weight that are looked at together."""
_PROBES = (4, 8)
"""Of one output, at least and at most. With four, sensitivities of ResNet-50 were within 5 % of those of 48 probes as a
root mean square; what reaches the output along one direction only, as a time step does, varies by 70 %."""
_PARTS = 6
"""Judged parts that probes go back from, at most."""


@dataclass(frozen=True)
class Sensitivities:
    """What the pass showed."""

    of: Mapping[str, float]
    """Value -> relative mean square of the outputs' error per relative mean square of its own; the largest of all parts
    that are judged (`optimizer.values.judged`)."""
    weights: Mapping[str, float]
    """Op that multiplies by a weight -> the same per relative mean square of an error of that weight, which is the same
    for all rows of a tensor and so does not average out as errors of the result do."""
    probes: Mapping[Part, int]
    """Judged part -> how many random vectors went back from it."""
    judged: tuple[Part, ...] = ()
    """All of them; none went back from the smallest of many."""
    by_noise: tuple[str, ...] = ()
    """Ops without a rule: what lies before one was measured by noise, each tensor in a run of its own."""


def measure(
    graph: Graph, given: Mapping[str, Array], seed: int = 0, poll: Callable[[], None] = lambda: None
) -> Sensitivities:
    """Sensitivities of the inputs and of every float result of a run, for these inputs and weights.

    Raises ExecutionError where an array is missing, an op has no reference, an output or a gradient is no number, and
    what `poll` raises between ops.
    """
    run = FloatRun(graph, given, poll)
    values = run.values()
    wanted = run.judged(values)
    seen = dict(sorted(wanted.items(), key=lambda item: -item[1].size)[:_PARTS])
    shapes = {part: values[part.value].shape for part in seen}
    probes = [probe for part, array in seen.items() for probe in _probes_of(part, array, shapes[part], seed)]
    ruleless = tuple(
        op for op in run.ops if families.entry("ADJOINTS", op.op) is None and any(map(run.is_followed, op.outputs))
    )
    before = _ancestors(run, ruleless)
    noisy = injected_into(run, values, seed, of=before) if before else {}
    backwards = _Backwards(run, values, probes)
    found = backwards.sensitivities()
    return Sensitivities(
        {v: noisy.get(v, size) for v, size in found.items()},
        backwards.weights,
        {part: sum(probe.part == part for probe in probes) for part in seen},
        tuple(wanted),
        tuple(op.id for op in ruleless),
    )


@dataclass(frozen=True, eq=False)
class _Probe:
    """A random vector on one judged part, projected, relative to the root of the part's sum of squares."""

    part: Part
    vector: Array
    """Of the whole value, zeros beside the part."""


def _probes_of(part: Part, wanted: Array, shape: tuple[int, ...], seed: int) -> list[_Probe]:
    least, most = _PROBES
    count = min(most, max(least, ceil(_TELLING / wanted.size)))
    rng = np.random.default_rng([seed, wanted.size])
    size = float(np.sqrt(wanted @ wanted))
    found = []
    for _ in range(count):
        u = rng.standard_normal(wanted.size)
        u = unlike(wanted, around_mean(u)) / size
        found.append(_Probe(part, part.back(u.astype(np.float32), shape)))
    return found


def _ancestors(run: FloatRun, ops: tuple[Op, ...]) -> set[str]:
    """Every value that one of these ops is made of."""
    found = {v for op in ops for v in op.inputs}
    for op in reversed(run.ops):
        if not found.isdisjoint(op.outputs):
            found.update(op.inputs)
    return found


class _Backwards:
    """The pass: gradients of all probes, op by op from the last; values are forgotten behind it."""

    def __init__(self, run: FloatRun, values: dict[str, Array], probes: list[_Probe]) -> None:
        self._run = run
        self._values = values
        self._probes = probes
        self._gradients: list[dict[str, Array]] = [{probe.part.value: probe.vector} for probe in probes]
        """One table a probe."""
        self._found: dict[str, float] = {}
        self.weights: dict[str, float] = {}
        """By op."""

    def sensitivities(self) -> dict[str, float]:
        """In the order of the inputs and of the ops."""
        run = self._run
        for op in reversed(run.ops):
            run.poll()
            self._back(op)
        for v in run.graph.inputs:
            if run.is_followed(v):
                self._take(v)
        order = (*run.graph.inputs, *(v for op in run.ops for v in op.outputs))
        return {v: self._found[v] for v in order if v in self._found}

    def _back(self, op: Op) -> None:
        gradients = [[table.get(v) for v in op.outputs] for table in self._gradients]
        followed = frozenset(k for k, v in enumerate(op.inputs) if self._run.is_followed(v))
        weight = self._weight(op)
        reached = any(g is not None for row in gradients for g in row)
        rule: Rule | None = families.entry("ADJOINTS", op.op)
        if followed and reached and rule is not None:
            operands, results = ([self._values[v] for v in ids] for ids in (op.inputs, op.outputs))
            call = Call(op.op, opdef(op.op).full_attrs(op), operands, results, followed | weight)
            moved: dict[Part, list[float]] = {}
            with np.errstate(all="ignore"):
                transposed = rule(call)
                for probe, table, row in zip(self._probes, self._gradients, gradients, strict=True):
                    if any(g is not None for g in row):
                        for k, gradient in transposed(row).items():
                            v = op.inputs[k]
                            if k in weight:
                                share = _moved_by_weights(operands[k], gradient)
                                moved.setdefault(probe.part, []).append(share)
                            else:
                                table[v] = table[v] + gradient if v in table else gradient
            if moved:
                self.weights[op.id] = self._largest(op.id, moved)
        for v in op.outputs:
            if self._run.is_followed(v):
                self._take(v)
            self._values.pop(v, None)

    def _take(self, value_id: str) -> None:
        """The sensitivity of a value whose gradients are complete, which are forgotten."""
        sizes = error_sizes(self._values[value_id])
        by_part: dict[Part, list[float]] = {}
        for probe, table in zip(self._probes, self._gradients, strict=True):
            gradient = table.pop(value_id, None)
            with np.errstate(over="ignore"):  # which is told as what it is
                moved = 0.0 if gradient is None else _sum_of_squares(sizes * gradient)
            by_part.setdefault(probe.part, []).append(moved)
        self._found[value_id] = self._largest(value_id, by_part)

    def _largest(self, node: str, moved: Mapping[Part, Sequence[float]]) -> float:
        """Over the parts, of the mean over a part's probes."""
        largest = max(sum(row) / len(row) for row in moved.values())
        if not np.isfinite(largest):
            raise ExecutionError(f"the gradient of '{node}' is not a number", node=node)
        return largest

    def _weight(self, op: Op) -> frozenset[int]:
        """The operand that a product or convolution takes its weights from."""
        sums = opdef(op.op).cost_class in (CostClass.MATMUL, CostClass.CONV)
        kind = self._run.graph.value(op.inputs[1]).kind if sums else ValueKind.ACTIVATION
        return frozenset({1}) if kind in STATIC else frozenset()


def _moved_by_weights(weight: Array, gradient: Array) -> float:
    """What errors of a weight make of a probe, some rows at a time: weights may be large."""
    if weight.ndim != 2:
        return _sum_of_squares(_weight_sizes(weight) * gradient)
    step = max(1, _PART // weight.shape[1])
    tops = range(0, len(weight), step)
    return sum(_sum_of_squares(error_sizes(weight[t : t + step]) * gradient[t : t + step]) for t in tops)


def _weight_sizes(weight: Array) -> Array:
    """What errors of a weight are relative to: blocks lie along the results, as weights are stored; the kernels of a
    convolution [O, I, kh, kw] become columns."""
    if weight.ndim != 4 or weight.shape[-1] >= weight.shape[0]:
        return error_sizes(weight)
    return error_sizes(np.ascontiguousarray(weight.transpose(2, 3, 1, 0))).transpose(3, 2, 0, 1)


def _sum_of_squares(array: Array) -> float:
    flat = array.astype(np.float64).ravel()
    return float(flat @ flat)
