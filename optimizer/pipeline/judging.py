"""What a written plan does to the outputs: its program emulated for every sample, beside the model in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf, isfinite, log
from statistics import mean, stdev
from typing import TYPE_CHECKING

import numpy as np

from optimizer.ir.graph import Graph, Op
from optimizer.pipeline.clock import Clock
from optimizer.precision.budget import error_of_pcc
from optimizer.result import OptimizedGraph
from optimizer.result.summary import MeasuredOutput
from optimizer.values.compare import compare
from optimizer.values.given import RANDOM, ModelValues
from optimizer.values.judged import Part, judged_arrays
from optimizer.values.reference.kinds import Array

if TYPE_CHECKING:
    from optimizer.values.graph_values import Seen

SPREADS = {2: 37.09, 3: 10.55, 4: 7.042, 5: 5.741, 6: 5.062, 7: 4.642, 8: 4.354}
"""By how many samples there are: standard deviations of their errors' logarithms by which that of the error that counts
lies above their mean, where samples are random. 99 of 100 other inputs have no larger one, with a confidence of 95 %
(one-sided tolerance limits of a normal distribution: Hahn and Meeker, "Statistical intervals", 1991, table A.12). An
error is the product of many factors, so that a few inputs have much larger ones than the rest."""
LARGEST_LOG = 40.0
"""Of an error that is as bad as any."""
LEAST_SEEN = 1e-3
"""Correlation below which one is as bad as another."""


@dataclass(frozen=True)
class Measured:
    """The errors of one plan."""

    outputs: tuple[MeasuredOutput, ...]
    """Of every judged part the worst of all samples."""
    errors: tuple[float, ...]
    """Of every sample that was looked at, the relative mean square of the worst part's error."""
    has_margin: bool
    """Whether inputs beside these samples count too."""

    @property
    def pcc(self) -> float:
        """Of the worst part of the worst sample."""
        return min(map(_pcc, self.outputs), default=1.0)

    @property
    def error(self) -> float:
        """The largest error of a sample, or with a margin where that is more what others may have."""
        largest = max(self.errors, default=0.0)
        if not self.has_margin or len(self.errors) < 2:
            return largest
        if min(self.errors) <= 0.0:  # exact for one sample: no logarithm
            return max(largest, mean(self.errors) + SPREADS[len(self.errors)] * stdev(self.errors))
        logs = [log(error) for error in self.errors]
        return max(largest, exp(min(mean(logs) + SPREADS[len(logs)] * stdev(logs), LARGEST_LOG)))


class Judge:
    """Judges the plans of one graph; what the model gives is computed once a sample."""

    def __init__(self, graph: Graph, values: ModelValues, parts: Sequence[Part], clock: Clock) -> None:
        self._graph, self._values, self._parts, self._clock = graph, values, tuple(parts), clock
        self._wanted: dict[int, list[Array]] = {}

    def measured(self, result: OptimizedGraph, most_error: float = inf) -> Measured:
        """The errors of a plan; after a sample whose error is larger than `most_error` no other one is looked at.

        TimeLimitError once the run has to end.
        """
        from optimizer.values.emulation.graph import emulated_result  # loads the emitter of programs

        rows: list[list[MeasuredOutput]] = []
        errors: list[float] = []
        for number, arrays in enumerate(self._values.samples):
            found = self._of_parts(partial(emulated_result, result, arrays))
            wanted = self._exact(number)
            rows.append([_measured(part, *pair) for part, *pair in zip(self._parts, found, wanted, strict=True)])
            errors.append(max(map(_error, rows[-1]), default=0.0))
            if errors[-1] > most_error:
                break
        worst = tuple(min(row, key=_pcc) for row in zip(*rows, strict=True))
        return Measured(worst, tuple(errors), self._values.inputs == RANDOM)

    def _exact(self, number: int) -> list[Array]:
        """What the model gives for a sample, in float64; what is kept of that is in float32."""
        from optimizer.values.graph_values import graph_values  # loads the emitter of programs

        if number not in self._wanted:
            arrays = self._values.samples[number]
            found = self._of_parts(partial(graph_values, self._graph, arrays))
            self._wanted[number] = [array.astype(np.float32) for array in found]
        return self._wanted[number]

    def _of_parts(self, run: Callable[[Seen], list[Array]]) -> list[Array]:
        def polled(seen: Seen) -> list[Array]:
            def both(op: Op, results: list[Array]) -> None:
                self._clock.poll_closing()
                seen(op, results)

            return run(both)

        return judged_arrays(self._parts, self._graph.outputs, polled)


def _measured(part: Part, found: Array, wanted: Array) -> MeasuredOutput:
    agreement, name = compare(found, wanted), part.before or part.value
    if not isfinite(agreement.as_pcc()):
        return MeasuredOutput(name=name, part=part.text(), pcc=0.0, relative_error=None, ratio=None)
    return MeasuredOutput(
        name=name,
        part=part.text(),
        pcc=agreement.as_pcc(),
        relative_error=agreement.relative_error,
        ratio=agreement.ratio,
    )


def _pcc(output: MeasuredOutput) -> float:
    return output.pcc


def _error(output: MeasuredOutput) -> float:
    """The relative mean square that its correlation stands for; of next to none, a large number."""
    return error_of_pcc(max(output.pcc, LEAST_SEEN))
