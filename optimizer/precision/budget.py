"""How much error the outputs of a model may have, and what each op's own error makes of it there.

An op adds an error to its result whose mean square, relative to the result's, is its noise. What that is at the
outputs is the noise times the sensitivity of the result, which is measured (`optimizer.values.sensitivity`). Errors of
different ops are independent, so their mean squares add up: the budget is one more capacity of the problem.

With an error of relative mean square e that is not correlated with the output, the correlation (PCC) of the two is
1 / sqrt(1 + e).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import NamedTuple

from optimizer.errors import OptionError
from optimizer.options import LEAST_PCC

UNITS = 1 << 20
"""What the whole budget counts in the problem, whose numbers are integers."""


def error_of_pcc(pcc: float) -> float:
    """The relative mean square of an error that leaves this correlation."""
    return 1.0 / (pcc * pcc) - 1.0


def pcc_of_error(error: float) -> float:
    """The correlation that an error of this relative mean square leaves."""
    return 1.0 / sqrt(1.0 + error)


class OpNoise(NamedTuple):
    """Relative mean squares of the errors that one way to run an op makes."""

    result: float = 0.0
    """In the result, of every element by itself."""
    weights: float = 0.0
    """In the weights: what their element type and the passes leave out."""

    def no_more_than(self, other: OpNoise) -> bool:
        """Whether it is as exact in both."""
        return self.result <= other.result and self.weights <= other.weights


NO_NOISE = OpNoise()


@dataclass(frozen=True)
class ErrorBudget:
    """What the errors of all ops may add up to at the outputs."""

    least_pcc: float
    sensitivities: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Value -> relative mean square of the outputs' error per relative mean square of an error of the value; of several
    outputs the largest."""
    weights: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Op -> the same per relative mean square of an error of its weights: that is the same in every row of the result,
    and does not average out."""
    scale: float = 1.0
    """By how much the measured error of a plan was larger than the sum; it corrects all sensitivities."""

    def __post_init__(self) -> None:
        if not LEAST_PCC <= self.least_pcc < 1.0:
            raise OptionError(
                f"'least_pcc' must be at least {LEAST_PCC} and below 1, got {self.least_pcc}", node="least_pcc"
            )

    @property
    def most_error(self) -> float:
        """Relative mean square of the error that the outputs may have."""
        return error_of_pcc(self.least_pcc)

    @property
    def capacity(self) -> int:
        """Units that the ops have together."""
        return UNITS

    def error(self, op_id: str, value_id: str, noise: OpNoise) -> float:
        """What an op's errors of these relative mean squares make at the outputs; `value_id` is its result."""
        of_result = self.sensitivities.get(value_id, 0.0)
        of_weights = self.weights.get(op_id, of_result)
        return self.scale * (of_result * noise.result + of_weights * noise.weights)

    def units(self, op_id: str, value_id: str, noise: OpNoise) -> int:
        """The same as a share of the budget, rounded up."""
        return ceil(UNITS * self.error(op_id, value_id, noise) / self.most_error)
