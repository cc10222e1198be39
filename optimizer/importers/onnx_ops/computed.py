"""Arrays that a mapping makes up: indices, masks, matrices. Each asks the import's budget before it allocates.

No other module of the importers allocates an array whose size the model names.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from optimizer.importers.onnx_lowering import Lowering

Array = np.ndarray[Any, Any]


def counting(ctx: Lowering, count: int) -> Array:
    """0, 1, ... count - 1 as i64."""
    ctx.budget.elements(ctx.label, count)
    return np.arange(count)


def filled(ctx: Lowering, shape: tuple[int, ...], value: float) -> Array:
    """A tensor of one number as f64."""
    ctx.budget.elements(ctx.label, *shape)
    return np.full(shape, value, dtype=np.float64)


def diagonal(ctx: Lowering, rows: int, columns: int, k: int = 0) -> Array:
    """Ones on diagonal `k`, zeros elsewhere, as f64."""
    ctx.budget.elements(ctx.label, rows, columns)
    return np.eye(rows, columns, k=k)


def triangle(ctx: Lowering, rows: int, columns: int, k: int = 0) -> Array:
    """True on and below diagonal `k`."""
    ctx.budget.elements(ctx.label, rows, columns)
    return np.tri(rows, columns, k=k, dtype=bool)


def places(ctx: Lowering, shape: tuple[int, ...]) -> Array:
    """The position of every element of a tensor of this shape: [rank, elements] as i64."""
    ctx.budget.elements(ctx.label, max(1, len(shape)), *shape)
    return np.indices(shape).reshape(len(shape), -1)


def one_hot_rows(ctx: Lowering, index: Array, size: int) -> Array:
    """A row for each index with a one at it: [indices, size] as f64."""
    rows = filled(ctx, (len(index), size), 0.0)
    rows[np.arange(len(index)), index] = 1.0
    return rows


def bordered(ctx: Lowering, size: int, before: int, after: int, mode: Literal["reflect", "edge", "wrap"]) -> Array:
    """Which of `size` elements stands where after padding by reflection, edge or wrap."""
    ctx.budget.elements(ctx.label, size + before + after)
    return np.pad(np.arange(size), (before, after), mode=mode)
