"""What pools, convolutions and upsampling compute wrongly."""

from __future__ import annotations

from typing import Any

from optimizer.ir.compute_config import COMPUTE
from optimizer.layouts.conv_configs import is_pointwise
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.tiling import FACE, TILE
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.fault_rules import Rules, channel_shards

ROW_PIECE = 8
"""Columns of row-major shards that a convolution takes multiples of."""


def writes_beyond(channels: int, shards: int) -> bool:
    """Whether every core of a pool writes 32 bytes beyond its shard of the result.

    `compute_pool_2d.cpp` (`ttnn/cpp/ttnn/operations/pool/generic/device/kernels/compute`, lines 74 and 157-163)
    counts a last tile of 16 channels as one face (`num_faces_in_last_output_tile`) for the pages that it reserves and
    pushes, but its `pack_untilize_dest` packs whole tiles (line 248): the second face of a row is written over by the
    next row, that of the last row stays. Only a tensor of 16 channels in all is right.
    """
    return -(-channels // shards) % TILE == FACE and (channels > FACE or shards > 1)


MOST_AVERAGED = 4 * TILE
"""Channels a core of averages with 32-bit sums."""


def _pool(query: OpQuery) -> str | None:
    """Pools of sharded operands.

    The kernels of every core are compiled for the same share of the channels (`in_c` of `compute_pool_2d.cpp` and
    `reader_pool_2d.cpp`), and the result's shards are that share rounded up to a face or to tiles. Where a core holds
    another number of columns its channels end up elsewhere in the result, garbage is pooled, or readers and compute
    kernel wait for each other for ever. Run: 64 channels as 8 x 8 and 48 as 2 x 24, about half of the values wrong; 80
    as 64 and 16, 5x5, all; 96 as 64 and 32 hangs. Of the uneven ones some are right (3x3 over 80 as 64 and 16).

    The rows of a result are as wide as faces whatever is asked of them. Run: height shards of 8, 24, 40 and 72 channels
    asked for, more than 93 % of the values wrong; 16 and 48, right.

    Averages with 32-bit sums take four tiles of channels at a time, and are wrong beyond the first four of a core. Run:
    160, 192 and 256 channels a core in width and height shards, windows 5x1 and 2x2, all channels from the 129th on
    wrong; 128 channels, and 192 with 16-bit sums or interleaved, right.
    """
    x = query.inputs[0]
    asked = None if query.output is None else query.output.shard_spec
    if asked is not None and asked.shape[1] % FACE:
        return f"a pool writes rows of whole faces into shards of {asked.shape[1]} channels: elements out of place"
    spec = x.layout.shard_spec
    if spec is None:
        return None
    channels, shards = x.shape[-1], channel_shards(x)
    compute: Any = query.attr.get(COMPUTE)
    if query.op == "ttnn.avg_pool2d" and spec.shape[1] > MOST_AVERAGED and dict(compute or ()).get("fp32"):
        return (
            f"averages with 32-bit sums of {spec.shape[1]} channels a core are wrong from the {MOST_AVERAGED + 1}th on"
        )
    if shards > 1 and (channels != shards * spec.shape[1] or spec.shape[1] % FACE):
        return f"pooling {channels} channels in {shards} shards of {spec.shape[1]} puts channels out of place"
    if writes_beyond(channels, shards):
        return f"pooling shards of {spec.shape[1]} channels writes 32 bytes beyond each shard of the result"
    return None


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
    unit = TILE if is_pointwise(attrs) or x.layout.memory_layout is TensorMemoryLayout.WIDTH_SHARDED else ROW_PIECE
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
    if a["out_channels"] <= TILE or (is_pointwise(a) and asked != TensorMemoryLayout.WIDTH_SHARDED.value):
        return None
    if x.layout.is_sharded:
        columns = channel_shards(x) if x.layout.memory_layout is blocks else 0
    else:
        in_blocks = asked in (None, blocks.value)  # None: TTNN chooses
        columns = -(-x.shape[-1] // (TILE if x.layout.is_tile else ROW_PIECE)) if in_blocks else 0
    if a["kernel_size"][0] * columns != (1 if len(query.inputs) > 2 else 2):
        return None
    return f"a convolution of blocks on {columns} column(s) of cores adds up too few of them for its way to add"


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


FAULTS: Rules = {
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.upsample": _upsample,
}
