"""Bounded fit of positive constants: least absolute deviations of logarithms, by Levenberg-Marquardt.

Deterministic: no random start, no threads; the same rows and start values give the same constants.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
SMOOTHING = 0.02
"""Deviations below this count quadratically."""
STEP = 0.02
"""Relative step of the numerical derivatives."""


def _loss(residuals: Vector) -> float:
    return float(np.sum(np.sqrt(residuals**2 + SMOOTHING**2) - SMOOTHING))


def _jacobian(f: Callable[[Vector], Vector], at: Vector, residuals: Vector, high: Vector) -> NDArray[np.float64]:
    columns = []
    for index in range(len(at)):
        step = STEP if at[index] + STEP <= high[index] else -STEP
        moved = at.copy()
        moved[index] += step
        columns.append((f(np.exp(moved)) - residuals) / step)
    return np.stack(columns, axis=1)


def fit(f: Callable[[Vector], Vector], start: Vector, low: Vector, high: Vector, rounds: int = 40) -> Vector:
    """Constants within [low, high] that make the residuals `f(constants)` small."""
    lowest, highest = np.log(low), np.log(high)
    at = np.clip(np.log(start), lowest, highest)
    damping, residuals = 1e-2, f(np.exp(at))
    best = _loss(residuals)
    for _ in range(rounds):
        jacobian = _jacobian(f, at, residuals, highest)
        weights = 1 / np.sqrt(residuals**2 + SMOOTHING**2)
        normal = (jacobian * weights[:, None]).T @ jacobian
        gradient = (jacobian * weights[:, None]).T @ residuals
        scale = np.diag(np.diag(normal)) + 1e-6 * np.trace(normal) * np.eye(len(at))
        gain = 0.0
        for _ in range(6):
            step = np.clip(np.linalg.solve(normal + damping * scale, -gradient), -0.7, 0.7)
            moved = np.clip(at + step, lowest, highest)
            found = f(np.exp(moved))
            loss = _loss(found)
            if loss < best * (1 - 1e-6):
                gain, at, residuals, best = (best - loss) / best, moved, found, loss
                damping = max(damping / 4, 1e-6)
                break
            damping *= 4
        if gain < 1e-4:
            break
    return np.exp(at)
