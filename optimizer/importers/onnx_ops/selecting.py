"""What several ops share: choosing elements of an axis, and mixing them linearly."""

from __future__ import annotations

from math import prod

import numpy as np

from optimizer.importers.onnx_lowering import Lowering, NotMappedError, Shape
from optimizer.importers.onnx_ops.computed import Array
from optimizer.ir.dtype import DType

MAX_PARTS = 8
"""Slices that are put together before rows of a table are cheaper."""
MAX_CONSTANT = 1 << 16
"""Elements of a constant that an import may invent where there is another way."""
MAX_MATRIX = 1 << 18
"""Elements of an interpolation matrix; there is no other way."""


def select(ctx: Lowering, x: str, axis: int, index: Array) -> str:
    """`x.take(index, axis)` for constant indices >= 0: a slice, a concat of few slices, else rows of a table."""
    parts = runs(index.tolist())
    if len(parts) <= MAX_PARTS:
        pieces = [ctx.slice(x, axis, first, last + 1, step) for first, last, step in parts]
        return pieces[0] if len(pieces) == 1 else ctx.emit("concat", *pieces, dim=axis)
    return take(ctx, x, axis, ctx.constant(index, DType.U32, "indices"), (len(index),))


def runs(index: list[int]) -> list[tuple[int, int, int]]:
    """Indices as (first, last, step) of ascending runs, taken greedily."""
    found: list[tuple[int, int, int]] = []
    start = 0
    while start < len(index):
        end = start + 1
        step = index[end] - index[start] if end < len(index) else 1
        if step > 0:
            while end < len(index) and index[end] - index[end - 1] == step:
                end += 1
        if end - start == 2 and step > 1:  # two far apart are more often the start of another run
            end = start + 1
        found.append((index[start], index[end - 1], step if end - start > 1 else 1))
        start = end
    return found


def take(ctx: Lowering, x: str, axis: int, ids: str, index_shape: Shape) -> str:
    """Elements of `axis` by u32 indices; the index dims come where the axis was.

    Rows of a table move whole, so the axis goes to the front; TTNN's embedding takes float tables only.
    """
    shape = ctx.vshape(x)
    rest = (*shape[:axis], *shape[axis + 1 :])
    table = ctx.permute(x, [axis, *(i for i in range(len(shape)) if i != axis)])
    rows = table_rows(ctx, ids, ctx.reshape(table, (shape[axis], prod(rest))), index_shape)
    n = len(index_shape)
    rows = ctx.reshape(rows, (*index_shape, *rest) or (1,))
    if axis:
        rows = ctx.permute(rows, [*range(n, n + axis), *range(n), *range(n + axis, n + len(rest))])
    return rows


def table_rows(ctx: Lowering, ids: str, table: str, index_shape: Shape) -> str:
    """Rows of a table [rows, width]: [*index, width]. TTNN takes indices of rank 1 or 2."""
    count = prod(index_shape)
    if ctx.vdtype(table).is_float:
        if len(ctx.vshape(ids)) > 2:
            ids = ctx.reshape(ids, (1, count))
        return ctx.emit("embedding", ids, table)
    width = ctx.vshape(table)[1]
    ids = ctx.reshape(ids, (count, 1))
    if width > 1:
        ids = ctx.emit("repeat", ids, repeats=(1, width))
    return ctx.emit("gather", table, ids, dim=0)


def along(ctx: Lowering, x: str, axis: int, matrix: Array) -> str:
    """Replace the elements of an axis by linear mixtures of them; `matrix` is [new, old]."""
    if matrix.size > MAX_MATRIX:
        raise NotMappedError(f"an interpolation matrix of {matrix.shape[0]} x {matrix.shape[1]}")
    weights = ctx.constant(np.ascontiguousarray(matrix.T), ctx.vdtype(x), "weights")
    return mix(ctx, x, axis, weights)


def mix(ctx: Lowering, x: str, axis: int, weights: str) -> str:
    """As `along`, by a matrix [old, new] that is already a value."""
    rank = len(ctx.vshape(x))
    swapped = [i for i in range(rank) if i != axis] + [axis]
    if rank == 1:
        return ctx.reshape(ctx.emit("matmul", ctx.reshape(x, (1, *ctx.vshape(x))), weights), ctx.vshape(weights)[1:])
    mixed = ctx.emit("matmul", ctx.permute(x, swapped), weights)
    return ctx.permute(mixed, [*range(axis), rank - 1, *range(axis, rank - 1)])


def broadcast_to(ctx: Lowering, x: str, shape: Shape, target: Shape) -> str:
    """Repeat a value of foreign shape `shape` to `target`."""
    padded = (*(1,) * (len(target) - len(shape)), *shape)
    x = ctx.reshape(x, padded or (1,))
    repeats = tuple(t // s for t, s in zip(target, padded, strict=True))
    return x if set(repeats) <= {1} else ctx.emit("repeat", x, repeats=repeats)


def full(ctx: Lowering, shape: Shape, value: float, dtype: DType | None = None) -> str:
    """A tensor of one number."""
    return ctx.emit("full", shape=shape, value=value, dtype=(dtype or ctx.float_dtype).value)
