"""Arithmetic on weights whose tiles would be mostly padding, on rows instead."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import prod

from optimizer.families.elementwise.rows import BINARY, UNARY, UNARY_PARAMS
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.importers.passes.rewriting import Pass, Shape, emit, finish, reduced_dims, reshape
from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.weight_forms import swells, tile_count

_ELEMENT_WISE = frozenset((*UNARY, *UNARY_PARAMS, *BINARY, "where", "typecast")) - {"prelu"}
"""Ops that compute every element from those at its place; the factors of prelu are channels, whatever the shape."""


@partial(Pass, "weight-rows")
def weight_rows(graph: Graph) -> int:
    """Element-wise ops and reductions of weights [O, I, kh, kw] run on a matrix, mostly [O, I*kh*kw].

    In tiles each [kh, kw] is padded to 32x32. The reshapes around the op are views on the host
    (`layouts.weight_forms`). An operand that has to be spread within the matrix (the factors [1, O, 1, 1] of a
    transposed convolution's [I, O, kh, kw]) is repeated first.
    """
    rewrites = 0
    for op_id in [op.id for op in graph.ops()]:
        op = graph.op(op_id)
        if graph.is_const_eval(op) and len(op.outputs) == 1 and op.inputs:
            rewrites += _visit(graph, op)
    return finish(graph, rewrites)


def _visit(graph: Graph, op: Op) -> int:
    shapes = [graph.value(v).shape for v in (*op.inputs, *op.outputs)]
    if not any(swells(s) for s in shapes) or any(graph.value(v).dtype.is_block_float for v in op.inputs):
        return 0
    row = opdef(op.op)
    if row.opaque or not all(graph.is_static(v) for v in op.inputs):
        return 0
    name = op.op.removeprefix("ttnn.")
    if name in _ELEMENT_WISE:
        return _elementwise(graph, op, max(shapes, key=lambda s: (prod(s), len(s))))
    return _reduction(graph, op) if name in REDUCTIONS else 0


def _elementwise(graph: Graph, op: Op, full: Shape) -> int:
    """One op on matrices in place of one on tensors of many small ones; the split of dims that takes fewest tiles."""
    if graph.value(op.outputs[0]).shape != full:
        return 0
    own = [graph.value(v).shape for v in op.inputs]
    shapes = [(*(1,) * (len(full) - len(shape)), *shape) for shape in own]
    before = sum(tile_count(s) for s in shapes) + tile_count(full)
    after, split = min((_tiles(shapes, full, k), k) for k in range(1, len(full)))
    if 2 * after > before:
        return 0
    operands = [_matrix(graph, op, v, s, full, split) for v, s in zip(op.inputs, shapes, strict=True)]
    _replace(graph, op, operands, op.attrs)
    return 1


def _spread(shape: Shape, full: Shape, split: int) -> Shape:
    """The operand with every group of dims whole or one: what broadcasts over a matrix."""
    groups = ((shape[:split], full[:split]), (shape[split:], full[split:]))  # those of rows, those of columns
    return tuple(n for own, whole in groups for n in (own if prod(own) == 1 else whole))


def _tiles(shapes: list[Shape], full: Shape, split: int) -> int:
    """Tiles of an op on matrices, with those of operands that are repeated as they are."""
    total = prod(full[:split]), prod(full[split:])
    count = tile_count(total)
    for shape in shapes:
        spread = _spread(shape, full, split)
        count += tile_count((prod(spread[:split]), prod(spread[split:])))
        count += tile_count(spread) if spread != shape else 0
    return count


def _matrix(graph: Graph, op: Op, value_id: str, shape: Shape, full: Shape, split: int) -> str:
    """An operand as the matrix that broadcasts over the result's."""
    spread = _spread(shape, full, split)
    if spread != shape:
        value_id = reshape(graph, op, value_id, shape)
        repeats = tuple(b // a for a, b in zip(shape, spread, strict=True))
        value_id = emit(graph, op, "repeat", [value_id], {"repeats": repeats})
    return _reshaped(graph, op, value_id, (prod(spread[:split]), prod(spread[split:])))


def _reshaped(graph: Graph, op: Op, value_id: str, shape: Shape) -> str:
    """A reshape of what other reshapes were made from."""
    while (maker := graph.produced_by(value_id, "reshape")) is not None:
        value_id = maker.inputs[0]
    return reshape(graph, op, value_id, shape)


def _reduction(graph: Graph, op: Op) -> int:
    """A reduction over all leading or all trailing dims: over the rows or the columns of a matrix."""
    shape = graph.value(op.inputs[0]).shape
    reduced = reduced_dims(graph, op)
    count = len(reduced)
    if reduced == tuple(range(len(shape) - count, len(shape))) and count < len(shape):
        split, axis = len(shape) - count, 1
    elif reduced == tuple(range(count)) and count < len(shape):
        split, axis = count, 0
    else:
        return 0
    matrix = (prod(shape[:split]), prod(shape[split:]))
    if 2 * tile_count(matrix) > tile_count(shape):
        return 0
    attrs = {**op.attrs, "dim": (axis,), "keepdim": True}
    _replace(graph, op, [_reshaped(graph, op, op.inputs[0], matrix)], attrs)
    return 1


def _replace(graph: Graph, op: Op, operands: list[str], attrs: Mapping[str, Attr]) -> None:
    """Put the op on matrices in the place of `op`, and a reshape after it that gives the result its old shape."""
    result = emit(graph, op, op.op.removeprefix("ttnn."), operands, attrs)
    back = emit(graph, op, "reshape", [result], {"shape": graph.value(op.outputs[0]).shape})
    graph.replace_uses(op.outputs[0], back)
    graph.remove_op(op.id)
