"""A convolution in L1, program by program.

Source: tt-metal `conv2d.cpp` (`conv2d_L1`), `conv2d_utils.cpp` (`shard_or_reshard_tensor_if_required`),
`untilize_with_halo_program_factory.cpp`; the order of allocations checked against recorded programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Refused, need
from optimizer.opmodel.analytical.derive import first_cores
from optimizer.opmodel.analytical.ops.movement import FAMILIES
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, WIDTH, row_scratch
from optimizer.opmodel.analytical.windows import parallel
from optimizer.opmodel.analytical.windows.arena import Arena, Block
from optimizer.opmodel.analytical.windows.conv_buffers import ConvPlan, ConvProblem, conv_buffer_bytes, reader_rows
from optimizer.opmodel.analytical.windows.conv_plan import (
    alignment,
    check_source,
    keeps_shards,
    plan_of,
    resharded,
    shard_bytes,
)
from optimizer.opmodel.analytical.windows.halo import ALIGNMENT, halo_config, reader_index_bytes
from optimizer.opmodel.analytical.windows.parallel import COL, Parallel
from optimizer.opmodel.base import OpQuery, Rejection, TensorSpec

MOST_PAGES = 65535
"""Pages of a circular buffer, which counts them in 16 bits; the haloed input has one a stick."""


@dataclass(slots=True)
class ConvOutcome:
    """Where a convolution in L1 leaves its result."""

    target: Parallel
    shard: tuple[int, int]
    block: Block
    held: list[Block]
    """What the convolution read and made itself; it goes when the call returns."""

    def close(self, arena: Arena) -> None:
        """The call returns."""
        for block in self.held:
            arena.free(block)
        self.held = []


@dataclass(slots=True)
class Held:
    """The input as it is at some point: its L1 block (None in DRAM) and whether the op made it itself."""

    block: Block | None
    own: bool
    older: list[Block]
    """What it was before, where that stays until the end of the call."""


def run_in_l1(
    case: Case,
    p: ConvProblem,
    kind: TensorMemoryLayout | None,
    arena: Arena,
    given: Block | None,
    tile_result: bool = False,
) -> ConvOutcome:
    """`conv2d_L1`: everything up to the result where the convolution leaves it; `given`: the input's L1 block."""
    held = Held(given, False, [])
    if given is not None and not p.folded:
        flatten(case, p, arena, held)
    keeps = keeps_shards(p, kind, case.device)
    row_major = p.row_major
    if keeps:
        assert p.memory.shard_spec is not None
        source, shard = parallel.of_memory(p.memory), p.memory.shard_spec.shape
        _check_depthwise(p, source)
        _check_pointwise(p, source, shard)
    else:
        source, shard = resharded(p, kind, case.device)
        _check_depthwise(p, source)
        row_major = _spread(case, p, source, shard, arena, held)
    target = parallel.determine_output(source, p.cout, case.device, p.matmul)
    check_source(p, source, target, keeps, case.device)
    if p.matmul and source.kind is HEIGHT:
        width = max(r[2] for r in source.ranges) + 1
        target = replace(target, ranges=first_cores(target.cores, (0, width)))
    channels = round_up(p.cin, source.channels * alignment(p, source.kind, shard[1]))
    plan = plan_of(p, source, target, channels, p.window.out_nhw, case.device, tile_result)
    if p.matmul:
        block = _matmul(p, plan, shard, row_major, arena, held)
    else:
        block = _convolve(case, p, plan, shard, arena, held)
    arena.check_small(case.l1_small_bytes)
    rest = [held.block] if held.own and held.block is not None else []
    return ConvOutcome(target, plan.out_shard, block, held.older + rest)


def _check_pointwise(p: ConvProblem, source: Parallel, shard: tuple[int, int]) -> None:
    """A product of height shards takes an equal part of the rows for each core, also of those without a shard."""
    if p.matmul and source.kind is HEIGHT:
        tall = ceil_div(ceil_div(p.window.out_nhw, TILE), source.cores)
        need(
            tall * TILE == shard[0],
            f"per_core_M ({tall}) must equal shard_shape[0] ({shard[0]}) / in0_tile height ({TILE})",
        )


def _check_depthwise(p: ConvProblem, source: Parallel) -> None:
    """The weights of a 1D depthwise convolution lie in a matrix of another height than width shards multiply with.

    `convert_conv_weight_tensor_to_depthwise_layout` of tt-metal. Asked of tt-metal 0.81 (mock n150 and p150): refused
    with kernels of 2, 3, 5, 7, 16 and 31; taken with one of 1.
    """
    taken = source.kind is not WIDTH or p.window.kernel[1] == 1 or not p.is_row_depthwise(p.window)
    need(
        taken, "The width of tensor a needs to match the height of tensor b (1D depthwise convolution in width shards)"
    )


def _spread(case: Case, p: ConvProblem, source: Parallel, shard: tuple[int, int], arena: Arena, held: Held) -> bool:
    """The input goes into shards of its own; whether it is row-major then."""
    row_major = p.row_major
    drop = p.config.deallocate_activation
    if p.matmul and row_major and source.kind is not HEIGHT:
        _tilize_first(case, p, arena, held)
        row_major = False
    moved = arena.allocate(shard_bytes(shard, p.dtype_in, row_major))
    scratch = 0
    if row_major and not p.memory.is_sharded:
        scratch = row_scratch(shard[1] * p.dtype_in.element_bytes, case.device)
    arena.run(0, dataflow=True, scratch=scratch)
    if held.block is not None and (held.own or drop):
        arena.free(held.block)
        if drop:
            moved = arena.move(moved)
    held.block, held.own = moved, True
    return row_major


def flatten(case: Case, p: ConvProblem, arena: Arena, held: Held) -> None:
    """[N, H, W, C] tiles whose rows of pixels are padded are copied to [1, 1, N*H*W, C] (`reshape`)."""
    x = case.x
    if p.row_major or p.memory.is_sharded or x.shape[1] == 1 or p.window.width % TILE == 0:
        return
    flat = TensorSpec((1, 1, p.window.in_nhw, p.cin), x.dtype, x.layout)
    if not x.dtype.is_block_float:
        held.block, held.own = arena.allocate(case.l1(flat)), True
        arena.run(4096, dataflow=True, scratch=2048)
        return
    wide = arena.allocate(case.l1(TensorSpec(x.shape, DType.BF16, x.layout)))
    arena.run(6272, dataflow=True)
    narrow = arena.allocate(case.l1(TensorSpec(flat.shape, DType.BF16, x.layout)))
    arena.run(4096, dataflow=True, scratch=2048)
    held.block, held.own = arena.allocate(case.l1(flat)), True
    arena.run(6272, dataflow=True)
    arena.free(narrow)
    arena.free(wide)


def _tilize_first(case: Case, p: ConvProblem, arena: Arena, held: Held) -> None:
    """A row-major input of a matmul is tilized where it is (DRAM or L1) before it is sharded."""
    if held.block is None:
        arena.run(tilize_buffers(case, p, DRAM_MEMORY), dataflow=True)
        return
    spec = p.memory.shard_spec
    if spec is not None:
        tiled = arena.allocate(shard_bytes(spec.shape, p.dtype_in, False))
        arena.run(0, dataflow=True)
    else:
        tiles = ceil_div(p.window.in_nhw, TILE) * ceil_div(p.cin, TILE)
        tiled = arena.allocate(ceil_div(tiles, case.device.num_cores) * p.dtype_in.tile_bytes)
        arena.run(tilize_buffers(case, p, p.memory), dataflow=True)
    if p.config.deallocate_activation:
        arena.free(held.block)
        tiled = arena.move(tiled)
    held.block, held.own = tiled, True


def tilize_buffers(case: Case, p: ConvProblem, memory: MemoryConfig) -> int:
    """Buffers of the `to_layout` that tilizes an interleaved input for a matmul."""
    rows = TensorSpec((1, 1, p.window.in_nhw, p.cin), p.dtype_in, TensorLayout(PageLayout.ROW_MAJOR, memory))
    attrs = {"layout": PageLayout.TILE.value}
    query = OpQuery("ttnn.to_layout", (rows,), tuple(attrs.items()))
    return FAMILIES[query.op](Case(query, case.device, attrs, case.l1_small_bytes)).cb


def _convolve(case: Case, p: ConvProblem, plan: ConvPlan, shard: tuple[int, int], arena: Arena, held: Held) -> Block:
    tall = plan.out_tiles[0]
    need(tall % plan.act_block_h == 0, f"act_matrix_height_ntiles {tall} should be divisible by act_block_h_ntiles")
    if plan.untilize:
        need(p.dtype_out in (DType.BF16, DType.F32), "Only TILE layout is supported for BFLOAT8_B dtype!")
    halo = plan.kind is not WIDTH or not p.row_major or any(p.window.padding) or p.window.transposed
    stick = round_up(shard[1] * p.stick_element, ALIGNMENT)
    sticks = parallel.halo_sticks(p.window, plan.source.nhw) if halo else 0
    need(sticks <= MOST_PAGES, f"For buffer index 1, number of CB pages {sticks} is greater than {MOST_PAGES}.")
    size = sticks * stick
    out_size = shard_bytes(plan.out_shard, p.dtype_out, plan.untilize)
    buffers = conv_buffer_bytes(plan, alone=plan.alone)
    _check_room(case, size + out_size, buffers)
    if halo:
        _halo(p, plan, shard, size, arena, held)
    result = arena.allocate(out_size)
    first, second = reader_rows(plan)
    index = reader_index_bytes(p.window, plan.source.nhw, first, second)
    worst = plan.worst_index_bytes
    need(index <= worst, f"Reader indices buffer page size {index} exceeds worst-case CB size {worst}")
    if p.config_in_dram:
        arena.run(buffers + index)
    else:
        arena.allocate_small(round_up(index, ALIGNMENT))
        arena.run(buffers)
        arena.free_small(round_up(index, ALIGNMENT))
    if p.window.transposed and held.block is not None:
        arena.free(held.block)
        held.block = None
    return result


def _check_room(case: Case, tensors: int, buffers: int) -> None:
    """Refuses early what cannot fit: the haloed input and the result, and the buffers beside them."""
    bank = case.device.l1_bank_bytes(case.l1_small_bytes)
    if buffers > case.device.cb_limit_bytes:
        raise Refused(f"Statically allocated circular buffers need {buffers} B", Rejection.CB_TOO_BIG)
    if tensors > bank:
        raise Refused(f"Out of Memory: {tensors} B of tensors exceed {bank} B per bank", Rejection.OOM_L1)
    if tensors + buffers > bank:
        text = f"Statically allocated circular buffers ({buffers} B) clash with L1 buffers ({tensors} B)"
        raise Refused(text, Rejection.CB_CLASH)


def _halo(p: ConvProblem, plan: ConvPlan, shard: tuple[int, int], size: int, arena: Arena, held: Held) -> None:
    """Every core fetches the input rows around its own; tiles are untilized on the way."""
    source = plan.source
    stick = round_up(shard[1] * p.stick_element, ALIGNMENT)
    halo = arena.allocate(size)
    columns = max(r[2] for r in source.ranges) + 1
    by_column = source.kind is BLOCK and source.orientation is not COL
    if source.kind is BLOCK and not by_column:
        columns = source.nhw
    index = halo_config(p.window, source.nhw, shard[0], not p.row_major, columns, by_column)
    buffers = 2 * stick
    if not p.row_major:
        buffers += 4 * ceil_div(shard[1], TILE) * (4096 if p.dtype_in is DType.F32 else 2048)
    if p.config_in_dram:
        arena.run(buffers + sum(index))
    else:
        arena.allocate_small(index.allocated)
        arena.run(buffers)
        arena.free_small(index.allocated)
    if held.block is not None and p.config.deallocate_activation:
        arena.free(held.block)
    elif held.block is not None and held.own:
        if p.window.transposed:
            held.older.append(held.block)
        else:
            arena.free(held.block)
    if p.config.reallocate_halo_output:
        halo = arena.move(halo)
    held.block, held.own = halo, True


def _matmul(p: ConvProblem, plan: ConvPlan, shard: tuple[int, int], row_major: bool, arena: Arena, held: Held) -> Block:
    """A 1x1 convolution: tilize if needed, then a matmul in the convolution's blocking."""
    drop = p.config.deallocate_activation
    if row_major:
        size = shard_bytes(shard, p.dtype_in, False)
        padded = None
        if p.memory.is_sharded and p.window.in_nhw % TILE:
            padded = arena.allocate(size)  # shards are padded before they are tilized
            arena.run(shard[1] * p.dtype_in.element_bytes, dataflow=True)
        tiled = arena.allocate(size)
        whole_rows = 0 if plan.kind is HEIGHT else 2 * ceil_div(p.cin, TILE) * p.dtype_in.tile_bytes
        arena.run(whole_rows, dataflow=True)
        if padded is not None:
            arena.free(padded)
        if held.block is not None and (held.own or drop):
            arena.free(held.block)
        held.block, held.own = tiled, True
    result = arena.allocate(shard_bytes(plan.out_shard, p.dtype_out, False))
    arena.run(_matmul_buffers(p, plan), dataflow=True)
    if held.block is not None and drop and p.memory.buffer_type is not BufferType.DRAM:
        arena.free(held.block)
        held.block = None
    return result


def _matmul_buffers(p: ConvProblem, plan: ConvPlan) -> int:
    """Buffers of the matmul: weights and, in block shards, the input come block by block."""
    block_w = plan.act_block_w
    tall, wide = plan.out_tiles
    steps = max(1, ceil_div(plan.in_channels_padded, TILE) // max(1, block_w))
    depth = 2 if steps > 1 else 1
    size = depth * block_w * wide * p.dtype_weights.tile_bytes
    if plan.kind is BLOCK:
        size += depth * tall * block_w * p.dtype_in.tile_bytes
    if p.bias:
        size += wide * p.dtype_weights.tile_bytes
    gathers = p.l1_acc and (steps > 2 or (p.bias and steps > 1))
    partial = DType.F32 if p.fp32 else DType.BF16 if gathers else p.dtype_out
    if partial is not p.dtype_out:
        size += tall * wide * partial.tile_bytes
    return size
