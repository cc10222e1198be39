"""Reductions, selections and running sums."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ttnn_standin.context import Context, Op, axis_of, on_device, tiled
from ttnn_standin.errors import Refused, Unmodelled
from ttnn_standin.signatures import Arguments
from ttnn_standin.tensor import Array, Tensor
from ttnn_standin.values import ROW_MAJOR, TILE, DataType


def _axes(a: Arguments, rank: int) -> tuple[int, ...]:
    dim = a["dim"]
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    return tuple(axis_of(a, d, rank) for d in dims)


def _reduce(function: Callable[..., Array]) -> Op:
    def op(c: Context, a: Arguments) -> Tensor:
        x = a["input_tensor"]
        tiled(a, x)
        if a["scalar"] != 1.0:
            raise Unmodelled(f"ttnn.{a.function} scaled")
        made = function(x.read(), axis=_axes(a, x.rank), keepdims=a["keepdim"])
        return c.result(a, np.asarray(made), x.dtype, TILE, x.memory)

    return op


def _prod(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    made = np.prod(x.read(), axis=_axes(a, x.rank), keepdims=a["keepdim"])
    return c.result(a, np.asarray(made), x.dtype, TILE, x.memory)


def _argmax(c: Context, a: Arguments) -> Tensor:
    x = a["input_tensor"]
    on_device(a, x)
    axis = None if a["dim"] is None else axis_of(a, a["dim"], x.rank)
    made = np.argmax(x.read(), axis=axis, keepdims=a["keepdim"])
    return c.result(a, np.asarray(made), DataType.UINT32, ROW_MAJOR, x.memory)


def _topk(c: Context, a: Arguments) -> list[Tensor]:
    x = a["input_tensor"]
    tiled(a, x)
    axis, count = axis_of(a, a["dim"], x.rank), a["k"]
    if count > x.shape[axis]:
        raise Refused(f"ttnn.topk: {count} of {x.shape[axis]}")
    values = x.read()
    if not a["sorted"]:
        raise Unmodelled("ttnn.topk unsorted")
    order = np.argsort(-values if a["largest"] else values, axis=axis, kind="stable")
    chosen = order.take(np.arange(count), axis=axis)
    kind = DataType.UINT16 if x.shape[axis] < 2**16 else DataType.UINT32
    best = np.take_along_axis(values, chosen, axis=axis)
    return [c.alike(a, best, x), c.result(a, chosen, kind, x.layout, x.memory)]


def _cumsum(c: Context, a: Arguments) -> Tensor:
    x = a["input"]
    on_device(a, x)
    axis = axis_of(a, a["dim"], x.rank)
    values = np.flip(x.read(), axis) if a["reverse_order"] else x.read()
    made = np.cumsum(values, axis=axis, dtype=values.dtype)
    return c.alike(a, np.flip(made, axis) if a["reverse_order"] else made, x, a["dtype"])


OPS: dict[str, Op] = {
    "sum": _reduce(np.sum),
    "mean": _reduce(np.mean),
    "max": _reduce(np.max),
    "min": _reduce(np.min),
    "prod": _prod,
    "argmax": _argmax,
    "topk": _topk,
    "cumsum": _cumsum,
}
"""Function of `ttnn` -> what it does."""
