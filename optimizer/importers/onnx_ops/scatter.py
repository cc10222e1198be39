"""Scatter: rows put together again where the indices are constant, TTNN's scatter elsewhere."""

from __future__ import annotations

from math import prod

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.importers.onnx_ops.computed import counting
from optimizer.importers.onnx_ops.indexing import ids_of, known_index, row_numbers
from optimizer.importers.onnx_ops.selecting import MAX_PARTS, Array, runs, select
from optimizer.ir.dtype import DType


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
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
