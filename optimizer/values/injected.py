"""Sensitivities by noise: each tensor has noise in a run of its own, of what follows it.

It takes a run a tensor, and knows nothing of derivatives: the witness of `optimizer.values.sensitivity`, and what that
asks about tensors before an op without a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from optimizer.ir.graph import Graph
from optimizer.values.float_run import FloatRun
from optimizer.values.noise import centred, error_sizes, unlike
from optimizer.values.reference.kinds import Array

_SIZE = 2.0**-9
"""Root mean square of the noise, relative: small enough that effects are linear, far above the digits of float32."""


def injected(
    graph: Graph,
    given: Mapping[str, Array],
    seed: int = 0,
    poll: Callable[[], None] = lambda: None,
    draws: int = 1,
    of: Collection[str] | None = None,
) -> dict[str, float]:
    """Value -> its sensitivity as `Sensitivities.of` has it, the mean of several draws; of all values, or of some."""
    run = FloatRun(graph, given, poll)
    return injected_into(run, run.values(), seed, draws, of)


def injected_into(
    run: FloatRun, values: Mapping[str, Array], seed: int, draws: int = 1, of: Collection[str] | None = None
) -> dict[str, float]:
    """The same for a run that has been made."""
    asked = [v for v in (*run.graph.inputs, *(v for op in run.ops for v in op.outputs)) if run.is_followed(v)]
    return {
        v: float(np.mean([_alone(run, values, v, [seed, position, draw]) for draw in range(draws)]))
        for position, v in enumerate(asked)
        if of is None or v in of
    }


def _alone(run: FloatRun, values: Mapping[str, Array], value_id: str, seed: list[int]) -> float:
    x = values[value_id]
    noise = np.float32(_SIZE) * error_sizes(x) * np.random.default_rng(seed).standard_normal(x.shape, np.float32)
    noisy = {value_id: x + noise}
    readers = {op.id for op in run.graph.consumers(value_id)}
    for op in run.ops:
        if op.id in readers:
            run.poll()
            noisy.update(run.results(op, {v: noisy.get(v, values[v]) for v in op.inputs}))
            readers.update(reader.id for v in op.outputs for reader in run.graph.consumers(v))
    shares = []
    for part, wanted in run.judged(values).items():
        v = part.value
        error = unlike(wanted, centred(v, part.of(noisy.get(v, values[v]))) - wanted)
        shares.append(float(error @ error) / float(wanted @ wanted))
    return max(shares) / _SIZE**2
