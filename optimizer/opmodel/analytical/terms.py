"""What the time formulas share: constants with the clock, and terms by what would bound the op."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.opmodel.base import Bound

PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
"""Passes of the matrix engine at each math fidelity."""


class Terms(dict[Bound, float]):
    """Nanoseconds by what would bound the op; same bounds add up."""

    def add(self, bound: Bound, value: float) -> None:
        self[bound] = self.get(bound, 0.0) + value


class Clock:
    """The constants of one architecture at one clock."""

    def __init__(self, constants: Mapping[str, float], clock_mhz: int) -> None:
        self.k = constants
        self.ns_per_cycle = 1000.0 / clock_mhz

    def cycles(self, count: float) -> float:
        """Nanoseconds of so many cycles."""
        return count * self.ns_per_cycle
