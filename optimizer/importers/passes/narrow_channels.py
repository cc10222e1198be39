"""Channels that are cut and joined within a tile: TTNN does that by way of rows, which takes longer than the
convolutions around it. These passes leave such cuts and joins to the convolutions, or undo one by the other.

All work on channels-last images, [1, 1, N*H*W, C].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from optimizer.importers.passes.convolution_parts import added
from optimizer.importers.passes.convolution_ways import channels_of, cut, put
from optimizer.importers.passes.rewriting import drop_dead, emit, reshape, rewrites_each
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import TILE

MOST_PARTS = 4
"""Parts of one convolution: each has a start, and is added to the others."""
Range = tuple[int, int]


@rewrites_each("cut-convolutions", "conv2d")
def cut_convolutions(graph: Graph, op: Op) -> int:
    """A convolution of which only slices of channels are read -> one convolution per slice."""
    result = op.outputs[0]
    readers = graph.consumers(result)
    found = [_channels(graph, reader) for reader in readers]
    ranges = [part for part in found if part is not None]
    if graph.is_output(result) or not readers or len(ranges) < len(found) or len(ranges) > MOST_PARTS:
        return 0
    made = graph.value(op.inputs[1]).shape[0]
    within_tiles = any(first % TILE for first, _ in ranges)
    if not _mixes_all(graph, op) or not within_tiles or sum(e - b for b, e in ranges) > made:
        return 0
    for reader, (first, end) in zip(readers, ranges, strict=True):
        operands = [op.inputs[0], *channels_of(graph, op, first, end)]
        graph.remove_op(reader.id)
        emit(graph, op, "conv2d", operands, {**op.attrs, "out_channels": end - first}, output=reader.outputs[0])
    drop_dead(graph, [op.id])
    return 1


def _mixes_all(graph: Graph, op: Op) -> bool:
    """Whether all channels of a convolution are mixed, by weights of the model: parts of those are made once."""
    return opdef(op.op).full_attrs(op)["groups"] == 1 and all(graph.is_static(v) for v in op.inputs[1:])


def _channels(graph: Graph, op: Op) -> Range | None:
    """The channels that a slice takes of every row; None if it is no such slice."""
    if op.op != "ttnn.slice":
        return None
    shape = graph.value(op.inputs[0]).shape
    begins, ends, steps = (_numbers(op, name) for name in ("begins", "ends", "steps"))
    whole = not any(begins[:-1]) and ends[:-1] == shape[:-1] and all(step == 1 for step in steps)
    return (begins[-1], ends[-1]) if whole and 0 <= begins[-1] < ends[-1] <= shape[-1] else None


def _numbers(op: Op, name: str) -> tuple[int, ...]:
    given = op.attrs.get(name)
    return tuple(int(n) for n in given if isinstance(n, int)) if isinstance(given, tuple) else ()


@rewrites_each("convolve-parts", "conv2d")
def convolve_parts(graph: Graph, op: Op) -> int:
    """A convolution of single pixels over images side by side -> the sum of one convolution of each."""
    image = op.inputs[0]
    joined = graph.produced_by(image, "concat")
    attrs: dict[str, Any] = opdef(op.op).full_attrs(op)
    of_pixels = attrs["kernel_size"] == (1, 1) and set(attrs["padding"]) == {0}
    if joined is None or not of_pixels or not _mixes_all(graph, op) or graph.only_use(image) is not op:
        return 0
    rank, sizes = len(graph.value(image).shape), _sizes(graph, joined.inputs, -1)
    if _dim(joined, rank) != rank - 1 or len(sizes) > MOST_PARTS or not any(size % TILE for size in sizes):
        return 0
    plain = {k: v for k, v in op.attrs.items() if k != "activation"}
    sums: list[str] = []
    for part, taken in zip(joined.inputs, pairwise(accumulate(sizes, initial=0)), strict=True):
        bias = op.inputs[2:] if not sums else ()
        operands = [part, _weight_columns(graph, op, *taken), *bias]
        sums.append(emit(graph, op, "conv2d", operands, {**plain, "in_channels": taken[1] - taken[0]}))
    put(graph, op, added(graph, op, sums))
    drop_dead(graph, [joined.id])
    return 1


def _weight_columns(graph: Graph, op: Op, first: int, end: int) -> str:
    """What a kernel of single pixels multiplies some of the channels by."""
    made, given = graph.value(op.inputs[1]).shape[:2]
    matrix = reshape(graph, op, op.inputs[1], (made, given))
    return reshape(graph, op, cut(graph, op, matrix, (0, first), (made, end)), (made, end - first, 1, 1))


@rewrites_each("split-joined", "split")
def split_joined(graph: Graph, op: Op) -> int:
    """Tensors joined along one dim, then along another, and split again as they were joined first -> each joined by
    itself along the other."""
    outer = graph.produced_by(op.inputs[0], "concat")
    if outer is None:
        return 0
    rank = len(graph.value(op.inputs[0]).shape)
    dim, along = _dim(op, rank), _dim(outer, rank)
    inner = [graph.produced_by(v, "concat") for v in outer.inputs]
    parts = [maker.inputs for maker in inner if maker is not None and _dim(maker, rank) == dim]
    if dim == along or len(parts) < len(inner) or any(_sizes(graph, row, dim) != op.attrs["sizes"] for row in parts):
        return 0
    graph.remove_op(op.id)
    for column, output in zip(zip(*parts, strict=True), op.outputs, strict=True):
        emit(graph, op, "concat", column, {"dim": along}, output=output)
    drop_dead(graph, [outer.id])
    return 1


def _dim(op: Op, rank: int) -> int:
    dim = op.attrs["dim"]
    assert isinstance(dim, int)
    return dim % rank


def _sizes(graph: Graph, values: Sequence[str], dim: int) -> tuple[int, ...]:
    return tuple(graph.value(v).shape[dim] for v in values)
