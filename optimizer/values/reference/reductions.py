"""Reductions, sorting and running sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optimizer.values.reference.kinds import Array, Attrs, Computed, Rule, of_sum


def _axes(attrs: Attrs, x: Array) -> tuple[int, ...]:
    dim: Any = attrs.get("dim")
    if dim is None:
        return tuple(range(x.ndim))
    return tuple(sorted(int(d) % x.ndim for d in (dim if isinstance(dim, tuple | list) else (dim,))))


def _keeps(attrs: Attrs) -> bool:
    return bool(attrs.get("keepdim", True))


def _sum(mean: bool) -> Rule:
    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array | Computed]:
        x = operands[0]
        axes, keep = _axes(attrs, x), _keeps(attrs)
        if x.dtype.kind != "f":
            return [x.sum(axis=axes, keepdims=keep)]
        terms = int(np.prod([x.shape[a] for a in axes]))
        return [of_sum(lambda v: v.sum(axis=axes, keepdims=keep), x, terms, 1 / terms if mean else 1.0)]

    return rule


def _extreme(function: Any) -> Rule:
    return lambda attrs, operands: [function(operands[0], axis=_axes(attrs, operands[0]), keepdims=_keeps(attrs))]


def _spread(root: bool) -> Rule:
    """Sample variance (divided by n - 1), as TTNN's; its root."""

    def rule(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Computed]:
        x = operands[0]
        axes, keep = _axes(attrs, x), _keeps(attrs)
        variance = x.var(axis=axes, keepdims=keep, ddof=1)
        size = (x**2).mean(axis=axes, keepdims=keep)
        value, most = (np.sqrt(variance), np.sqrt(size)) if root else (variance, size)
        return [Computed(value, most, most)]

    return rule


def _argmax(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    x, dim = operands[0], attrs.get("dim")
    if dim is None:
        found = np.asarray(x.argmax())
        return [found.reshape((1,) * x.ndim) if attrs.get("keepdim") else found]
    axis = int(dim[0] if isinstance(dim, tuple) else dim)
    return [np.argmax(x, axis=axis, keepdims=bool(attrs.get("keepdim")))]


def _ordered(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    index = np.argsort(-x if descending else x, axis=axis, kind="stable")
    return np.take_along_axis(x, index, axis), index


def _topk(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array]:
    x, axis = operands[0], int(attrs["dim"])
    return [v.take(range(attrs["k"]), axis) for v in _ordered(x, axis, bool(attrs.get("largest", True)))]


def _cumsum(attrs: Attrs, operands: Sequence[Array]) -> Sequence[Array | Computed]:
    x, axis = operands[0], int(attrs["dim"])

    def total(v: Array) -> Array:
        if attrs.get("reverse_order"):
            return np.flip(np.flip(v, axis).cumsum(axis), axis)
        return v.cumsum(axis)

    return [of_sum(total, x, x.shape[axis]) if x.dtype.kind == "f" else total(x)]


RULES: Mapping[str, Rule] = {
    "ttnn.sum": _sum(mean=False),
    "ttnn.mean": _sum(mean=True),
    "ttnn.max": _extreme(np.max),
    "ttnn.min": _extreme(np.min),
    "ttnn.prod": _extreme(np.prod),
    "ttnn.std": _spread(root=True),
    "ttnn.var": _spread(root=False),
    "ttnn.argmax": _argmax,
    "ttnn.topk": _topk,
    "ttnn.sort": lambda attrs, x: list(_ordered(x[0], int(attrs["dim"]), bool(attrs.get("descending")))),
    "ttnn.cumsum": _cumsum,
}
