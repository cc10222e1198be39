"""How far an error in one tensor moves a model's outputs, measured by noise.

Small noise in all tensors at once moves the outputs by the sum of what each moves them. The same noise is injected in
several runs with another sign per tensor and run: the average of the outputs' errors, each times the tensor's sign, is
the tensor's own share and some of the others', whose size is known and taken off (random signs: M. F. Hutchinson, "A
stochastic estimator of the trace", 1990). Outputs of few elements cannot tell tensors apart so: then each tensor has
noise in a run of its own, of what follows it.

Noise is relative to the root mean square of 16 neighbouring elements, which share an exponent where tensors are stored
in blocks; elements that are zero stay zero. What reaches an output is measured as a correlation sees it: the part of the
output's error that is not a multiple of the output, relative to the output's spread around its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np

from optimizer.errors import ExecutionError
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.opdef import Elements
from optimizer.ir.vocabulary import opdef
from optimizer.values.graph_values import results_of, source_array
from optimizer.values.reference.kinds import Array

INJECTED = 2.0**-9
"""Root mean square of the noise, relative: small enough that effects add up, far above the digits of float32."""
_BLOCK = 16
_DIGITS = "float32"
_EXACTNESS = 0.2
"""Standard error of a tensor's share, relative to the average share."""
_LEAST_RUNS = 4
_TELLING = 4096
"""Elements of outputs that count as independent, at most."""

_MASKING = 1e18
"""Elements as large as that only say that others do not count: they have no noise."""

Signed = Callable[[str, Array], Array]
"""(value, its array) -> the array with the noise of the run."""


@dataclass(frozen=True)
class Sensitivities:
    """What injected noise showed."""

    of: Mapping[str, float]
    """Value -> relative mean square of the outputs' error per relative mean square of its own; the largest of several
    outputs."""
    runs: int
    """How often the model ran."""


def measure(
    graph: Graph, given: Mapping[str, Array], seed: int = 0, poll: Callable[[], None] = lambda: None
) -> Sensitivities:
    """Sensitivities of the inputs and of every float result of a run, for these inputs and weights.

    Raises ExecutionError where an array is missing, an op has no reference or an output is no number, and what `poll`
    raises between ops.
    """
    return _Measuring(graph, given, seed, poll).all()


class _Measuring:
    def __init__(self, graph: Graph, given: Mapping[str, Array], seed: int, poll: Callable[[], None]) -> None:
        self._graph = graph
        self._seed = seed
        self._poll = poll
        self._sources: dict[str, Array] = {}
        for value in graph.values.values():
            if graph.producer(value.id) is None:
                array = source_array(value, given)
                self._sources[value.id] = array.astype(_DIGITS) if value.dtype.is_float else array
        prepared = [op for op in graph.ops() if graph.is_const_eval(op)]
        self._ops = [op for op in graph.ops() if not graph.is_const_eval(op)]
        for op in prepared:
            self._sources.update(self._run(op, self._sources))
        outputs = [v for v in graph.outputs if graph.value(v).dtype.is_float and graph.value(v).kind is not _WEIGHT]
        self._outputs = tuple(dict.fromkeys(outputs))
        self._open = {v: n for n, v in enumerate(self._noisy_values())}
        self._wanted = dict(zip(self._outputs, map(_centred, self._forward(lambda _, x: x)), strict=True))
        if not any(array.any() for array in self._wanted.values()):
            raise ExecutionError("no output of the model holds numbers whose correlation could be asked")

    def all(self) -> Sensitivities:
        telling = min(_TELLING, *(array.size for array in self._wanted.values()))
        runs = max(_LEAST_RUNS, ceil(len(self._open) / (_EXACTNESS * sqrt(telling))))
        together = runs < len(self._open) / 2
        shares = self._together(runs) if together else self._one_by_one()
        found = {v: share / INJECTED**2 for v, share in zip(self._open, shares, strict=True)}
        for op in self._ops:
            if op.inputs and self._follows(op) and op.inputs[0] in found:
                found.update(dict.fromkeys(op.outputs, found[op.inputs[0]]))
        return Sensitivities(found, 1 + (runs if together else len(self._open)))

    # -- noise ---------------------------------------------------------------------------------------
    def _together(self, runs: int) -> list[float]:
        """Shares of all tensors, of runs with noise in all of them."""
        signs = np.random.default_rng([self._seed, 1]).choice([-1.0, 1.0], (runs, len(self._open)))
        sums = {v: np.zeros((len(self._open), array.size), _DIGITS) for v, array in self._shown().items()}
        total = dict.fromkeys(self._outputs, 0.0)
        for row in signs:
            got = self._forward(lambda v, x, row=row: x + row[self._open[v]] * self._noise(v, x))
            for v, array in zip(self._outputs, got, strict=True):
                error = self._error(v, array)
                total[v] += float(error @ error) / runs
                seen = error[self._seen[v]]
                sums[v] += (row[:, None] * seen[None, :] / runs).astype(_DIGITS)
        shares = np.zeros(len(self._open))
        for v, table in sums.items():
            part = self._seen[v].size / self._wanted[v].size
            own = (table.astype(np.float64) ** 2).sum(axis=1) / part
            other = total[v] / runs
            exact = total[v] / (runs * sqrt(min(_TELLING, self._seen[v].size)))
            share = np.maximum((own - other) / (1 - 1 / runs), 0.0) + exact
            shares = np.maximum(shares, share / float(self._wanted[v] @ self._wanted[v]))
        return [float(share) for share in shares]

    def _shown(self) -> Mapping[str, Array]:
        """Of every output that tells anything, the elements that are looked at: a sample of a large one."""
        rng = np.random.default_rng([self._seed, 2])
        telling = {v: array for v, array in self._wanted.items() if array.any()}
        self._seen = {
            v: np.arange(array.size) if array.size <= _TELLING else np.sort(rng.permutation(array.size)[:_TELLING])
            for v, array in telling.items()
        }
        self._outputs = tuple(telling)
        self._wanted = telling
        return {v: array[self._seen[v]] for v, array in telling.items()}

    def _one_by_one(self) -> list[float]:
        """Shares of all tensors, each of a run with noise in it alone."""
        values: dict[str, Array] = dict(self._sources)
        for v in self._graph.inputs:
            values[v] = self._sources[v]
        for op in self._ops:
            values.update(self._run(op, values))
        return [self._alone(v, values) for v in self._open]

    def _alone(self, value_id: str, values: Mapping[str, Array]) -> float:
        noisy = {value_id: values[value_id] + self._noise(value_id, values[value_id])}
        readers = {op.id for op in self._graph.consumers(value_id)}
        for op in self._ops:
            if op.id in readers:
                self._poll()
                noisy.update(self._run(op, {v: noisy.get(v, values[v]) for v in op.inputs}))
                readers.update(reader.id for v in op.outputs for reader in self._graph.consumers(v))
        shares = []
        for v, wanted in self._wanted.items():
            error = self._error(v, noisy.get(v, values[v]))
            size = float(wanted @ wanted)
            shares.append(float(error @ error) / size if size else 0.0)
        return max(shares)

    def _noise(self, value_id: str, x: Array) -> Array:
        """The value's own noise, the same in every run."""
        rng = np.random.default_rng([self._seed, 3, self._open[value_id]])
        width = x.shape[-1] if x.ndim else 1
        rows = np.where(np.abs(x) < _MASKING, x, 0).reshape(-1, width)
        blocks = np.pad(rows, ((0, 0), (0, -width % _BLOCK))).reshape(len(rows), -1, _BLOCK)
        size = np.sqrt((blocks**2).sum(axis=-1) / min(_BLOCK, width)).repeat(_BLOCK, axis=-1)[:, :width]
        noise = np.float32(INJECTED) * size * rng.standard_normal(rows.shape, np.float32)
        return np.where(rows == 0, np.float32(0), noise).reshape(x.shape)

    def _error(self, value_id: str, got: Array) -> Array:
        """An output's error as a correlation sees it."""
        wanted = self._wanted[value_id]
        centred = _centred(got)
        size = float(wanted @ wanted)
        if not np.isfinite(centred).all():
            raise ExecutionError(f"output '{value_id}' is not a number for these inputs and weights", node=value_id)
        return centred - wanted * (float(centred @ wanted) / size) if size else centred

    # -- the model -----------------------------------------------------------------------------------
    def _forward(self, noisy: Signed) -> list[Array]:
        """The outputs of a run in which every open value has its noise."""
        store = dict(self._sources)
        for v in self._graph.inputs:
            store[v] = noisy(v, store[v]) if v in self._open else store[v]
        last = {v: n for n, op in enumerate(self._ops) for v in op.inputs}
        for n, op in enumerate(self._ops):
            self._poll()
            for v, array in self._run(op, store).items():
                store[v] = noisy(v, array) if v in self._open else array
            for v in op.inputs:
                if last[v] == n and v not in self._outputs:
                    store.pop(v, None)
        return [store[v] for v in self._outputs]

    def _run(self, op: Op, values: Mapping[str, Array]) -> dict[str, Array]:
        results = results_of(self._graph, op, [values[v] for v in op.inputs], _DIGITS)
        return {
            v: array.astype(_DIGITS, copy=False) if self._graph.value(v).dtype.is_float else array
            for v, array in zip(op.outputs, results, strict=True)
        }

    def _noisy_values(self) -> Iterator[str]:
        """Values that have noise of their own: inputs, and what an op makes of more than one tensor as it is."""
        for v in self._graph.inputs:
            if self._graph.value(v).dtype.is_float:
                yield v
        for op in self._ops:
            if not self._follows(op):
                yield from (v for v in op.outputs if self._graph.value(v).dtype.is_float)

    def _follows(self, op: Op) -> bool:
        """Whether the result is all of operand 0, which nothing else reads: then both are as sensitive."""
        if opdef(op.op).elements is not Elements.KEPT or self._graph.use_count(op.inputs[0]) != 1:
            return False
        return self._graph.value(op.inputs[0]).kind in (ValueKind.ACTIVATION, ValueKind.INPUT)


_WEIGHT = ValueKind.PARAMETER


def _centred(array: Array) -> Array:
    flat = array.astype(np.float64).ravel()
    centred: Array = flat - flat.mean()
    return centred
