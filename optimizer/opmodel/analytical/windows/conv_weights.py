"""Weights and biases as convolutions read them: how large they lie in DRAM.

Source: tt-metal `prepare_conv2d_weights.cpp` (`convert_conv_weight_tensor_to_special_padding_tiled_layout`,
`..._to_tiled_layout_block_sharded`, `..._to_grouped_layout`); the sizes are those of tensors prepared on mock devices.
"""

from __future__ import annotations

from optimizer.device import DeviceSpec
from optimizer.families.windows.conv import folded_problem
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, interleaved
from optimizer.layouts.tiling import TILE, round_up
from optimizer.opmodel.analytical.case import Case, Refused
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT
from optimizer.opmodel.analytical.windows import parallel
from optimizer.opmodel.analytical.windows.conv_buffers import ConvProblem
from optimizer.opmodel.analytical.windows.conv_plan import alignment, auto_kind, keeps_shards, plan_of, resharded
from optimizer.opmodel.analytical.windows.conv_slices import runs_in_l1, slice_shards, slices_of
from optimizer.opmodel.analytical.windows.parallel import Parallel
from optimizer.opmodel.base import OpQuery, TensorSpec

_TILES = interleaved(BufferType.DRAM, PageLayout.TILE)


def prepared_weights(query: OpQuery, device: DeviceSpec, l1_small_bytes: int) -> tuple[TensorSpec, ...]:
    """The weight and, where there is one, the bias of a convolution in the form that it reads them in.

    Of a convolution that cannot run as asked: with input and output channels rounded up to tiles.
    """
    case = Case(query, device, opdef(query.op).with_defaults(query.attrs), l1_small_bytes)
    problem = folded_problem(case)
    try:
        rows, columns = _matrix(case, problem)
    except Refused:
        kernel = problem.window.kernel
        rows, columns = round_up(problem.cin, TILE) * kernel[0] * kernel[1], round_up(problem.cout, TILE)
    weight = TensorSpec((1, 1, rows, columns), problem.dtype_weights, _TILES)
    bias = TensorSpec((1, 1, TILE, columns), problem.dtype_weights, _TILES)
    return (weight, bias) if problem.bias else (weight,)


def read_from(query: OpQuery, device: DeviceSpec, l1_small_bytes: int) -> MemoryConfig:
    """Where a convolution reads its input when it computes: as given, or, of shards that it spreads again, spread.

    `ttnn.prepare_conv_weights` and `ttnn.prepare_conv_bias` take the input's memory config at its word, although the
    convolution itself spreads shards that it cannot work on (`shard_or_reshard_tensor_if_required`: rows of a 1x1
    convolution that are no whole tiles, channels that no alignment divides, width shards of a 1x1 convolution). For
    weights prepared from the shards as given, tt-metal 0.81 then ends in "Target number of cores 138 is greater than
    total number of available cores 24" or "The width of tensor a needs to match the height of tensor b", or computes
    something else. With this memory config what is prepared is what the convolution would make
    (`return_weights_and_bias`), of 450 random convolutions on mock n150 and p150.
    """
    given = query.inputs[0].layout.memory
    if not given.is_sharded or not query.inputs[0].layout.is_l1:
        return given
    case = Case(query, device, opdef(query.op).with_defaults(query.attrs), l1_small_bytes)
    try:
        problem = folded_problem(case)
        if keeps_shards(problem, problem.asked, device):
            return given
        source, shard = resharded(problem, problem.asked, device)
    except Refused:
        return given
    return source.memory(shard)


def _matrix(case: Case, p: ConvProblem) -> tuple[int, int]:
    """Rows and columns of the weight matrix, in elements."""
    chosen = _spread(case, p)
    if chosen is None:
        return round_up(p.cin, TILE), round_up(p.cout, TILE)
    source, width = chosen
    target = parallel.determine_output(source, p.cout, case.device, p.matmul)
    channels = round_up(p.cin, source.channels * alignment(p, source.kind, width))
    plan = plan_of(p, source, target, channels, p.window.out_nhw, case.device)
    kh, kw = p.window.kernel
    columns = target.channels * plan.out_tiles[1] * TILE
    if plan.row_depthwise:
        return kw * plan.act_block_h * TILE, columns
    if source.kind is HEIGHT and not p.matmul:
        return kh * plan.act_block_w * TILE, columns
    parts = source.channels if source.kind is BLOCK else 1  # every column of cores has rows of its own
    return parts * round_up(channels // parts * kh * kw, TILE), columns


def _spread(case: Case, p: ConvProblem) -> tuple[Parallel, int] | None:
    """The cores that hold the input while it is convolved, and the width of their shards; None: a plain matmul."""
    kind = p.asked
    if runs_in_l1(case, p):
        if kind is None and (not p.memory.is_sharded or p.folded):
            if p.matmul:
                return None
            kind = auto_kind(p, case.device)
        if keeps_shards(p, kind, case.device) and p.memory.shard_spec is not None:
            return parallel.of_memory(p.memory), p.memory.shard_spec.shape[1]
        source, shard = resharded(p, kind, case.device)
        return source, shard[1]
    tile = p.config.output_layout == PageLayout.TILE.value
    along_height, count = slices_of(case, p, tile)
    if count == 1:
        source, shard = resharded(p, kind or auto_kind(p, case.device), case.device)
        return source, shard[1]
    source, shard = slice_shards(case, p, along_height, count, tile)
    return source, shard[1]
