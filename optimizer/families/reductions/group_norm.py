"""Group norm over [N, 1, H*W, C].

Sources: tt-metal 0.81 `groupnorm.cpp`, `groupnorm_device_operation.cpp`, `shard_spec_validation.cpp`,
`groupnorm_program_utils.cpp` and the program factories. An interleaved operand is spread over a core grid (the
device's best when none is named); shards stay where they are and are normalised in their buffers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.layouts.group_norm import (
    GroupNormArguments,
    grid_fits,
    group_norm_arguments,
    num_out_blocks,
    virtual_columns,
)
from optimizer.layouts.memory_config import PageLayout, ShardOrientation, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape
from optimizer.opmodel.analytical.case import Case, Usage, need, need_named
from optimizer.opmodel.analytical.device_run.padding import to_layout
from optimizer.opmodel.analytical.device_run.session import Session, natural_padding
from optimizer.opmodel.analytical.device_run.tilize import tilize_with_padding
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY, WIDTH
from optimizer.opmodel.base import TensorSpec

SCALAR = 2048
"""A bf16 tile: epsilon and masks (of shards the scalers too) stay bf16 whatever the operand is."""
L1_SHARE = 95
"""Percent of the L1 that row-major input may fill before it is tilized by a program of its own."""
SMALL_BUFFERS = 32
"""Tiles that this estimate reserves for the one-tile buffers."""
FUSED_CORES = 32
"""Row-major input is tilized inside the program only with more cores than this."""


@dataclass(frozen=True, slots=True)
class Scales:
    """Operands beside x: the graph's (weight, bias) or the call's (input_mask, weight, bias)."""

    mask: TensorSpec | None
    weight: TensorSpec | None
    bias: TensorSpec | None

    @property
    def affine_tiles(self) -> int:
        """Bytes of weight and bias per tile of channels."""
        return sum(4096 if t.dtype is DType.F32 else 2048 for t in (self.weight, self.bias) if t is not None)

    @property
    def mask_tile(self) -> int:
        return SCALAR if self.mask is None else self.mask.dtype.tile_bytes


def group_norm(case: Case) -> Usage:
    x, attrs = case.x, case.attrs
    groups = int(attrs.get("num_groups") or attrs.get("groups") or 1)
    page = PageLayout(str(attrs.get("output_layout") or x.layout.page_layout))
    inplace = bool(attrs.get("inplace"))
    need(
        not (inplace and x.layout.is_tile), "In-place operation not supported: Tile layout requires non-inplace tensors"
    )
    need(not inplace or page is x.layout.page_layout, "In-place operation not allowed: layouts differ")
    need(x.layout.memory_layout is not WIDTH, "Input tensor cannot be width-sharded.")
    need(len(x.shape) == 4 and x.shape[1] == 1, "input tensor must be [N, 1, H*W, C]")
    padded = _padded(x)
    need(x.shape[-1] % groups == 0 and padded[-1] % groups == 0, "channel must be divisible by num_groups!")
    need(padded[2] % TILE == 0, f"H*W ({padded[2]}) must be a multiple of the tile height ({TILE})")
    need(x.dtype in (DType.BF16, DType.F32), "Input tensor must be BFLOAT16 or FLOAT32")
    scales = _scales(case, groups)
    if x.layout.is_sharded:
        return _sharded(case, groups, page, inplace, scales)
    return _interleaved(case, groups, page, inplace, scales)


def _scales(case: Case, groups: int) -> Scales:
    rest = list(case.inputs[1:])
    mask = None
    if rest and len(rest[0].shape) == 4 and rest[0].layout.is_tile and rest[0].shape[1] in (groups, 2 * groups):
        mask = rest.pop(0)
    weight, bias = [*rest, None, None][:2]
    for scale in (weight, bias):
        if scale is not None and len(scale.shape) == 4:  # prepared by the caller, not a graph's vector
            need(not scale.layout.is_tile, "Gamma tensor must have ROW_MAJOR layout")
            need(scale.shape[-1] == TILE, f"Gamma tensor inner dimension must equal tile width ({TILE})")
    return Scales(mask, weight, bias)


def _padded(x: TensorSpec) -> tuple[int, ...]:
    return natural_padding(x.shape, x.layout.page_layout, x.layout.memory)


def _span(width: int, group: int) -> int:
    """Most tiles that one group of channels touches (`find_max_tile_span`)."""
    return max(((at + group - 1) // TILE) - at // TILE + 1 for at in range(0, width, group))


# -- interleaved ------------------------------------------------------------------------------------------
def _interleaved(case: Case, groups: int, page: PageLayout, inplace: bool, scales: Scales) -> Usage:
    x = case.x
    rows = PageLayout.ROW_MAJOR
    tiled = x.layout.is_tile and page is PageLayout.TILE
    need(
        tiled or case.device.arch == "wormhole_b0", "group_norm: interleaved (non-sharded) input must be in TILE layout"
    )
    need(not inplace, "inplace groupnorm not supported for unsharded tensors")
    chosen = _grid(case, groups)
    memory = DRAM_MEMORY if case.output is None else case.output
    need_named(memory)
    shape = padded_shape(x.shape, PageLayout.TILE)
    work = _block(shape, groups, chosen)
    fused = x.layout.page_layout is rows and _stays_row_major(case, chosen, work, page, scales)
    on_host = page is rows and not _fits(case, work, fused, True, scales)
    session = Session(case)
    held = session.inputs[0]
    if not x.layout.is_tile and not fused:
        held = tilize_with_padding(session, held)
    out = session.make(x.shape, x.dtype, PageLayout.TILE if on_host else page, memory)
    untilize = page is rows and not on_host
    session.run(cb=_interleaved_buffers(x, work, groups, fused, untilize, scales))
    if on_host:
        out = to_layout(session, out, page)
    return replace(session.usage(out), cores=chosen.virtual_columns * chosen.virtual_rows)


def _grid(case: Case, groups: int) -> GroupNormArguments:
    """The core grid named, checked, or the device's best."""
    x, attrs = case.x, case.attrs
    shape = padded_shape(x.shape, PageLayout.TILE)
    given, blocks = attrs.get("core_grid"), attrs.get("num_out_blocks")
    if given is None:
        need(blocks is None, "num_out_blocks cannot be specified when core_grid is auto-selected")
        best = group_norm_arguments(x.shape, groups, case.device.grid_yx)
        if best is None:
            need(False, "group_norm: Could not determine a valid DRAM core grid")
        assert best is not None
        return best
    columns, rows = int(given[0]), int(given[1])
    device = case.device.grid_yx
    need(rows <= device[0] and columns <= device[1], "group_norm: core_grid exceeds the device grid")
    tall = prod(shape[:-1]) // TILE
    fits = grid_fits(rows, columns, groups, shape[-1], tall, shape[0])
    need(fits, f"group_norm: Requested core_grid (x={columns}, y={rows}) is invalid for the input dimensions")
    parts = virtual_columns(columns, groups, shape[-1])
    count = 1 if blocks is None else int(blocks)
    if count == -1:
        count = num_out_blocks(prod(shape[1:]), columns // parts * parts * rows)
    return GroupNormArguments((rows, columns), parts, count)


@dataclass(frozen=True, slots=True)
class _Block:
    """Tiles per core: rows of one batch, in `blocks` parts, by the columns of one group."""

    height: int
    blocks: int
    span: int
    columns: int
    """Tiles of channels per core."""

    @property
    def tiles(self) -> int:
        return self.height // self.blocks * self.span

    @property
    def resident(self) -> int:
        """Tiles of a whole group, its last part padded to a full one (`groupnorm_tilized_group_tiles`)."""
        part = self.height // self.blocks
        count = self.blocks
        left = self.height - count * part
        if left:
            count += left // part + 1
        return count * part * self.span


def _block(shape: tuple[int, ...], groups: int, chosen: GroupNormArguments) -> _Block:
    batches, channels = shape[0], shape[-1]
    tall = prod(shape[:-1]) // TILE
    down = chosen.virtual_rows
    height = tall // down // max(1, batches // down)
    if batches > down and batches % down:
        height = tall // batches
    wide = channels // chosen.virtual_columns
    need(0 < chosen.num_out_blocks <= height, f"num_out_blocks must be in [1, block_h ({height})]")
    return _Block(height, chosen.num_out_blocks, _span(wide, channels // groups), wide // TILE)


def _fits(case: Case, work: _Block, tilize: bool, untilize: bool, scales: Scales) -> bool:
    """tt-metal's estimate whether row-major input or output can be handled inside the program."""
    tile = case.x.dtype.tile_bytes
    size = (7 * work.tiles + SMALL_BUFFERS + 2 * work.span) * tile
    size += (work.resident * tile if tilize else 0) + (2 * work.tiles * tile if untilize else 0)
    size += sum(work.columns * tile for t in (scales.weight, scales.bias) if t is not None)
    return size * 100 <= case.device.cb_limit_bytes * L1_SHARE


def _stays_row_major(case: Case, chosen: GroupNormArguments, work: _Block, page: PageLayout, scales: Scales) -> bool:
    batches, down = case.x.shape[0], chosen.virtual_rows
    uneven = batches >= down and batches % down != 0
    if chosen.virtual_columns * down <= FUSED_CORES or uneven:
        return False
    return _fits(case, work, True, page is PageLayout.ROW_MAJOR, scales)


def _interleaved_buffers(x: TensorSpec, work: _Block, groups: int, fused: bool, untilize: bool, scales: Scales) -> int:
    """Seven part-sized buffers (nine with row-major output), scalers, masks, partial and global statistics.

    Row-major output of groups that touch more tiles than they fill goes out one row of tiles at a time
    (measured on mock devices).
    """
    tile = x.dtype.tile_bytes
    straddling = work.span > ceil_div(x.shape[-1] // groups, TILE)
    part = work.span if untilize and straddling else work.tiles
    size = (9 if untilize else 7) * part * tile
    size += work.resident * tile if fused else 0
    size += SCALAR + 8 * tile
    size += work.columns * scales.affine_tiles
    size += 2 * work.span * SCALAR if _has_part_rows(x) else 0
    return size + 2 * work.span * scales.mask_tile


def _has_part_rows(x: TensorSpec) -> bool:
    """Whether the last tile of an image's rows is partly padding, which is masked (measured on mock devices)."""
    return x.layout.is_tile and x.shape[-2] % TILE != 0


# -- sharded ----------------------------------------------------------------------------------------------
def _sharded(case: Case, groups: int, page: PageLayout, inplace: bool, scales: Scales) -> Usage:
    x = case.x
    spec = x.layout.shard_spec
    assert spec is not None
    _check_shards(case, spec, groups)
    need(x.layout.is_l1, "Only L1 buffers can have an associated circular buffer!")
    memory = DRAM_MEMORY if case.output is None else case.output
    if inplace:
        memory = x.layout.memory
    need_named(memory)
    out = case.result(x.shape, x.dtype, memory, page)
    need(out.layout.is_l1, "Only L1 buffers can have an associated circular buffer!")
    deep, wide = spec.shape[0] // TILE, ceil_div(spec.shape[1], TILE)
    tile = x.dtype.tile_bytes
    partial = spec.shape[1] % TILE != 0
    if not inplace and not partial:
        fits = deep * wide * tile <= case.l1(out)
        need(fits, "Cannot set circular buffer size larger than the associated dynamically allocated L1 buffer")
    size = _shard_buffers(x, spec, groups, partial, scales)
    allocated = 0 if inplace else case.l1(out)
    size += _copies(case, deep * wide * tile, size, allocated, page)
    return Usage((out,), cb=size, l1=allocated, cores=spec.num_cores)


def _shard_buffers(x: TensorSpec, spec: ShardSpec, groups: int, partial: bool, scales: Scales) -> int:
    """All circular buffers but the tilized copies of the shard (`compute_sharded_gn_static_cb_sizes`)."""
    tile = x.dtype.tile_bytes
    deep, wide = spec.shape[0] // TILE, ceil_div(spec.shape[1], TILE)
    batches = x.shape[0]
    shards = prod(_padded(x)[:-1]) // spec.shape[0]
    per_core = max(1, batches // shards)
    span = _span(spec.shape[1], _padded(x)[-1] // groups)
    size = 4 * SCALAR + 2 * span * scales.mask_tile + wide * scales.affine_tiles
    size += deep // per_core * span * tile + 4 * tile
    size += (span + 1) * SCALAR if _has_part_rows(x) else 0
    return size + (2 * wide * tile if partial else 0)


def _copies(case: Case, shard: int, others: int, allocated: int, page: PageLayout) -> int:
    """The tilized shard; with row-major output a second copy, or negative masks when that copy has no room."""
    x = case.x
    if page is not PageLayout.ROW_MAJOR:
        return shard
    free = case.device.l1_bank_bytes(case.l1_small_bytes) - sum(case.l1(t) for t in case.inputs) - allocated
    spec = x.layout.shard_spec
    assert spec is not None
    if x.layout.is_tile or free <= 0 or 2 * shard + others <= free:
        return 2 * shard
    groups = int(case.attrs.get("num_groups") or case.attrs.get("groups") or 1)
    return shard + 2 * _span(spec.shape[1], _padded(x)[-1] // groups) * SCALAR


def _check_shards(case: Case, spec: ShardSpec, groups: int) -> None:
    x, attrs = case.x, case.attrs
    down, across = spec.bounding_box_yx
    need(spec.num_cores == down * across, "Sharded groupnorm does not support non-rectangular core grids.")
    given: Any = attrs.get("core_grid")
    if given is not None:
        device = case.device.grid_yx
        contained = int(given[1]) <= device[0] and int(given[0]) <= device[1]
        need(contained, "program_config grid must be contained within device grid")
        same = (int(given[1]), int(given[0])) == (down, across)
        need(same, f"program_config grid must match shard grid dimensions ({across}x{down})")
    height, width = spec.shape
    padded = _padded(x)
    rows, channels, batches = prod(padded[:-1]), padded[-1], padded[0]
    need(height % TILE == 0, f"shard height {height} must be divisible by tile height {TILE}")
    tall, wide = ceil_div(rows, height), ceil_div(channels, width)
    count = f"Shard layout requires {tall}x{wide} shards but shard grid has {spec.num_cores} cores"
    need(tall * wide == spec.num_cores, count)
    need(width % (channels // groups) == 0, f"per_core_N ({width}) must be divisible by num_datum_row_per_group")
    need(rows % height == 0 and channels % width == 0, "tensor must be divisible by its shards")
    need(batches % tall == 0 if batches >= tall else tall % batches == 0, "num_batches must be divisible by shard rows")
    need(groups % wide == 0 if groups >= wide else wide % groups == 0, "num_groups must be divisible by shard columns")
    if width == channels:
        divides = batches // tall > 1 or spec.num_cores % batches == 0
        need(divides, "number of cores must be divisible by num_batches")
        return
    row_wise = spec.orientation is ShardOrientation.ROW_MAJOR
    need((tall, wide) == ((down, across) if row_wise else (across, down)), "shards must fill the grid")
    if groups // wide <= 1:
        need(wide % groups == 0, "when each group is split across cores, num_cores must be divisible by num_groups")
