"""Gather and its relatives: slices where the indices are regular constants, embeddings elsewhere."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError, Shape
from optimizer.ir.dtype import DType

Array = np.ndarray[Any, Any]


def gather(ctx: Lowering) -> str:
    shape, index_shape = ctx.shape(0), ctx.shape(1)
    axis = ctx.axis(ctx.attr("axis", 0), len(shape))
    out = ctx.out_shape() or (1,)
    index = ctx.const(1)
    if index is not None:
        wrapped = np.where(index < 0, index + shape[axis], index).reshape(-1)
        if wrapped.size and (wrapped.min() < 0 or wrapped.max() >= shape[axis]):
            raise NotMappedError("index outside the tensor")
        chosen = _regular(ctx, ctx.x(0), axis, wrapped)
        if chosen is not None:
            return ctx.reshape(chosen, out)
    ids = _ids(ctx, index, shape[axis])
    rest = (*shape[:axis], *shape[axis + 1 :])
    table = ctx.permute(ctx.x(0), [axis, *(i for i in range(len(shape)) if i != axis)])
    rows = embed(ctx, ids, ctx.reshape(table, (shape[axis], prod(rest))), index_shape)
    # rows: [*index, *rest]; the index dims belong where the axis was
    n = len(index_shape)
    rows = ctx.reshape(rows, (*index_shape, *rest) or (1,))
    if axis:
        rows = ctx.permute(rows, [*range(n, n + axis), *range(n), *range(n + axis, n + len(rest))])
    return ctx.reshape(rows, out)


def _regular(ctx: Lowering, x: str, axis: int, index: Array) -> str | None:
    """A slice for equally spaced ascending indices; a short concat of slices for a few; None otherwise."""
    if index.size == 1:
        return ctx.slice(x, axis, int(index[0]), int(index[0]) + 1)
    steps = np.diff(index)
    if steps.size and steps[0] > 0 and bool(np.all(steps == steps[0])):
        return ctx.slice(x, axis, int(index[0]), int(index[-1]) + 1, int(steps[0]))
    if index.size <= 8:
        return ctx.emit("concat", *[ctx.slice(x, axis, int(i), int(i) + 1) for i in index], dim=axis)
    return None


def _ids(ctx: Lowering, index: Array | None, size: int) -> str:
    """Indices as u32."""
    if index is not None:
        wrapped = np.where(index < 0, index + size, index)
        return ctx.constant(wrapped, DType.U32, "indices")
    return ctx.typecast(ctx.x(1), DType.U32)


def embed(ctx: Lowering, ids: str, table: str, index_shape: Shape) -> str:
    """Rows of a table [rows, width]: [*index, width]. TTNN takes indices of rank 1 or 2."""
    if not ctx.vdtype(table).is_float:
        raise NotMappedError("gather from integers by run-time indices")
    if len(ctx.vshape(ids)) > 2:
        ids = ctx.reshape(ids, (1, prod(index_shape)))
    return ctx.emit("embedding", ids, table)


def gather_nd(ctx: Lowering) -> str:
    shape, index_shape = ctx.shape(0), ctx.shape(1)
    if ctx.attr("batch_dims", 0):
        raise NotMappedError("GatherND with batch_dims")
    depth = index_shape[-1]
    count = prod(index_shape[:-1])
    strides = [prod(shape[i + 1 : depth]) for i in range(depth)]
    rows, width = prod(shape[:depth]), prod(shape[depth:])
    out = ctx.out_shape() or (1,)
    index = ctx.const(1)
    if index is not None:
        wrapped = np.where(index < 0, index + np.asarray(shape[:depth]), index)
        flat = (wrapped.reshape(-1, depth) * np.asarray(strides)).sum(axis=1)
        table = ctx.reshape(ctx.x(0), (rows, width))
        chosen = _regular(ctx, table, 0, flat)
        if chosen is not None:
            return ctx.reshape(chosen, out)
        ids = ctx.constant(flat, DType.U32, "indices")
    else:
        ids = _flat_ids(ctx, ctx.reshape(ctx.x(1), (count, depth)), strides)
    table = ctx.reshape(ctx.x(0), (rows, width))
    return ctx.reshape(embed(ctx, ids, table, (count,)), out)


def _flat_ids(ctx: Lowering, index: str, strides: list[int]) -> str:
    """Row numbers [count] of multi-dimensional indices [count, depth]."""
    count = ctx.vshape(index)[0]
    total: str | None = None
    for column, stride in enumerate(strides):
        part = ctx.slice(index, 1, column, column + 1)
        if stride != 1:
            part = ctx.emit("multiply", part, scalar=stride)
        total = part if total is None else ctx.emit("add", total, part)
    assert total is not None
    return ctx.typecast(ctx.reshape(total, (count,)), DType.U32)


def gather_elements(ctx: Lowering) -> str:
    axis = ctx.axis(ctx.attr("axis", 0), len(ctx.shape(0)))
    index = ctx.const(1)
    if index is not None:
        ids = ctx.constant(np.where(index < 0, index + ctx.shape(0)[axis], index), DType.U32, "indices")
    else:
        ids = ctx.typecast(ctx.x(1), DType.U32)
    x, target = ctx.x(0), ctx.shape(1)
    for dim, size in enumerate(target):
        if dim != axis and ctx.vshape(x)[dim] != size:
            x = ctx.slice(x, dim, 0, size)
    return ctx.emit("gather", x, ids, dim=axis)


def one_hot(ctx: Lowering) -> str:
    depth = int(ctx.need_const(1, "depth").reshape(-1)[0])
    off, on = (float(v) for v in ctx.need_const(2, "values").reshape(-1))
    index_shape = ctx.shape(0)
    axis = ctx.axis(ctx.attr("axis", -1), len(index_shape) + 1)
    ids = ctx.reshape(ctx.x(0), (*index_shape[:axis], 1, *index_shape[axis:]))
    steps = np.arange(depth).reshape((depth,) + (1,) * (len(index_shape) - axis))
    hit = ctx.emit("eq", ids, ctx.constant(steps, ctx.vdtype(ids), "classes"))
    hit = ctx.typecast(hit, ctx.dtype(ctx.node.outputs[0]))
    if on - off != 1.0:
        hit = ctx.emit("multiply", hit, scalar=on - off)
    return hit if off == 0 else ctx.emit("add", hit, scalar=off)


OPS: dict[str, NodeMapping] = {
    "Gather": gather,
    "GatherND": gather_nd,
    "GatherElements": gather_elements,
    "OneHot": one_hot,
}
