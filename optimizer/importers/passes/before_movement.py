"""What can be done before reshapes and permutes is done before them, so that these meet and merge."""

from __future__ import annotations

from math import prod

from optimizer.importers.passes.movement import LONGEST, Factors, step_of
from optimizer.importers.passes.rewriting import (
    Shape,
    by_weights,
    drop_dead,
    emit,
    fuse,
    is_scalar_op,
    permuted_dims,
    reshape,
    rewrites_each,
)
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.tiling import padded_shape

_MOVEMENT = ("reshape", "permute")
_NORMS = ("layer_norm", "rms_norm")


@rewrites_each("norm-after-heads", "permute")
def norm_after_heads(graph: Graph, turned: Op) -> int:
    """Rows cut into heads, normed head by head, then permuted -> permuted first.

    A row of tiles then holds 32 rows of one head instead of the few heads of one row.
    """
    norm = graph.produced_by(turned.inputs[0], *_NORMS)
    dims = permuted_dims(turned)
    if norm is None or dims[-1] != len(dims) - 1 or graph.only_use(norm.outputs[0]) is None:
        return 0
    if graph.produced_by(norm.inputs[0], "reshape") is None or not all(map(graph.is_static, norm.inputs[1:])):
        return 0
    moved = emit(graph, turned, "permute", [norm.inputs[0]], {"dims": dims})
    fuse(graph, turned, norm, norm.op, [moved, *norm.inputs[1:]], norm.attrs, [])
    return 1


@rewrites_each("scalar-before-movement", "multiply", "add", "divide", "subtract")
def scalar_before_movement(graph: Graph, scaled: Op) -> int:
    """A scalar between two movements -> in front of both."""
    movement = graph.produced_by(scaled.inputs[0], *_MOVEMENT)
    following = graph.only_use(scaled.outputs[0])
    if movement is None or following is None or following.op.removeprefix("ttnn.") not in _MOVEMENT:
        return 0
    if not is_scalar_op(scaled, "multiply", "add", "divide", "subtract") or graph.only_use(scaled.inputs[0]) is None:
        return 0
    first = emit(graph, scaled, scaled.op.removeprefix("ttnn."), movement.inputs, scaled.attrs)
    fuse(graph, scaled, scaled, movement.op, [first], movement.attrs, [movement])
    return 1


@rewrites_each("row-before-reshape", "multiply", "add")
def row_before_reshape(graph: Graph, scaled: Op) -> int:
    """A row of weights that is added to reshaped rows, or scales them -> in front of a reshape to more tiles."""
    movement = graph.produced_by(scaled.inputs[0], "reshape")
    if movement is None or len(scaled.inputs) != 2 or graph.only_use(scaled.inputs[0]) is None:
        return 0
    (source,), row = movement.inputs, scaled.inputs[1]
    given, wider = graph.value(source).shape, graph.value(scaled.outputs[0]).shape
    is_row = graph.is_static(row) and prod(graph.value(row).shape) == graph.value(row).shape[-1] == given[-1]
    if not is_row or given[-1] != wider[-1] or len(given) < 2 or _tiled(given) >= _tiled(wider):
        return 0
    row = reshape(graph, scaled, row, (given[-1],))
    first = emit(graph, scaled, scaled.op.removeprefix("ttnn."), [source, row], scaled.attrs)
    fuse(graph, scaled, scaled, "reshape", [first], {"shape": wider}, [movement])
    return 1


def _tiled(shape: Shape) -> int:
    """Elements of the tiles that hold a tensor."""
    return prod(padded_shape(shape, PageLayout.TILE))


@rewrites_each("sequence-rows", "linear", "matmul")
def sequence_rows(graph: Graph, product: Op) -> int:
    """[S, 1, K] by weights, made of [1, S, K] or made to it -> [1, S, K] by weights, of which a tile holds 32 rows."""
    x = product.inputs[0]
    *lead, depth = graph.value(x).shape
    if product.attrs.get("transpose_a") or len(lead) < 2 or lead[-1] != 1:
        return 0
    if prod(lead) == 1 or max(lead) != prod(lead) or not by_weights(graph, product):
        return 0
    above, result = graph.produced_by(x, *_MOVEMENT), product.outputs[0]
    below = [op for op in graph.consumers(result) if op.op.removeprefix("ttnn.") in _MOVEMENT]
    beside = [(x, v) for op in (above,) if op is not None for v in op.inputs]
    beside += [(result, v) for op in below for v in op.outputs]
    if not any(_holds_as_rows(graph, v, other) for v, other in beside):
        return 0
    rows = reshape(graph, product, x, (*(1,) * (len(lead) - 1), prod(lead), depth))
    made = emit(graph, product, product.op.removeprefix("ttnn."), [rows, *product.inputs[1:]], product.attrs)
    fuse(graph, product, product, "reshape", [made], {"shape": graph.value(product.outputs[0]).shape}, [])
    return 1


def _holds_as_rows(graph: Graph, value_id: str, other: str) -> bool:
    """Whether what is [S, 1, K] in one tensor is [.., S, K] in another one."""
    shape, held = graph.value(value_id).shape, graph.value(other).shape
    return len(held) > 1 and held[-2:] == (prod(shape[:-1]), shape[-1])


@rewrites_each("cut-before-movement", "slice")
def cut_before_movement(graph: Graph, cut: Op) -> int:
    """One part of columns that movement brought in front of everything else -> those columns, reshaped."""
    target, shape = graph.value(cut.outputs[0]).shape, graph.value(cut.inputs[0]).shape
    sliced = [d for d, size in enumerate(shape) if target[d] != size]
    if len(sliced) != 1 or target[sliced[0]] != 1 or graph.is_static(cut.inputs[0]):
        return 0
    for chain in _chains(graph, cut):
        source = chain[0].inputs[0]
        width = _columns(graph, source, chain, sliced[0])
        if width is not None:
            given = graph.value(source).shape
            first = int(cut.attr("begins")[sliced[0]]) * width
            begins, ends = (*(0,) * (len(given) - 1), first), (*given[:-1], first + width)
            attrs = {"begins": begins, "ends": ends, "steps": (1,) * len(given)}
            part = emit(graph, cut, "slice", [source], attrs)
            fuse(graph, cut, cut, "reshape", [part], {"shape": target}, [])
            drop_dead(graph, [op.id for op in reversed(chain)])
            return 1
    return 0


def _chains(graph: Graph, cut: Op) -> list[list[Op]]:
    """The movement in front of a slice, longest first."""
    chain: list[Op] = []
    value = cut.inputs[0]
    while len(chain) < LONGEST and (above := graph.produced_by(value, *_MOVEMENT)) is not None:
        chain.insert(0, above)
        value = above.inputs[0]
    return [chain[n:] for n in range(len(chain))]


def _columns(graph: Graph, source: str, chain: list[Op], dim: int) -> int | None:
    """How many columns of the source one index of a dim behind movement is, if the rest keeps its order."""
    shape = graph.value(source).shape
    factors = Factors(shape)
    for op in chain:
        if not factors.apply(step_of(op)):
            return None
    if len(factors.dims[dim]) != 1:
        return None
    part = factors.dims[dim][0]
    at = factors.root.index(part)
    width = prod(factors.sizes[f] for f in factors.root[at + 1 :])
    rest = [f for group in factors.dims for f in group if f != part]
    kept = rest == [f for f in factors.root if f != part]
    return width if kept and width * factors.sizes[part] == shape[-1] else None
