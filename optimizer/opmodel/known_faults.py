"""Questions that tt-metal answers with yes and whose kernels then give wrong values, or write beyond their result.

Each rule was found on tt-metal's simulator (`benchmarks/layout_values.py`: values against float64, canaries around
every L1 tensor); its docstring names the C++ behind it, where that is known, and what was run. Every backend asks here
before it answers: validation and allocation on a mock device cannot see any of this.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.dram_sharded_matmuls import columns_in_banks, shared_evenly
from optimizer.layouts.memory_config import BufferType, TensorMemoryLayout
from optimizer.layouts.op_config import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
)
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.base import OpQuery, TensorSpec

FACE = TILE // 2


def fault(query: OpQuery) -> str | None:
    """What goes wrong when tt-metal runs an op so; None where nothing is known to."""
    if not query.inputs or not query.inputs[0].shape:
        return None
    rule = _RULES.get(query.op)
    if rule is not None:
        return rule(query)
    return _element_wise(query) if opdef(query.op).cost_class is CostClass.ELTWISE else None


def channel_shards(x: TensorSpec) -> int:
    """Cores among which the channels of one row are shared."""
    spec = x.layout.shard_spec
    if spec is None or x.layout.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return 1
    return spec.num_cores if x.layout.memory_layout is TensorMemoryLayout.WIDTH_SHARDED else spec.grid_yx[1]


def writes_beyond(channels: int, shards: int) -> bool:
    """Whether every core of a pool writes 32 bytes beyond its shard of the result.

    `compute_pool_2d.cpp` (`ttnn/cpp/ttnn/operations/pool/generic/device/kernels/compute`, lines 74 and 157-163)
    counts a last tile of 16 channels as one face (`num_faces_in_last_output_tile`) for the pages that it reserves and
    pushes, but its `pack_untilize_dest` packs whole tiles (line 248): the second face of a row is written over by the
    next row, that of the last row stays. Only a tensor of 16 channels in all is right.
    """
    return -(-channels // shards) % TILE == FACE and (channels > FACE or shards > 1)


def _pool(query: OpQuery) -> str | None:
    """Pools of sharded operands.

    The kernels of every core are compiled for the same share of the channels (`in_c` of `compute_pool_2d.cpp` and
    `reader_pool_2d.cpp`), and the result's shards are that share rounded up to a face or to tiles. Where a core holds
    another number of columns its channels end up elsewhere in the result, garbage is pooled, or readers and compute
    kernel wait for each other for ever. Run: 64 channels as 8 x 8 and 48 as 2 x 24, about half of the values wrong; 80
    as 64 and 16, 5x5, all; 96 as 64 and 32 hangs. Of the uneven ones some are right (3x3 over 80 as 64 and 16).

    The rows of a result are as wide as faces whatever is asked of them. Run: height shards of 8, 24, 40 and 72 channels
    asked for, more than 93 % of the values wrong; 16 and 48, right.
    """
    x = query.inputs[0]
    asked = None if query.output is None else query.output.shard_spec
    if asked is not None and asked.shape[1] % FACE:
        return f"a pool writes rows of whole faces into shards of {asked.shape[1]} channels: elements out of place"
    spec = x.layout.shard_spec
    if spec is None:
        return None
    channels, shards = x.shape[-1], channel_shards(x)
    if shards > 1 and (channels != shards * spec.shape[1] or spec.shape[1] % FACE):
        return f"pooling {channels} channels in {shards} shards of {spec.shape[1]} puts channels out of place"
    if writes_beyond(channels, shards):
        return f"pooling shards of {spec.shape[1]} channels writes 32 bytes beyond each shard of the result"
    return None


ROW_PIECE = 8
"""Columns of row-major shards that a convolution takes multiples of."""


def _conv(query: OpQuery) -> str | None:
    """Convolutions of row-major shards that they spread again because of their width.

    A convolution takes row-major shards as they are where their columns are multiples of 8, or of 32 where it is a
    matmul (1x1) or they are width shards (`get_input_channels_alignment` in tt-metal's `conv2d_utils.cpp`); else it
    pads the channels and spreads the shards again, and what it then convolves are other channels or garbage. A copy
    between the same two layouts is right, so it is the padding; that host code is not in the wheel. Run: height
    shards of 12 and 20 columns, 3x3, and of 40, 1x1; block shards of 10, 12, 20 and 37 (256 channels on seven
    columns of cores); width shards of 16: 13 to 100 % of the values wrong. Block shards of 3 x 20 and 3 x 22 are
    right by chance. Shards of 8, 24 and 40 columns, 3x3, are taken as they are and right; so are those of which
    only the rows do not fit.
    """
    if (wrong := _depthwise_row(query) or _few_blocks(query)) is not None:
        return wrong
    x, attrs = query.inputs[0], query.attr
    spec = x.layout.shard_spec
    if spec is None or x.layout.is_tile:
        return None
    unit = (
        TILE if _is_pointwise(dict(attrs)) or x.layout.memory_layout is TensorMemoryLayout.WIDTH_SHARDED else ROW_PIECE
    )
    if spec.shape[1] % unit:
        return f"a convolution of rows of {spec.shape[1]} channels, no multiple of {unit}, computes with other channels"
    return None


def _depthwise_row(query: OpQuery) -> str | None:
    """Depthwise convolutions of one row without a bias, for which tt-metal has kernels of their own.

    `is_1d_depthwise_conv` (`reader_depthwise_conv1d.cpp`, `compute_depthwise_conv1d.cpp`). Run on Wormhole, 64 channels
    of 40 or 100 columns: height shards and a kernel of 3 are right, dilated by 2 wrong (kernels of 3 and 7, PCC 0.30
    and 0.19; from DRAM 0.35); block shards did not end in seven minutes, and later versions of tt-metal refuse them.
    With a bias, which makes it an ordinary convolution, block shards are right, and from DRAM dilated ones. Not run:
    strides equal to the kernel, of which the mock device refuses those where the folded weights have another height
    than it expects.
    """
    a: dict[str, Any] = dict(query.attr)
    if query.op != "ttnn.conv2d" or len(query.inputs) > 2:
        return None
    high, wide = a["kernel_size"]
    if not a.get("groups", 1) == a["in_channels"] == a["out_channels"]:
        return None
    if a["input_height"] != 1 or high != 1 or wide == 1:
        return None
    kind = getattr(query.config, "shard_layout", None)
    blocks = TensorMemoryLayout.BLOCK_SHARDED
    if kind == blocks.value or query.inputs[0].layout.memory_layout is blocks:
        return "a depthwise convolution of one row without a bias does not end in block shards"
    if a.get("dilation", (1, 1))[1] != 1:
        return "a dilated depthwise convolution of one row without a bias computes something else"
    if a.get("stride", (1, 1)) == (high, wide):
        return "a depthwise convolution of one row without a bias is folded with weights of another form"
    return None


def _few_blocks(query: OpQuery) -> str | None:
    """Convolutions of blocks that add up exactly as many partial sums as are kept outside of L1.

    A convolution of block shards adds up a block per row of the kernel and column of cores. It adds in L1 (the packer)
    from two blocks on with a bias and from three without; where it adds just one fewer, what comes out on several
    columns of cores is something else. Run, each with a relative error above 1: one block with a bias (1x1 of stride 2,
    1x3, 1x5 from one column), two without (the same from two columns, 2x2 from one), in tiles and rows, from tiles in
    DRAM that the convolution cuts into blocks and 8 channels of rows in DRAM that it cuts as it likes, and 1x1 that
    width shards are asked of. Other numbers of blocks, results of up to 32 channels, height shards, and 1x1 of stride 1
    into blocks, which is a matmul: right.
    """
    a: dict[str, Any] = dict(query.attr)
    x, blocks = query.inputs[0], TensorMemoryLayout.BLOCK_SHARDED
    asked = getattr(query.config, "shard_layout", None)
    if a["out_channels"] <= TILE or (_is_pointwise(a) and asked != TensorMemoryLayout.WIDTH_SHARDED.value):
        return None
    if x.layout.is_sharded:
        columns = channel_shards(x) if x.layout.memory_layout is blocks else 0
    else:
        in_blocks = asked in (None, blocks.value)  # None: TTNN chooses
        columns = -(-x.shape[-1] // (TILE if x.layout.is_tile else ROW_PIECE)) if in_blocks else 0
    if a["kernel_size"][0] * columns != (1 if len(query.inputs) > 2 else 2):
        return None
    return f"a convolution of blocks on {columns} column(s) of cores adds up too few of them for its way to add"


def _is_pointwise(a: dict[str, Any]) -> bool:
    return a["kernel_size"] == a.get("stride", (1, 1)) == (1, 1) and not any(a.get("padding", ()))


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
    if spec is None or layout.memory_layout is not TensorMemoryLayout.WIDTH_SHARDED:
        return None
    if spec.is_rectangle or spec.shape[0] <= TILE:
        return None
    return f"a norm over width shards on {spec.num_cores} cores that are no rectangle gathers the sums of idle ones"


def _element_wise(query: OpQuery) -> str | None:
    return _infinite_padding(query) or _element_wise_rows(query)


def _infinite_padding(query: OpQuery) -> str | None:
    """Block floats whose last block is partly padding, of ops that may give infinity there.

    Elements of a block share an exponent, that of the infinity. Run: `log`, `reciprocal`, `rsqrt`, `divide`, `acosh`
    and powers of 40 columns with zeros behind them, a fifth of the values wrong each, relative error 0.46.
    """
    result = query.output_dtype or query.inputs[0].dtype
    columns = max((t.shape[-1] for t in query.inputs if t.shape), default=1)
    if result.is_block_float and columns % FACE and opdef(query.op).unbounded:
        return f"infinity in the padding behind {columns} columns takes the exponent of the block floats beside it"
    return None


def _element_wise_rows(query: OpQuery) -> str | None:
    """Element-wise ops on rows that are cut differently in operand and result.

    The kernels take page after page of every operand and give page after page of the result (`ttnn/cpp/ttnn/operations/
    eltwise`, `device/kernels/dataflow`): a page of a row-major shard is as long as the shard is wide, so the k-th pages
    of two tensors only hold the same elements where these widths are equal. Run: a silu of 13 x 8 shards to interleaved
    rows of 16, half of the values wrong; 100 x 5 to 100 x 1, nearly all; an add of interleaved rows of 24 into 100 x 1,
    all; others stop the simulator at writes that are not aligned. Equal widths are right, also in other shards.
    """
    x = query.inputs[0]
    memory = x.layout.memory if query.output is None else query.output
    columns = max((t.shape[-1] for t in query.inputs if t.shape), default=1)
    specs = [t.layout.memory.shard_spec for t in query.inputs if t.shape and t.shape[-1] == columns]
    given = {columns if spec is None else spec.shape[1] for spec in specs}
    if x.layout.is_tile or x.layout.is_host or not x.shape or (memory.is_sharded and memory.shard_spec is None):
        return None
    result = columns if memory.shard_spec is None else memory.shard_spec.shape[1]
    if given - {result}:
        return f"rows in pieces of {sorted(given)} columns give pieces of {result}: elements out of place"
    return None


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
    """Batches of tensors in shards of rows joined along their rows, of which one ends with a partial tile.

    Run: two batches of 64, 7 and 33 rows and of 128 and 7 on four and two cores each, 9 and 3 % of the values wrong. On
    one core, in width shards, interleaved, and of one batch (33, 33 and 100 rows on two cores): right.
    """
    x = query.inputs[0]
    dim: Any = query.attr.get("dim", 0)
    if (
        x.layout.shard_spec is None
        or not x.layout.is_tile
        or len(x.shape) < 3
        or dim % len(x.shape) != len(x.shape) - 2
    ):
        return None
    across = x.layout.memory_layout is not TensorMemoryLayout.WIDTH_SHARDED and x.layout.shard_spec.num_cores > 1
    if across and prod(x.shape[:-2]) > 1 and any(t.shape[-2] % TILE for t in query.inputs):
        return "joining batches of rows in shards, of which some end with a partial tile, puts rows out of place"
    return None


def _argmax(query: OpQuery) -> str | None:
    """Indices of largest elements in L1, a row of one number each (`keepdim`).

    Run: 96 and 100 rows of 32 to 200 columns, the 84 and 100 words behind the result overwritten, the indices right;
    32 and 150 rows, in DRAM, and indices in rows of several (without `keepdim`): nothing but the result.
    """
    memory = query.inputs[0].layout.memory if query.output is None else query.output
    if query.attr.get("keepdim") and memory.buffer_type is BufferType.L1 and not query.inputs[0].layout.is_tile:
        return "writes beyond its result in L1, of which every row holds one index"
    return None


def _rotary(query: OpQuery) -> str | None:
    """Positions that are no whole tiles: the result has as many rows as its tiles, [1, 2, 64, 64] for [1, 2, 50, 64].

    Whatever reads it next takes the added rows for positions (mock device and simulator alike, ttnn 0.81.1).
    """
    rows = query.inputs[0].shape[-2:-1]
    if rows and rows[0] % TILE:
        return f"gives the {rows[0]} rows of every head as {-(-rows[0] // TILE) * TILE}: positions must be whole tiles"
    return None


def _bank_shards(query: OpQuery) -> str | None:
    """Matmuls by the DRAM-sharded config whose operand B, or bias, lies otherwise than the readers think.

    A reader goes along its bank in rows of as many tiles as an even share of the columns among the banks that are not
    empty is (`per_core_N_in1_sender` of `matmul_multicore_reuse_mcast_dram_sharded_program_factory.cpp`), whatever the
    shard is: validation asks for width shards of B alone, in L1 too, and nothing of the bias. Run: 32 x 512 x 1024 over
    12 banks, half of the values wrong with an interleaved bias and with shards of 12 tiles (the readers think 11);
    those of 3, 4 and 5 tiles are right.
    """
    config = query.config
    if not isinstance(config, MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig) or len(query.inputs) < 2:
        return None
    shards = [columns_in_banks(tensor.layout, tensor.shape) for tensor in query.inputs[1:]]
    width = -(-query.inputs[1].shape[-1] // TILE)
    if not shared_evenly(shards[0], width, config.num_workers_per_dram_bank):
        return "operand 1 is read as if the DRAM banks shared its columns evenly: the product is of other columns"
    if any(tiles != shards[0] for tiles in shards):
        return "a bias is read as if it were cut over the DRAM banks as operand 1 is: other columns are added"
    return None


def _product(query: OpQuery) -> str | None:
    """Matmuls whose cores stand elsewhere than the result's shards, and batches of them that add up padding.

    The kernels of the 1D config go to the cores of the grid row by row, block shards of several rows to a column of
    cores each. Run: 11 products of 17 to 300 rows into block shards on 2 x 1 to 8 x 1 cores, all but the first core's
    values wrong; on 1 x 1 to 1 x 7 cores right.

    The readers of the matrix engine zero the last columns of A, beyond K, but no reader reads shards of A where B has
    batches of its own: what both operands hold in their tiles beyond K is multiplied and added. Run: K of 8, 24, 40 and
    50, height and block shards of A, bf16 and f32, relative errors of 70 and more with garbage of unit size there; A
    interleaved, or a B without batches: right.
    """
    if (wrong := _bank_shards(query)) is not None or len(query.inputs) < 2:
        return wrong
    asked = None if query.output is None else query.output.shard_spec
    blocks = query.output is not None and query.output.memory_layout is TensorMemoryLayout.BLOCK_SHARDED
    one_row = isinstance(query.config, MatmulMultiCoreReuseMultiCast1DProgramConfig)
    if one_row and blocks and asked is not None and asked.grid_yx[0] > 1:
        return f"the 1D config computes block shards of {asked.grid_yx[0]} rows of cores on one row of them"
    a, b = query.inputs[:2]
    depth = a.shape[-2 if query.attr.get("transpose_a") else -1]
    if a.layout.is_sharded and depth % TILE and prod(b.shape[:-2]) > 1:
        return f"a batch of products of shards adds up what the tiles hold beyond the {depth} columns"
    return None


def _upsample(query: OpQuery) -> str | None:
    """Images in shards of rows whose result is asked for on other cores.

    Every core writes the rows that it makes of its own into its shard of the result. Run: eleven images, nearest and
    bilinear, height shards into height or block shards on other cores and block shards into height shards on as many,
    two thirds of the values and more wrong; on the same cores, and nearest from width shards, right.
    """
    layout = query.inputs[0].layout
    spec, asked = layout.shard_spec, None if query.output is None else query.output.shard_spec
    if spec is None or asked is None or layout.memory_layout is TensorMemoryLayout.WIDTH_SHARDED:
        return None
    if asked.core_ranges == spec.core_ranges:
        return None
    return f"upsampling shards on {spec.num_cores} cores leaves the result there, not in the shards asked for"


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


_RULES: dict[str, Callable[[OpQuery], str | None]] = {
    "ttnn.matmul": _product,
    "ttnn.linear": _product,
    "ttnn.max": _extreme,
    "ttnn.min": _extreme,
    "ttnn.upsample": _upsample,
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.rotary_embedding": _rotary,
    "ttnn.concat": _concat,
    "ttnn.argmax": _argmax,
    "ttnn.to_memory_config": _copy,
    "ttnn.layer_norm": _norm,
    "ttnn.rms_norm": _norm,
}
