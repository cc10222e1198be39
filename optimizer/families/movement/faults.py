"""What ops that move elements compute wrongly."""

from __future__ import annotations

from math import prod
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.fault_rules import Rules, channel_shards


def _copy(query: OpQuery) -> str | None:
    """Copies of rows that are wider in their shards than the tensor is, into shards of another width.

    So a pool leaves its result. Run: 24, 40 and 72 channels in height shards of 32, 64 and 96 columns, copied into
    shards of 24, 40 and 72, more than 93 % of the values wrong; into other shards of the same width, and to DRAM and
    L1 interleaved, right.
    """
    x = query.inputs[0]
    spec, asked = x.layout.shard_spec, None if query.output is None else query.output.shard_spec
    if spec is None or asked is None or x.layout.is_tile or not x.shape or channel_shards(x) > 1:
        return None
    if spec.shape[1] <= x.shape[-1] or asked.shape[1] == spec.shape[1]:
        return None
    return (
        f"copying rows of {x.shape[-1]} columns in shards of {spec.shape[1]} into shards of {asked.shape[1]} moves them"
    )


def _concat(query: OpQuery) -> str | None:
    """Batches of tensors in shards of rows joined along rows or columns, of which one ends with a partial tile.

    Run: along rows two batches of 64, 7 and 33 rows and of 128 and 7 on four and two cores each, 9 and 3 % of the
    values wrong; along columns two batches of one row on two cores, the second's. On one core, in width shards,
    interleaved, and of one batch (33, 33 and 100 rows on two cores): right; by chance also three batches of one row on
    two cores.
    """
    x = query.inputs[0]
    dim, rank = int(str(query.attr.get("dim", 0))), len(x.shape)
    if x.layout.shard_spec is None or not x.layout.is_tile or rank < 3 or dim % rank < rank - 2:
        return None
    across = x.layout.memory_layout is not TensorMemoryLayout.WIDTH_SHARDED and x.layout.shard_spec.num_cores > 1
    if across and prod(x.shape[:-2]) > 1 and any(t.shape[-2] % TILE for t in query.inputs):
        return "joining batches of rows in shards, of which some end with a partial tile, puts rows out of place"
    return None


def _padded(query: OpQuery) -> str | None:
    """Rows cut in columns among cores, padded: [1, 1, 1, 96] in width shards of 24 came out wrong by thousands."""
    x = query.inputs[0]
    if x.layout.is_tile or not x.layout.is_l1 or channel_shards(x) == 1:
        return None
    return "padding rows of which every core holds some columns puts elements out of place"


def _turned(query: OpQuery) -> str | None:
    """Rows of bfp4_b changed with an outer dim, and block floats in shards of which the first of four dims becomes rows
    or columns, or the other way round.

    Run, bfp4_b: [1, 3, 1, 320], dims 1 and 2, most values wrong and what lies behind the result overwritten; last two
    dims changed, bfp8_b and bf16: right. bfp8_b in height and width shards: [1, 1, 96, 32] to (1, 2, 3, 0),
    (2, 3, 0, 1) and (3, 0, 1, 2), nearly all values wrong; interleaved, bf16, and with the first dim left in place or
    changed with the second: right.
    """
    x = query.inputs[0]
    rank = len(x.shape)
    order: Any = query.attr.get("dims")
    if order is None:
        pair = {int(str(query.attr[name])) % rank for name in ("dim0", "dim1")}
        order = [sum(pair) - d if d in pair else d for d in range(rank)] if len(pair) > 1 else range(rank)
    order = [d % rank for d in order]
    if x.dtype is DType.BFP4_B and rank > 2 and order[-2] < rank - 2:
        return "changing rows of bfp4_b with an outer dim puts elements out of place and writes beyond the result"
    if x.dtype.is_block_float and x.layout.is_sharded and rank > 3 and (order[0] >= rank - 2 or 0 in order[-2:]):
        return "moving the first dim of block floats in shards among rows and columns puts elements out of place"
    return None


FAULTS: Rules = {
    "ttnn.to_memory_config": _copy,
    "ttnn.concat": _concat,
    "ttnn.pad": _padded,
    "ttnn.transpose": _turned,
    "ttnn.permute": _turned,
}
