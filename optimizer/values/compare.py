"""How well values agree: one record for whole programs, ops and kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import ShapeError

FEW = 16
"""Of fewer numbers a correlation says little: that of two is 1 or -1."""


@dataclass(frozen=True)
class Agreement:
    """What a device gave against what it should have given."""

    pcc: float
    """Pearson's correlation coefficient; blind to a gain and an offset. 1 for equal constants."""
    relative_error: float
    """L2 norm of the difference over that of the reference."""
    ratio: float
    """Least-squares factor between the two: sum(got * reference) / sum(reference^2). A gain shows here."""
    largest_error: float
    """Largest absolute difference."""
    correlated: bool = True
    """Whether the reference has a correlation worth the name (`has_correlation`)."""

    def as_pcc(self) -> float:
        """The correlation; where there is none, the one that an error of this relative size would leave."""
        return self.pcc if self.correlated else 1.0 / float(np.sqrt(1.0 + self.relative_error**2))

    def acceptable(self, least_pcc: float, most_error: float) -> bool:
        """Whether the numbers keep both limits; never where one is not a number."""
        return self.as_pcc() >= least_pcc and self.relative_error <= most_error

    def record(self) -> dict[str, float]:
        figures = ("pcc", "relative_error", "ratio", "largest_error")
        return {name: float(f"{getattr(self, name):.6g}") for name in figures}


def has_correlation(reference: NDArray[Any]) -> bool:
    """Whether these numbers are enough, and not all the same."""
    return reference.size >= FEW and bool(reference.max() > reference.min())


def compare(got: NDArray[Any], reference: NDArray[Any]) -> Agreement:
    """Both in float64; ShapeError unless their shapes are equal. What is not a number in either makes all figures nan.

    Infinities that are equal on both sides agree.
    """
    if got.shape != reference.shape:
        raise ShapeError(f"values of shape {list(got.shape)} are compared with {list(reference.shape)}")
    a, b = got.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    same = np.isinf(b) & (a == b)
    if same.any():
        a, b = a[~same], b[~same]
    if a.size == 0:
        return Agreement(1.0, 0.0, 1.0, 0.0)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return Agreement(np.nan, np.nan, np.nan, np.nan)
    error, size = a - b, float(b @ b)
    distance = float(np.sqrt(error @ error))
    relative = distance / np.sqrt(size) if size else (0.0 if distance == 0 else np.inf)
    ratio = float(a @ b) / size if size else (1.0 if distance == 0 else np.nan)
    return Agreement(
        _pcc(a, b, distance), float(relative), ratio, float(np.abs(error).max()), correlated=has_correlation(b)
    )


def _pcc(a: NDArray[np.float64], b: NDArray[np.float64], distance: float) -> float:
    """Of constants, which have no correlation: 1 if equal, else 0."""
    a, b = a - a.mean(), b - b.mean()
    product = float(np.sqrt((a @ a) * (b @ b)))
    if product == 0:
        return 1.0 if distance == 0 else 0.0
    return min(1.0, max(-1.0, float(a @ b) / product))
