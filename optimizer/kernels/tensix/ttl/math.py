"""Functions on blocks: every op of `tile_ops` by its name, and reductions and broadcasts along a dimension.

    ttl.math.exp(x)                          one op
    ttl.math.reduce_sum(x, ones, dim=1)      the sum of every row, in the first column of a block of one column of tiles
    ttl.math.bcast(s, dim=1)                 the first column in every column

Dimension 0 runs down the rows, 1 along the columns, as in NumPy: a reduction along 1 adds up the columns of a row,
which tt-metal calls `REDUCE_ROW`; a broadcast along 1 repeats a column, which it calls `COL`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from optimizer.errors import OptionError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.source.spellings import BROADCAST, REDUCED
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.ttl.blocks import Block, block_op, full
from optimizer.kernels.tensix.ttl.blocks import typecast as typecast
from optimizer.kernels.tensix.types import BlockType

Dims = int | Sequence[int]


def reduce_sum(x: Block, scaler: Block | None = None, dim: Dims = 1) -> Block:
    """Sums along a dimension or both, times the number that fills the scaler's tile (default: 1)."""
    return _reduced("sum", x, scaler, dim)


def reduce_max(x: Block, scaler: Block | None = None, dim: Dims = 1) -> Block:
    """Largest elements along a dimension or both, times the number that fills the scaler's tile (default: 1)."""
    return _reduced("max", x, scaler, dim)


def bcast(x: Block, dim: Dims, like: Block | None = None) -> Block:
    """The first column (dim 1), row (0) or element (both) of `x` everywhere, over as many tiles as `like` has.

    Without `like` the block keeps its tiles: ops with a larger block repeat them.
    """
    name = f"bcast_{BROADCAST[_dims(dim)]}"
    return block_op(name, x, result_shape=None if like is None else like.value.typed(BlockType).shape)


def fill(like: Block, number: float) -> Block:
    """A block of the shape and element type of another one that holds one number everywhere."""
    return like.filled(number)


def _reduced(kind: str, x: Block, scaler: Block | None, dim: Dims) -> Block:
    return block_op(f"reduce_{kind}_{REDUCED[_dims(dim)]}", x, _ones(x) if scaler is None else scaler)


def _ones(x: Block) -> Block:
    wide = x.value.typed(BlockType).dtype is DType.F32
    return full(1.0, (1, 1), DType.F32 if wide else DType.BF16)


def _dims(dim: Dims) -> tuple[int, ...]:
    """Dimensions in order, counted from the front."""
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    found = tuple(sorted(d + 2 if d < 0 else d for d in given))
    if found not in REDUCED:
        raise OptionError(f"a block has dimensions 0 and 1, got {dim}", node="dim", limit=1)
    return found


def __getattr__(name: str) -> Callable[..., Block]:
    """Every other op of `tile_ops` as a function of this module."""
    if name not in TILE_OPS:
        raise AttributeError(name)
    return partial(block_op, name)
