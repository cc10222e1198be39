"""How tt-metal shards and blocks a convolution.

Source: tt-metal `conv2d_utils.cpp` (`get_input_channels_alignment`, `get_conv_padded_input_shape_and_mem_config`,
`get_conv_configs`, `calculate_L1_usage_for_conv_op`, `determine_conv_config_for_auto_shard`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.tiling import TILE, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import first_cores
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, INTERLEAVED, WIDTH
from optimizer.opmodel.analytical.windows import parallel
from optimizer.opmodel.analytical.windows.conv_buffers import ConvPlan, ConvProblem, conv_buffer_bytes
from optimizer.opmodel.analytical.windows.parallel import COL, Parallel, Window


def alignment(p: ConvProblem, kind: TensorMemoryLayout, shard_width: int | None, sliced: bool = False) -> int:
    """`get_input_channels_alignment`."""
    if p.matmul or kind is WIDTH or not (p.row_major or sliced):
        return TILE
    if shard_width is not None:
        return next((a for a in (TILE, 16, 8) if shard_width % a == 0), TILE)
    return 8


def keeps_shards(p: ConvProblem, kind: TensorMemoryLayout | None, device: DeviceSpec) -> bool:
    """Whether a sharded input is convolved where it is."""
    spec = p.memory.shard_spec
    if spec is None:
        return False
    if p.config.reshard_if_not_optimal:
        best, given = resharded(p, kind, device)[0], parallel.of_memory(p.memory)
        if (best.kind, best.orientation, sorted(best.ranges)) != (given.kind, given.orientation, sorted(given.ranges)):
            return False
    kind = p.memory.memory_layout
    if kind is not BLOCK and spec.orientation is COL:
        return False
    if spec.shape[1] % alignment(p, kind, spec.shape[1]):
        return False
    if p.matmul and kind is BLOCK and uneven_channels(p):
        return False
    return not (p.matmul and spec.shape[0] % TILE)


def uneven_channels(p: ConvProblem) -> bool:
    """Block shards whose widths do not add up to the channels."""
    spec = p.memory.shard_spec
    return spec is not None and p.cin != parallel.of_memory(p.memory).channels * spec.shape[1]


def resharded(p: ConvProblem, kind: TensorMemoryLayout | None, device: DeviceSpec) -> tuple[Parallel, tuple[int, int]]:
    """(cores, shard shape) of an input that is spread again."""
    spec = p.memory.shard_spec
    wanted = kind or INTERLEAVED
    if spec is not None and p.matmul and p.memory.memory_layout is BLOCK and uneven_channels(p):
        wanted = BLOCK
    align = alignment(p, p.memory.memory_layout, None if spec is None else spec.shape[1])
    source = parallel.determine(
        wanted, p.cin, p.window.out_nhw, p.cout, align, device, p.orientation, not p.matmul,
        act_block_h=p.config.act_block_h_override,
    )  # fmt: skip
    unit = alignment(p, source.kind, None)
    return source, parallel.input_shard(source, p.window.in_nhw, p.cin, unit, p.row_major)


def check_source(p: ConvProblem, source: Parallel, target: Parallel, keeps: bool, device: DeviceSpec) -> None:
    """Shardings of the input that tt-metal cannot convolve where they are."""
    if keeps and not p.matmul:
        walks = parallel.walks_rows(source.ranges)
        need(walks, "Sliding-window shard grid must be an origin-anchored walk row by row")
        if source.kind is WIDTH and target.cores < source.cores:
            placed = source.ranges == first_cores(source.cores, device.grid_yx)
            need(placed, "Multicast runtime arguments target an unplaced core")
    spec = p.memory.shard_spec
    if not p.matmul or spec is None:
        return
    need(not keeps or source.kind is not WIDTH, "a 1x1 convolution does not take width sharded input")
    if keeps:
        anchored = min(r[0] for r in source.ranges) == min(r[1] for r in source.ranges) == 0
        need(anchored, "a 1x1 convolution takes shards on a grid that starts at core (0, 0)")
    if not keeps and p.row_major and source.kind is not HEIGHT:
        whole = spec.shape[0] % TILE == 0 and spec.shape[1] % TILE == 0
        need(whole, f"Physical shard shape {spec.shape} must be tile {{32, 32}} sized!")


def plan_of(
    p: ConvProblem,
    source: Parallel,
    target: Parallel,
    channels_padded: int,
    out_nhw: int,
    device: DeviceSpec,
    tile_result: bool = False,
    weight_rows: int = -1,
) -> ConvPlan:
    """The blocking of a convolution from `source` to `target` shards; `tile_result` overrules the output layout."""
    out_shard = parallel.output_shard(target, out_nhw, p.cout)
    out_rows = out_nhw if target.kind is WIDTH else out_shard[0]
    untilize = p.config.output_layout == "row_major" and not tile_result
    depthwise = p.is_row_depthwise(p.window) and not p.matmul and source.kind is HEIGHT
    return ConvPlan(
        p, source, target, channels_padded, out_shard, out_rows, untilize, device.arch, weight_rows, depthwise
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What tt-metal expects a convolution to take under a sharding, bytes per core."""

    halo_input: int
    halo: int
    total: int
    cores: int


def estimate(
    p: ConvProblem,
    kind: TensorMemoryLayout,
    device: DeviceSpec,
    out_nhw: int | None = None,
    given: tuple[Parallel, tuple[int, int]] | None = None,
    window: Window | None = None,
) -> Estimate:
    """`calculate_L1_usage_for_conv_op`.

    `given`: the input's cores and shards, else they are chosen; `window`: that of a slice, else the problem's.
    """
    window = window or p.window
    rows = window.out_nhw if out_nhw is None else out_nhw
    align = alignment(p, kind, None)
    if given is None:
        source = parallel.determine(
            kind, p.cin, rows, p.cout, align, device, p.orientation, not p.matmul,
            act_block_h=p.config.act_block_h_override,
        )  # fmt: skip
        shard = parallel.input_shard(source, window.in_nhw, p.cin, align, p.row_major)
    else:
        source, shard = given
    target = parallel.determine_output(source, p.cout, device, p.matmul)
    guess = round_up(p.cin, align) * p.window.kernel[0] * p.window.kernel[1] // TILE
    channels = round_up(p.cin, source.channels * align)
    plan = plan_of(p, source, target, channels, rows, device, weight_rows=guess)
    tall, wide = plan.out_tiles
    halo = parallel.halo_sticks(window, source.nhw) * shard[1] * p.stick_element
    total = conv_buffer_bytes(plan, plan.worst_index_bytes if p.config_in_dram else 0)
    total += tall * wide * p.dtype_out.tile_bytes + halo
    held = shard[0] * shard[1] * p.stick_element // (2 if p.dtype_in is DType.BFP8_B else 1)
    return Estimate(held, halo, total, max(source.cores, target.cores))


@lru_cache(maxsize=8192)
def auto_kind(
    p: ConvProblem, device: DeviceSpec, out_nhw: int | None = None, window: Window | None = None
) -> TensorMemoryLayout:
    """`determine_conv_config_for_auto_shard`: the sharding that needs least L1; arguments as of `estimate`."""
    window = window or (p.window.spread_out if p.window.transposed else p.window)
    if p.is_row_depthwise(window):
        return HEIGHT

    def size(kind: TensorMemoryLayout) -> Estimate:
        return estimate(p, kind, device, out_nhw, None, window)

    best, lowest = HEIGHT, size(HEIGHT).total
    block = size(BLOCK)
    if block.total < lowest and block.cores >= device.grid_yx[1]:
        best, lowest = BLOCK, block.total
    if p.matmul and not p.config.act_block_h_override:
        return best
    width = size(WIDTH)  # an override that does not fit it is refused even where it cannot win
    return WIDTH if width.total < lowest and not p.matmul else best
