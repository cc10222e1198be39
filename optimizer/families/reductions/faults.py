"""What norms and reductions compute wrongly."""

from __future__ import annotations

from math import prod
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, TensorMemoryLayout
from optimizer.layouts.tiling import FACE, TILE
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.fault_rules import Rules

WIDTH = TensorMemoryLayout.WIDTH_SHARDED


def _norm(query: OpQuery) -> str | None:
    """Norms of shards whose result is asked for in others, and those over width shards on cores that are no rectangle.

    The cores of the operand write their results where they lie, whatever shards the result's buffer has. Run: 24
    layer and RMS norms of 1 to 384 rows and 8 to 320 columns, block shards into other block shards and width shards
    into other width shards, most values wrong in each, by a factor of thousands.

    The cores gather each other's partial sums by multicast over the rectangle around them, of which some take no part
    (tt-metal 38429, 38557, 50979). Run: 384 columns on 8 + 4 cores, relative error 0.034 with 64 rows and 0.31 with
    128; on 6 x 2 and on 4 x 3, 0.0025. One row of tiles is right, whatever was left in L1.
    """
    layout = query.inputs[0].layout
    spec = layout.shard_spec
    asked = None if query.output is None else query.output.shard_spec
    if spec is not None and asked is not None and asked != spec:
        return f"a norm of shards on {spec.num_cores} cores leaves its result there, not in the shards asked for"
    if spec is None or layout.memory_layout is not WIDTH:
        return None
    if spec.is_rectangle or spec.shape[0] <= TILE:
        return None
    return f"a norm over width shards on {spec.num_cores} cores that are no rectangle gathers the sums of idle ones"


def _extreme(query: OpQuery) -> str | None:
    """Largest and smallest elements of block floats whose last block is partly padding.

    The op fills that padding with an infinity first, whose exponent the elements of the same block of 16 share. Run: 40
    columns, along either dim and along another, 5 to 20 % of the values wrong; 48, 64 and 80, right; `min`, which turns
    all signs, of 48 wrong too.
    """
    x = query.inputs[0]
    unit = FACE if query.op == "ttnn.max" else TILE
    if x.dtype.is_block_float and x.shape[-1] % unit:
        return f"the infinity in the padding behind {x.shape[-1]} columns takes the exponent of block floats beside it"
    return None


def _reduced(query: OpQuery) -> str | None:
    """Width shards added up to one row, which is asked for in height shards.

    Every core of the operand leaves its columns at the start of the result's shard, on itself. Run: sum, mean, max and
    min of 32 to 64 rows and 40 to 128 columns, all but the first 32 columns wrong in each, and of two images added up
    too; two images apart, results in block and width shards, also on fewer cores, or interleaved, and height and block
    shards as operands, right.
    """
    x, asked = query.inputs[0], query.output
    dims: Any = query.attr.get("dim")
    spec = x.layout.shard_spec
    if asked is None or spec is None or x.layout.memory_layout is not WIDTH or spec.num_cores == 1:
        return None
    last = len(x.shape) - 1
    along = {int(d) % (last + 1) for d in (dims if isinstance(dims, tuple | list) else (dims,)) if d is not None}
    rows = prod(size for d, size in enumerate(x.shape[:-1]) if d not in along)
    down = last - 1 in along and last not in along
    if down and rows == 1 and asked.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return f"what {spec.num_cores} cores add up of width shards stays on them, not in the height shards asked for"
    return None


def _largest(query: OpQuery) -> str | None:
    return _extreme(query) or _reduced(query)


def _argmax(query: OpQuery) -> str | None:
    """Indices of largest elements in L1, a row of one number each (`keepdim`).

    Run: 96 and 100 rows of 32 to 200 columns, the 84 and 100 words behind the result overwritten, the indices right;
    32 and 150 rows, in DRAM, and indices in rows of several (without `keepdim`): nothing but the result.
    """
    memory = query.inputs[0].layout.memory if query.output is None else query.output
    if query.attr.get("keepdim") and memory.buffer_type is BufferType.L1 and not query.inputs[0].layout.is_tile:
        return "writes beyond its result in L1, of which every row holds one index"
    return None


def _running_sum(query: OpQuery) -> str | None:
    """Running sums of bfp4_b, whose rows the op turns itself: [1, 2, 1, 8] along dim 2, half of the values wrong."""
    return "the op turns rows of bfp4_b" if query.inputs[0].dtype is DType.BFP4_B else None


FAULTS: Rules = {
    "ttnn.layer_norm": _norm,
    "ttnn.rms_norm": _norm,
    **dict.fromkeys(("ttnn.max", "ttnn.min"), _largest),
    **dict.fromkeys(("ttnn.sum", "ttnn.mean"), _reduced),
    "ttnn.argmax": _argmax,
    "ttnn.cumsum": _running_sum,
}
