"""What a program of block ops means: numpy on whole blocks, without DST or circular buffers.

With an element type, every result is rounded to it, as DST does: a correct kernel then agrees bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import local_buffers
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, COMPUTE
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.passes.convert_to_compute import is_block_op, loop_nest
from optimizer.kernels.tensix.passes.inline_regions import inline_regions
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
