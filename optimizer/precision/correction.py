"""By how much sensitivities are corrected when a plan's measured error is not what was expected.

The scale of all sensitivities is raised where a plan missed the budget and lowered where one left much of it. How the
measured error falls with the scale is not known: some ops' errors are predicted too small, others' are not. So two
misses are extended by a line through the logarithms, and between a miss and a plan within the budget the middle is
tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt

MARGIN = 1.05
"""By how much more than measured a correction raises the sensitivities."""
FARTHEST = 4.0
"""Most that a line is extended by, as a factor of the scale."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A plan that was searched for with a scale, and its errors at the outputs."""

    scale: float
    predicted: float
    measured: float


def next_scale(trials: Sequence[Trial], most_error: float) -> float | None:
    """The scale to search with after these trials; None where another promises nothing."""
    last = trials[-1]
    wanted = last.scale * last.measured / last.predicted * MARGIN
    misses = [trial for trial in trials if trial.measured > most_error]
    low = max((trial.scale for trial in misses), default=0.0)
    high = min((trial.scale for trial in trials if trial.measured <= most_error), default=inf)
    if high == inf:
        return max(wanted, _extended(misses, most_error / MARGIN))
    if wanted >= high and not misses:  # what it leaves of the budget buys no time
        return None
    if low >= high:
        return None
    return wanted if low < wanted < high else sqrt(low * high)


def _extended(misses: Sequence[Trial], wanted_error: float) -> float:
    """Where the line through the last two misses reaches an error; 0 where it does not fall."""
    if len(misses) < 2:
        return 0.0
    before, last = misses[-2:]
    fallen, raised = log(before.measured / last.measured), log(last.scale / before.scale)
    if fallen <= 0.0 or raised <= 0.0:
        return 0.0
    return last.scale * exp(min(log(FARTHEST), raised / fallen * log(last.measured / wanted_error)))
