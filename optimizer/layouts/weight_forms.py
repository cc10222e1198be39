"""Weights whose last two dims are far from whole tiles: what tiles would make of them, and which ops avoid it.

In tiles every [kh, kw] of a convolution's weights [O, I, kh, kw] becomes 32x32: 1024 times the elements of 1x1 kernels.
On the host, in rows, a reshape is a view (`ttnn.reshape` of a row-major host tensor: mock devices and simulator).
"""

from __future__ import annotations

from math import prod

from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.tiling import TILE, padded_shape

SWELLING = 4
"""Elements in tiles per element, from which on a tensor of several matrices is not tiled if that can be avoided."""


def swells(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of several matrices takes `SWELLING` times its elements in tiles, or more."""
    leading, matrix = shape[:-2], shape[-2:]
    return prod(leading) > 1 and prod(padded_shape(matrix, PageLayout.TILE)) >= SWELLING * prod(matrix)


def tile_count(shape: tuple[int, ...]) -> int:
    """Tiles that a tensor takes."""
    return prod(padded_shape(shape, PageLayout.TILE)) // (TILE * TILE)


def reshapes_on_host(graph: Graph, op: Op) -> bool:
    """Whether a reshape of weights is done on the host, in rows: one whose operand or result would swell in tiles."""
    if not opdef(op.op).view_of_rows or not graph.is_const_eval(op):
        return False
    values = [graph.value(v) for v in (*op.inputs, *op.outputs)]
    return any(swells(v.shape) for v in values) and not any(v.dtype.is_block_float for v in values)
