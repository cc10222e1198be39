"""Gather and its relatives: slices where the indices are regular constants, embeddings elsewhere.

Scatter: rows put together again where the indices are constant, TTNN's scatter elsewhere.
"""

from __future__ import annotations

from math import prod

import numpy as np

from optimizer.errors import GraphError
from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.computed import Array, counting, places
from optimizer.importers.onnx_ops.selecting import MAX_PARTS, runs, select, table_rows, take
from optimizer.ir.dtype import DType


def known_index(ctx: Lowering, position: int, sizes: int | list[int]) -> Array | None:
    """A constant index operand counted from the front; GraphError outside of the tensor, None at run time."""
    index = ctx.const(position)
    if index is None:
        return None
    limit = np.asarray(sizes)
    if index.size and (bool(np.any(index < -limit)) or bool(np.any(index >= limit))):
        bad = index[(index < -limit) | (index >= limit)]
        raise GraphError(f"index {int(bad.reshape(-1)[0])} is outside of a dim of {limit.tolist()} elements")
    return np.asarray(np.where(index < 0, index + limit, index))


def ids_of(ctx: Lowering, position: int, known: Array | None) -> str:
    """The index operand as u32."""
    if known is not None:
        return ctx.constant(known, DType.U32, "indices")
    return ctx.typecast(ctx.x(position), DType.U32)


def gather(ctx: Lowering) -> str:
    shape, index_shape = ctx.shape(0), ctx.shape(1)
    axis = ctx.axis(ctx.attr("axis", 0), len(shape))
    out = ctx.out_shape() or (1,)
    index = known_index(ctx, 1, shape[axis])
    if index is not None:
        return ctx.reshape(select(ctx, ctx.x(0), axis, index.reshape(-1)), out)
    return ctx.reshape(take(ctx, ctx.x(0), axis, ids_of(ctx, 1, None), index_shape), out)


def gather_nd(ctx: Lowering) -> str:
    shape, index_shape = ctx.shape(0), ctx.shape(1)
    batch = int(ctx.attr("batch_dims", 0))
    depth = batch + index_shape[-1]
    out = ctx.out_shape() or (1,)
    rows = row_numbers(ctx, 1, shape[:depth], batch)
    table = ctx.reshape(ctx.x(0), (prod(shape[:depth]), prod(shape[depth:])))
    if isinstance(rows, str):
        return ctx.reshape(table_rows(ctx, rows, table, ctx.vshape(rows)), out)
    return ctx.reshape(select(ctx, table, 0, rows), out)


def row_numbers(ctx: Lowering, position: int, sizes: tuple[int, ...], batch: int = 0) -> Array | str:
    """Flat row numbers [count] of the multi-dimensional indices of an operand [..., depth].

    Known ones as numbers, others as a u32 value. `sizes` are the indexed dims; `batch` of them are counted
    by the position of the index.
    """
    index_shape = ctx.shape(position)
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    depth = index_shape[-1]
    count = prod(index_shape[:-1])
    offset = 0 * counting(ctx, count)
    if batch:
        at = places(ctx, index_shape[:-1])[:batch]
        offset = sum((p * s for p, s in zip(at, strides, strict=False)), start=offset)
    index = known_index(ctx, position, list(sizes[batch:]))
    if index is not None:
        return np.asarray((index.reshape(-1, depth) * np.asarray(strides[batch:])).sum(axis=1) + offset)
    index_value = ctx.reshape(ctx.x(position), (count, depth))
    total: str | None = None
    for column, stride in enumerate(strides[batch:]):
        part = ctx.slice(index_value, 1, column, column + 1)
        if stride != 1:
            part = ctx.emit("multiply", part, scalar=stride)
        total = part if total is None else ctx.emit("add", total, part)
    assert total is not None
    if offset.any():
        total = ctx.emit("add", total, ctx.constant(offset.reshape(count, 1), ctx.vdtype(total), "offsets"))
    return ctx.typecast(ctx.reshape(total, (count,)), DType.U32)


def gather_elements(ctx: Lowering) -> str:
    axis = ctx.axis(ctx.attr("axis", 0), len(ctx.shape(0)))
    ids = ids_of(ctx, 1, known_index(ctx, 1, ctx.shape(0)[axis]))
    x, target = ctx.x(0), ctx.shape(1)
    for dim, size in enumerate(target):
        if dim != axis and ctx.vshape(x)[dim] != size:
            x = ctx.slice(x, dim, 0, size)
    return ctx.emit("gather", x, ids, dim=axis)


def compress(ctx: Lowering) -> str:
    """Elements where a condition holds; its length is only known when the condition is constant."""
    chosen = np.flatnonzero(ctx.need_const(1, "condition"))
    x, shape = ctx.x(0), ctx.vshape(ctx.x(0))
    if ctx.attr("axis") is None:
        return select(ctx, ctx.reshape(x, (prod(shape),)), 0, chosen)
    return select(ctx, x, ctx.axis(ctx.attr("axis"), len(shape)), chosen)


def reverse_sequence(ctx: Lowering) -> str:
    """The first elements of each sequence in reverse, by constant lengths."""
    shape = ctx.shape(0)
    time, batch = (ctx.axis(ctx.attr(name, d), 2) for name, d in (("time_axis", 0), ("batch_axis", 1)))
    if time == batch:
        raise GraphError(f"attributes 'time_axis' and 'batch_axis' are both {time}")
    order = counting(ctx, prod(shape[:2])).reshape(shape[:2])
    order = order if time == 0 else order.T
    lengths = ctx.need_const(1, "sequence lengths").reshape(-1).tolist()
    if len(lengths) != shape[batch] or not all(0 <= length <= shape[time] for length in lengths):
        raise GraphError(f"lengths {lengths} of {shape[batch]} sequences of at most {shape[time]} elements")
    for column, length in enumerate(lengths):
        order[: int(length), column] = order[: int(length), column][::-1].copy()
    order = order if batch == 1 else order.T
    flat = ctx.reshape(ctx.x(0), (shape[0] * shape[1], *shape[2:]))
    return ctx.reshape(select(ctx, flat, 0, order.reshape(-1)), shape)


def one_hot(ctx: Lowering) -> str:
    depth = int(ctx.need_const(1, "depth").reshape(-1)[0])
    off, on = (float(v) for v in ctx.need_const(2, "values").reshape(-1))
    index_shape = ctx.shape(0)
    axis = ctx.axis(ctx.attr("axis", -1), len(index_shape) + 1)
    ids = ctx.reshape(ctx.x(0), (*index_shape[:axis], 1, *index_shape[axis:]))
    steps = counting(ctx, depth).reshape((depth,) + (1,) * (len(index_shape) - axis))
    hit = ctx.emit("eq", ids, ctx.constant(steps, ctx.vdtype(ids), "classes"))
    hit = ctx.typecast(hit, ctx.dtype(ctx.node.outputs[0]))
    if on - off != 1.0:
        hit = ctx.emit("multiply", hit, scalar=on - off)
    return hit if off == 0 else ctx.emit("add", hit, scalar=off)


def _op(ctx: Lowering) -> str:
    reduction = str(ctx.attr("reduction", "none"))
    if reduction not in ("none", "add"):
        raise NotMappedError(f"a scatter that combines by '{reduction}'")
    return "scatter" if reduction == "none" else "scatter_add"


def scatter_elements(ctx: Lowering) -> str:
    """TTNN scatters along the last dim; another one is put there (TTNN would do the same inside)."""
    rank = len(ctx.shape(0))
    axis = ctx.axis(ctx.attr("axis", 0), rank)
    ids = ids_of(ctx, 1, known_index(ctx, 1, ctx.shape(0)[axis]))
    source = ctx.typecast(ctx.x(2), ctx.vdtype(ctx.x(0)))
    swapped = [rank - 1 if i == axis else axis if i == rank - 1 else i for i in range(rank)]
    x, ids, source = (ctx.permute(v, swapped) for v in (ctx.x(0), ids, source))
    return ctx.permute(ctx.emit(_op(ctx), x, ids, source, dim=rank - 1), swapped)


def scatter_nd(ctx: Lowering) -> str:
    """Rows [count, width] of the flattened tensor are replaced, or added to: columns of what is scattered into."""
    shape, op = ctx.shape(0), _op(ctx)
    depth = ctx.shape(1)[-1]
    height, width, count = prod(shape[:depth]), prod(shape[depth:]), prod(ctx.shape(1)[:-1])
    x = ctx.reshape(ctx.x(0), (height, width))
    source = ctx.reshape(ctx.typecast(ctx.x(2), ctx.vdtype(x)), (count, width))
    rows = row_numbers(ctx, 1, shape[:depth])
    if not isinstance(rows, str) and op == "scatter":
        merged = _merged(ctx, x, source, rows)
        if merged is not None:
            return ctx.reshape(merged, shape or (1,))
    ids = rows if isinstance(rows, str) else ctx.constant(rows, DType.U32, "indices")
    ids = ctx.reshape(ids, (1, count))
    if width > 1:
        ids = ctx.emit("repeat", ids, repeats=(width, 1))
    columns = ctx.emit(op, ctx.permute(x, (1, 0)), ids, ctx.permute(source, (1, 0)), dim=1)
    return ctx.reshape(ctx.permute(columns, (1, 0)), shape or (1,))


def _merged(ctx: Lowering, x: str, source: str, rows: Array) -> str | None:
    """Old and new rows in their order, when few blocks of either make it up."""
    height = ctx.vshape(x)[0]
    order = counting(ctx, height)
    order[rows] = height + counting(ctx, len(rows))
    parts = runs([int(i) for i in order])
    if len(parts) > MAX_PARTS:
        return None
    if len(parts) == 1 and parts[0][0] >= height:
        return select(ctx, source, 0, order - height)
    pieces: list[str] = []
    for first, last, step in parts:
        if first < height <= last:
            return None
        start = height if first >= height else 0
        pieces.append(ctx.slice(source if start else x, 0, first - start, last - start + 1, step))
    return pieces[0] if len(pieces) == 1 else ctx.emit("concat", *pieces, dim=0)


OPS: dict[str, NodeMapping] = {
    "Gather": gather,
    "GatherND": gather_nd,
    "GatherElements": gather_elements,
    "Compress": compress,
    "ReverseSequence": reverse_sequence,
    "OneHot": one_hot,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
