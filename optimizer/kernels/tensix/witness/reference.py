"""What a program of block ops means: numpy on whole blocks, without DST or circular buffers.

With an element type, every result is rounded to it, as DST does: a correct kernel then agrees bit for bit.

A reduction fills a tile's first column, first row or first element, and the packer writes zeros beside it: by a mask
that `reduce_init` sets and `reduce_uninit` clears, so for everything that is packed in between. What is computed of the
result before it is packed is therefore 0 beside it, whatever the op makes of zero; the same op on a result that went
through L1 is not. Both are right: nobody should read there. The mask of rows keeps the first column of either half of a
tile (ttnn 0.81.1, `llk_pack_common.h`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import local_buffers
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, COMPUTE, is_block_op
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.passes.convert_to_compute import inline_regions, loop_nest
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.types import TILE, BlockType, CircularBufferType


def evaluate(program: Op, blocks: Mapping[str, Array], dst: DType = DType.F32) -> dict[str, Array]:
    """Blocks pushed by the compute threads, from those they wait for: circular buffer -> elements of one block.

    One that the thread itself waits for holds its blocks in order, each rounded to the buffer's element type; any other
    is waited for, and pushed to, once.
    """
    found: dict[str, Array] = {}
    for thread in inline_regions(program).body.ops:
        if thread.name == COMPUTE:
            _run(thread, blocks, found, dst)
    return found


def _run(thread: Op, blocks: Mapping[str, Array], found: dict[str, Array], dst: DType) -> None:
    values: dict[str, Array] = {}
    targets: dict[str, str] = {}
    own: dict[str, list[Array]] = {cb: [] for cb in local_buffers(thread)}
    for op in thread.body.ops:
        name = op.operands[0].name if op.operands else ""
        if op.name == "ttl.cb_wait":
            values[op.result.name] = own[name][0] if name in own else blocks[name]
        elif op.name == "ttl.cb_pop":
            if name in own:
                own[name].pop(0)
        elif op.name == "ttl.cb_reserve":
            targets[op.result.name] = name
        elif op.name == "ttl.store":
            found[targets[op.operands[1].name]] = values[name]
        elif op.name == "ttl.cb_push":
            if name in own:
                own[name].append(rounded(found.pop(name), op.operands[0].typed(CircularBufferType).dtype))
        elif is_block_op(op):
            values[op.result.name] = block_meaning(op, [values[v.name] for v in op.operands], dst)
        else:
            raise StateError(f"{op.name} is no block op")


def block_meaning(op: Op, operands: list[Array], dst: DType = DType.F32) -> Array:
    """One block op on the elements of whole blocks, tile by tile as its loop nest says."""
    definition = TILE_OPS[op.name.removeprefix(BLOCK_PREFIX)]
    nest, result = loop_nest(op), op.result.typed(BlockType)
    attrs = {name: float(str(op.attr(name))) for name in definition.attrs}
    made = np.full((result.shape[0] * TILE, result.shape[1] * TILE), definition.initial, dtype=np.float32)
    for point in np.ndindex(*nest.bounds):
        tiles = [tile_of(x, m.evaluate(point)) for x, m in zip(operands, nest.operands, strict=True)]
        at = tile_of(made, point[:2])
        inputs = [at.copy(), *tiles] if definition.accumulates else tiles
        at[...] = rounded(definition.evaluate(inputs, attrs), dst)
    return made


def tile_of[T: np.generic](block: NDArray[T], index: tuple[int, ...]) -> NDArray[T]:
    """A view of one tile of a block."""
    r, c = index
    return block[r * TILE : (r + 1) * TILE, c * TILE : (c + 1) * TILE]


def elements(cb: CircularBufferType) -> tuple[int, int]:
    """Rows and columns of one block, in elements."""
    return cb.shape[0] * TILE, cb.shape[1] * TILE


# -- reduced parts ----------------------------------------------------------------------------------------
Mask = NDArray[np.bool_]
FACE = TILE // 2
"""Rows and columns of a quarter of a tile."""


@cache
def kept(axis: str) -> Mask:
    """Elements of a tile that the packer does not set to zero after a reduction to a `row`, `col` or `scalar`."""
    row, column = np.indices((TILE, TILE))
    parts = {"row": column % FACE == 0, "col": row == 0, "scalar": (row == 0) & (column == 0)}
    return np.asarray(parts[axis])


@cache
def _beside(axis: str) -> Mask:
    row, column = np.indices((TILE, TILE))
    return np.asarray({"row": column > 0, "col": row > 0, "scalar": (row > 0) | (column > 0)}[axis])


def beside_results(program: Op) -> Mapping[str, Mask]:
    """Elements of a tile that are beside the result of a reduction, of every value that holds such a result or was
    computed of one by element, and of every circular buffer that takes one."""
    found: dict[str, Mask] = {}
    for thread in inline_regions(program).body.ops:
        if thread.name == COMPUTE:
            rooms = {op.result.name: op.operands[0].name for op in walk(thread) if op.name == "ttl.cb_reserve"}
            for op in walk(thread):
                _step(op, rooms, found)
    return found


def or_zero(program: Op, cb: str, wanted: Array, got: Array) -> Array:
    """What is wanted of a circular buffer's block, or the zeros that were got beside the result of a reduction."""
    beside = beside_results(program).get(cb)
    if beside is None:
        return wanted
    tiles = (wanted.shape[0] // TILE, wanted.shape[1] // TILE)
    return np.where(np.tile(beside, tiles) & (got == 0), got, wanted)


def _step(op: Op, rooms: Mapping[str, str], found: dict[str, Mask]) -> None:
    masks = [found[v.name] for v in op.operands if v.name in found]
    if op.name == "ttl.cb_wait" and masks:
        found[op.result.name] = masks[0]
    elif op.name == "ttl.store" and op.operands[0].name in found:
        found[rooms[op.operands[1].name]] = found[op.operands[0].name]
    elif is_block_op(op):
        definition = TILE_OPS[op.name.removeprefix(BLOCK_PREFIX)]
        if definition.name.startswith("reduce_"):
            found[op.result.name] = _beside(axis_of(definition.name))
        elif definition.elementwise and masks:
            found[op.result.name] = np.logical_or.reduce(masks)


def axis_of(name: str) -> str:
    """Where a reduction leaves its result, by the op's name."""
    return name.rsplit("_", 1)[1]
