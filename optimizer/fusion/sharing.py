"""What several cores of a region read of the same tensor: read once and multicast, by a core of each row or column of
the grid, or by the first of all.

    part of the frame   height shards    width shards    block shards
    rows (left)         every core       the first       the first of each row
    columns (right)     the first        every core      the first of each column
    one number          the first        the first       the first

The range of a sender may lie around it: it keeps what it sends, and nothing is sent to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from optimizer.fusion.operations import is_matmul
from optimizer.fusion.placement import Home, Kind, Operand, largest_divisor
from optimizer.fusion.regions import Region, Scheme
from optimizer.kernels.tensix.pipes import MAX_SEMAPHORES, Pipe
from optimizer.layouts.memory_config import TensorMemoryLayout

MOST_SHARED = (MAX_SEMAPHORES - 1) // 2
"""Tensors that are multicast: each has two semaphores, and all together one."""
FEW_STEPS = 4
"""Steps along the depth from which on the first one is a small part of the time."""
PIECE_TILES = 64
"""Of both operands of a product, two pieces of each: 128 KiB of bf16."""


def rectangle(home: Home) -> tuple[int, int] | None:
    """Columns and rows of the cores of a home; None where they are no rectangle that is filled row by row."""
    known, cores = home.core_map, prod(home.grid)
    if known is None:
        return None
    width = min(known.width, cores)
    return None if cores % width else (width, cores // width)


def senders(home: Home, kind: Kind) -> tuple[Pipe, ...]:
    """From which core to which others a part of the frame is multicast, in coordinates of the home; empty where every
    core has its own."""
    size, known = rectangle(home), home.core_map
    if size is None or known is None:
        return ()
    columns, rows = size
    apart = {
        TensorMemoryLayout.HEIGHT_SHARDED: (kind.has_rows, kind.has_rows),
        TensorMemoryLayout.WIDTH_SHARDED: (kind.has_columns, kind.has_columns),
        TensorMemoryLayout.BLOCK_SHARDED: (kind.has_columns, kind.has_rows),
    }
    own_column, own_row = (a or n == 1 for a, n in zip(apart[known.memory_layout], size, strict=True))
    if own_column and own_row:
        return ()
    if own_column:
        return tuple(Pipe((x, 0), ((x, x + 1), (1, rows)), src_receives=False) for x in range(columns))
    if own_row:
        return tuple(Pipe((0, y), ((1, columns), (y, y + 1)), src_receives=False) for y in range(rows))
    return (Pipe((0, 0), ((0, columns), (0, rows)), src_receives=False),)


def shared(region: Region) -> tuple[Operand, ...]:
    """The operands that are multicast, at most `MOST_SHARED`: those of products first."""
    if not region.scheme.multicast:
        return ()
    brought = [o for o in region.inputs if not o.resident and senders(region.home, o.kind)]
    return tuple(sorted(brought, key=lambda o: not o.depth)[:MOST_SHARED])


def by_writer(region: Region, operand: Operand) -> bool:
    """Whether the writer brings an operand: that on the right of a product, if the reader brings that on the left."""
    left = any(o.kind is Kind.LEFT and not o.resident for o in region.inputs)
    return region.scheme != Scheme() and operand.kind is Kind.RIGHT and not operand.resident and left


def schemes(region: Region) -> Iterator[Scheme]:
    """Ways to bring a region's operands: by each core for itself or with multicast, whole or in pieces."""
    yield Scheme()
    if not region.multiplies:
        return
    pieces = _k_blocks(region)
    yield from (Scheme(k_block=k) for k in pieces)
    if any(o.depth for o in shared(region.fed(Scheme(multicast=True)))):
        yield from (Scheme(True, k) for k in (0, *pieces))


def _k_blocks(region: Region) -> tuple[int, ...]:
    """Tiles of depth that may be multiplied at a time; none where a shard's tiles of a piece are no neighbours."""
    products = [op for op in region.ops if is_matmul(op)]
    rows, columns = region.home.shard
    depth = region.depths[products[0].inputs[0]]
    left = [o for o in region.inputs if o.kind is Kind.LEFT]
    brought = any(o.depth and not o.resident for o in region.inputs)
    if len(products) != 1 or depth == 1 or not brought or any(o.resident and rows > 1 for o in left):
        return ()
    half = largest_divisor(depth, max(1, depth // FEW_STEPS))
    small = largest_divisor(depth, max(1, min(depth // 2, PIECE_TILES // (2 * (rows + columns)))))
    return tuple(dict.fromkeys((half, small)))
