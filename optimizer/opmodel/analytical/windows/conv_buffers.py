"""Blocking and circular buffers of the conv2d program.

Source: tt-metal `conv2d_utils.cpp` (`get_conv_configs`) and `conv2d_op_program_factory_common.cpp`
(`get_cb_info`, `is_split_reader_viable`; its transfer rates are tt-metal's own empirical table).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, ShardOrientation, TensorMemoryLayout
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, WIDTH
from optimizer.opmodel.analytical.windows.parallel import COL, ROW, Parallel, Window

SCRATCH_BYTES = 64
NOC_BURST_BYTES = {"blackhole": 16384, "wormhole_b0": 8192}
"""Largest read of one NOC transaction (`NOC_MAX_BURST_SIZE`)."""
_LOCAL_RATE = {"blackhole": (4096, 1.124, 80.48), "wormhole_b0": (1024, 0.868, 27.84)}
_DRAM_RATE = {"blackhole": (2048, 0.671, 80.885), "wormhole_b0": (2048, 0.436, 28.411)}
_MCAST_RATE = {"blackhole": (65536, 0.182, 57.677), "wormhole_b0": (65536, 0.318, 25.345)}
_TILIZE_CYCLES = {
    ("blackhole", "f32", "f32"): (132, 132),
    ("blackhole", "f32", "bf16"): (132, 80),
    ("blackhole", "f32", "bfp8_b"): (132, 77),
    ("blackhole", "bf16", "f32"): (105, 128),
    ("blackhole", "bf16", "bf16"): (72, 72),
    ("blackhole", "bf16", "bfp8_b"): (60, 60),
    ("wormhole_b0", "f32", "f32"): (107, 128),
    ("wormhole_b0", "f32", "bf16"): (74, 74),
    ("wormhole_b0", "f32", "bfp8_b"): (74, 70),
    ("wormhole_b0", "bf16", "f32"): (92, 117),
    ("wormhole_b0", "bf16", "bf16"): (61, 68),
    ("wormhole_b0", "bf16", "bfp8_b"): (40, 43),
}
"""(architecture, element type in, out) -> cycles per tile without and with 32-bit accumulation."""


@dataclass(frozen=True, slots=True)
class ConvProblem:
    """One convolution to be run in L1 (the whole of it, or one slice)."""

    window: Window
    cin: int
    cout: int
    matmul: bool
    config: Conv2dConfig
    memory: MemoryConfig
    row_major: bool
    dtype_in: DType
    dtype_out: DType
    dtype_weights: DType
    bias: bool
    fp32: bool
    l1_acc: bool
    full_inner_dim: bool
    config_in_dram: bool
    folded: bool = False
    groups: int = 1

    def is_row_depthwise(self, window: Window) -> bool:
        """Whether this is what tt-metal calls a 1D depthwise convolution (`is_1d_depthwise_conv`).

        It has weights and kernels of its own. That the height counts, not the width, and that it has no bias, was asked
        of tt-metal 0.81 (mock n150 and p150).
        """
        one_row = window.height == 1 and window.kernel[0] == 1 and not window.transposed
        return one_row and self.groups == self.cin == self.cout and not self.bias

    @property
    def asked(self) -> TensorMemoryLayout | None:
        """The sharding that the config names."""
        return None if self.config.shard_layout is None else TensorMemoryLayout(self.config.shard_layout)

    @property
    def orientation(self) -> ShardOrientation:
        return COL if self.config.transpose_shards else ROW

    @property
    def stick_element(self) -> int:
        """Bytes of an element of the haloed (row-major) input."""
        return 4 if self.dtype_in is DType.F32 else 2


@dataclass(frozen=True, slots=True)
class ConvPlan:
    """All that the buffers of one convolution depend on."""

    p: ConvProblem
    source: Parallel
    target: Parallel
    in_channels_padded: int
    out_shard: tuple[int, int]
    out_rows: int
    """Rows of the output shard before rounding to tiles (they differ for width sharding only)."""
    untilize: bool
    arch: str
    weight_rows: int = -1
    """Rows of the weight matrix, in tiles, where tt-metal only guesses them; -1: as the weights are prepared."""
    row_depthwise: bool = False
    """A 1D depthwise convolution in height shards: it multiplies tiles by tiles of weights, one per row of a block."""
    out_tiles: tuple[int, int] = field(init=False, repr=False, compare=False)
    """Output shard (height, width) in tiles."""
    act_block_h: int = field(init=False, repr=False, compare=False)
    """Rows of an activation block, in tiles; an override that does not divide the shard is lowered."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "out_tiles", (ceil_div(self.out_shard[0], TILE), ceil_div(self.out_shard[1], TILE)))
        object.__setattr__(self, "act_block_h", self._block_rows())

    @property
    def kind(self) -> TensorMemoryLayout:
        return self.source.kind

    @property
    def alone(self) -> bool:
        """Whether no activations are sent from core to core (`conv_skip_mcast`)."""
        return self.kind is not HEIGHT and self.source.channels == 1 and self.target.channels == 1

    @property
    def whole_windows(self) -> bool:
        """Whether a 1D depthwise convolution reads all taps of a window at once.

        `should_coalesce_1d_depthwise_conv_reads`: side by side, and no longer than one NOC burst.
        """
        size = (4 if self.p.dtype_in is DType.F32 else 2) * self.in_channels_padded * self.p.window.kernel[1]
        return self.row_depthwise and self.p.window.dilation[1] == 1 and size <= NOC_BURST_BYTES[self.arch]

    @property
    def worst_index_bytes(self) -> int:
        """Most bytes that the readers' index tensor may have: one number per output row."""
        return self.out_tiles[0] * TILE * 2

    def _block_rows(self) -> int:
        height = self.out_tiles[0]
        if not self.p.config.act_block_h_override:
            return height
        block = self.p.config.act_block_h_override // TILE
        available = self.out_rows // TILE  # 0 of a width shard of fewer rows
        if available % block:
            block = min(block, available)
            while available % block:
                block -= 1
        return block

    @property
    def act_block_w(self) -> int:
        """Columns of an activation block, in tiles."""
        kh, kw = self.p.window.kernel
        if self.row_depthwise and not self.whole_windows:
            kw = 1
        if self.kind is HEIGHT:
            return round_up(self.in_channels_padded * kw, TILE) // TILE
        if self.kind is BLOCK:
            depth = self.in_channels_padded // self.source.channels * kw * (kh if self.p.full_inner_dim else 1)
            return round_up(depth, TILE) // TILE
        tiles = self.in_channels_padded * kh * kw // TILE
        cores = self.source.cores * self.p.config.act_block_w_div
        need(tiles % cores == 0, "The width of tensor a needs to match the height of tensor b")
        return tiles // cores


def _rate(table: dict[str, tuple[int, float, float]], size: int, arch: str) -> float:
    limit, slow, fast = table[arch]
    return slow + (fast - slow) / (limit - 16) * (min(max(size, 16), limit) - 16)


def split_reader(plan: ConvPlan) -> bool:
    """Whether two readers share an activation block."""
    if plan.kind is WIDTH or plan.act_block_h <= 1 or plan.row_depthwise:
        return False
    if plan.kind is BLOCK:
        return True
    p, clock = plan.p, (1.35 if plan.arch == "blackhole" else 1.0)
    need(p.dtype_out is not DType.BFP4_B, "Unsupported output data type when calculating tilize cycles")
    size = p.stick_element
    together = p.window.kernel[1] if p.window.dilation[1] == 1 else 1
    rate = _rate(_LOCAL_RATE, size * plan.in_channels_padded * together, plan.arch)
    data = size * plan.act_block_h * TILE * plan.in_channels_padded * p.window.kernel[1]
    read = clock * data / rate
    weights = p.dtype_weights.tile_bytes * plan.out_tiles[1] * plan.act_block_w
    tile = p.dtype_weights.tile_bytes
    load = clock * weights * (1 / _rate(_DRAM_RATE, tile, plan.arch) + 1 / _rate(_MCAST_RATE, weights, plan.arch))
    halo = "f32" if p.dtype_in is DType.F32 else "bf16"
    cycles = _TILIZE_CYCLES[plan.arch, halo, p.dtype_out.value][p.fp32]
    tilize = cycles * plan.act_block_w * plan.act_block_h
    return read / 2 + max(load, tilize) < max(read + tilize, load)


def reader_rows(plan: ConvPlan) -> tuple[int, int]:
    """Output rows of an activation block that either reader fetches; (all, 0) when one reader does it all."""
    second = plan.act_block_h // 2 if split_reader(plan) else 0
    return ((plan.act_block_h - second) * TILE, second * TILE)


def conv_buffer_bytes(plan: ConvPlan, index_bytes: int = 0, alone: bool = False) -> int:
    """Bytes per core of the convolution's own circular buffers.

    `index_bytes`: the readers' index tensor where it must be fetched from DRAM. `alone`: no core has to send its
    channels to others, so that the tilized block needs no second buffer; tt-metal's own estimates leave that out.
    """
    p, kind = plan.p, plan.kind
    block_h, block_w = plan.act_block_h, plan.act_block_w
    tall, wide = plan.out_tiles
    need(block_h <= tall, f"act_block_h_override gives blocks of {block_h} tiles to shards of {tall}")
    tile_in = p.stick_element * TILE * TILE
    tile_out, tile_weights = p.dtype_out.tile_bytes, p.dtype_weights.tile_bytes
    act, second = block_h * block_w, 0
    if split_reader(plan):
        second = block_h // 2 * block_w
        act -= second
    weights = wide * block_w
    if kind is HEIGHT and tall // block_h > 1:
        weights *= p.window.kernel[0]
    elif p.config.enable_weights_double_buffer:
        weights *= 2
    total = weights * tile_weights
    partial = _partial_dtype(plan)
    if plan.row_depthwise:
        weights, total = _row_depthwise(plan, partial)
        total += weights * tile_weights
    elif plan.untilize or partial is not p.dtype_out:
        total += block_h * wide * partial.tile_bytes
    factor = 2 if p.config.enable_act_double_buffer else 1
    act, second = act * factor, second * factor
    overlap = kind is BLOCK and tile_in == tile_out and p.dtype_out is not DType.BFP8_B and not alone
    if kind is HEIGHT:
        total += (act + second) * tile_in
    else:
        total += (0 if alone else (act + second) * tile_out) + (0 if overlap else second * tile_in)
    total += block_h * block_w * tile_out
    total += wide * tile_weights if p.bias else 0
    if kind is WIDTH:
        total += 2 * block_w * tile_in
    elif kind is BLOCK and not overlap:
        total += act * tile_in
    return total + index_bytes + SCRATCH_BYTES


def _row_depthwise(plan: ConvPlan, partial: DType) -> tuple[int, int]:
    """(tiles of weights, bytes of partial sums) of a 1D depthwise convolution.

    Fitted to circular buffers of 36 configs (mock n150 and p150), then without a difference among 100 random depthwise
    convolutions: weights are as tall as a block of activations, of one tap, or of all where a core has several blocks
    to reuse them for; then there are partial sums too.
    """
    block = plan.act_block_h * plan.act_block_w
    again = plan.out_tiles[0] > plan.act_block_h and not plan.whole_windows
    summed = again or plan.untilize or partial is not plan.p.dtype_out
    sums = plan.act_block_h * plan.out_tiles[1] if summed else 0
    return block * (plan.p.window.kernel[1] if again else 1), sums * partial.tile_bytes


def _partial_dtype(plan: ConvPlan) -> DType:
    """Element type of partial sums (`determine_packer_l1_acc`)."""
    p = plan.p
    steps = p.window.kernel[0] if plan.kind is HEIGHT else 1
    if plan.weight_rows >= 0:
        steps = plan.weight_rows // plan.act_block_w
        if plan.kind is BLOCK:
            steps *= ceil_div(p.cout, TILE) // plan.out_tiles[1]
    elif plan.kind is BLOCK:
        steps = (1 if p.full_inner_dim else p.window.kernel[0]) * plan.source.channels * plan.target.channels
    elif plan.kind is WIDTH:
        steps = plan.source.cores * p.config.act_block_w_div
    if p.l1_acc and ((p.bias and steps > 1) or steps > 2):
        return DType.F32 if p.fp32 else DType.BF16
    return p.dtype_out
