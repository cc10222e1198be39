"""A convolution in L1, program by program.

Source: tt-metal `conv2d.cpp` (`conv2d_L1`), `conv2d_utils.cpp` (`shard_or_reshard_tensor_if_required`); the order of
allocations checked against recorded programs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.ir.dtype import DType
from optimizer.ir.vocabulary import CONVERT
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Refused, need
from optimizer.opmodel.analytical.derive import first_cores
from optimizer.opmodel.analytical.device_run.session import Buffer, Session
from optimizer.opmodel.analytical.generic import family
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, WIDTH, row_scratch
from optimizer.opmodel.analytical.windows import parallel
from optimizer.opmodel.analytical.windows.conv_buffers import ConvPlan, ConvProblem, conv_buffer_bytes, reader_rows
from optimizer.opmodel.analytical.windows.conv_plan import (
    alignment,
    check_source,
    keeps_shards,
    plan_of,
    resharded,
)
from optimizer.opmodel.analytical.windows.halo import ALIGNMENT, check_small, reader_index_bytes, run_halo, run_indexed
from optimizer.opmodel.analytical.windows.parallel import Parallel, shard_bytes
from optimizer.opmodel.base import OpQuery, Rejection, TensorSpec

MOST_PAGES = 65535
"""Pages of a circular buffer, which counts them in 16 bits; the haloed input has one a stick."""


@dataclass(frozen=True, slots=True)
class ConvOutcome:
    """Where a convolution in L1 leaves its result."""

    target: Parallel
    shard: tuple[int, int]
    block: Buffer


def run_in_l1(
    session: Session,
    case: Case,
    p: ConvProblem,
    kind: TensorMemoryLayout | None,
    given: Buffer | None,
    tile_result: bool = False,
) -> ConvOutcome:
    """`conv2d_L1`: everything up to the result where the convolution leaves it; `given`: the input, if it is in L1.

    What it makes on the way and does not free is there until the caller leaves.
    """
    held = given if given is None or p.folded else flatten(session, case, p, given)
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
        held, row_major = _spread(session, p, source, shard, held)
    target = parallel.determine_output(source, p.cout, case.device, p.matmul)
    check_source(p, source, target, keeps, case.device)
    if p.matmul and source.kind is HEIGHT:
        width = max(r[2] for r in source.ranges) + 1
        target = replace(target, ranges=first_cores(target.cores, (0, width)))
    channels = round_up(p.cin, source.channels * alignment(p, source.kind, shard[1]))
    plan = plan_of(p, source, target, channels, p.window.out_nhw, case.device, tile_result)
    if p.matmul:
        return ConvOutcome(target, plan.out_shard, _matmul(session, p, plan, shard, row_major, held))
    return ConvOutcome(target, plan.out_shard, _convolve(session, p, plan, shard, held))


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


def _spread(
    session: Session, p: ConvProblem, source: Parallel, shard: tuple[int, int], held: Buffer | None
) -> tuple[Buffer, bool]:
    """The input goes into shards of its own; whether it is row-major then."""
    row_major = p.row_major
    drop = p.config.deallocate_activation
    if p.matmul and row_major and source.kind is not HEIGHT:
        held = _tilize_first(session, p, held)
        row_major = False
    moved = session.hold(shard_bytes(shard, p.dtype_in, row_major))
    scratch = 0
    if row_major and not p.memory.is_sharded:
        scratch = row_scratch(shard[1] * p.dtype_in.element_bytes, session.device)
    session.run(scratch=scratch)
    if held is not None and (session.made(held) or drop):
        session.end(held)
        if drop:
            moved = session.move(moved)
    return moved, row_major


def flatten(session: Session, case: Case, p: ConvProblem, given: Buffer) -> Buffer:
    """[N, H, W, C] tiles whose rows of pixels are padded are copied to [1, 1, N*H*W, C] (`reshape`)."""
    x = case.x
    if p.row_major or p.memory.is_sharded or x.shape[1] == 1 or p.window.width % TILE == 0:
        return given
    flat = TensorSpec((1, 1, p.window.in_nhw, p.cin), x.dtype, x.layout)
    if not x.dtype.is_block_float:
        held = session.hold(case.l1(flat))
        session.run(dfb=4096, scratch=2048)
        return held
    wide = session.hold(case.l1(TensorSpec(x.shape, DType.BF16, x.layout)))
    session.run(dfb=6272)
    narrow = session.hold(case.l1(TensorSpec(flat.shape, DType.BF16, x.layout)))
    session.run(dfb=4096, scratch=2048)
    held = session.hold(case.l1(flat))
    session.run(dfb=6272)
    session.end(narrow)
    session.end(wide)
    return held


def _tilize_first(session: Session, p: ConvProblem, held: Buffer | None) -> Buffer | None:
    """A row-major input of a matmul is tilized where it is (DRAM or L1) before it is sharded."""
    if held is None:
        session.run(dfb=tilize_buffers(session, p, DRAM_MEMORY))
        return None
    spec = p.memory.shard_spec
    if spec is not None:
        tiled = session.hold(shard_bytes(spec.shape, p.dtype_in, False))
        session.run()
    else:
        tiles = ceil_div(p.window.in_nhw, TILE) * ceil_div(p.cin, TILE)
        tiled = session.hold(ceil_div(tiles, session.device.num_cores) * p.dtype_in.tile_bytes)
        session.run(dfb=tilize_buffers(session, p, p.memory))
    if p.config.deallocate_activation:
        session.end(held)
        tiled = session.move(tiled)
    return tiled


def tilize_buffers(session: Session, p: ConvProblem, memory: MemoryConfig) -> int:
    """Buffers of the `to_layout` that tilizes an interleaved input for a matmul."""
    rows = TensorSpec((1, 1, p.window.in_nhw, p.cin), p.dtype_in, TensorLayout(PageLayout.ROW_MAJOR, memory))
    attrs = {"layout": PageLayout.TILE.value}
    query = OpQuery(CONVERT, (rows,), tuple(attrs.items()))
    return family(query.op)(Case(query, session.device, attrs, session.small_bytes)).cb


def _convolve(session: Session, p: ConvProblem, plan: ConvPlan, shard: tuple[int, int], held: Buffer | None) -> Buffer:
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
    _check_room(session, size + out_size, buffers)
    if halo:
        held = _halo(session, p, plan.source, shard, held)
    result = session.hold(out_size)
    first, second = reader_rows(plan)
    index = reader_index_bytes(p.window, plan.source.nhw, first, second)
    worst = plan.worst_index_bytes
    need(index <= worst, f"Reader indices buffer page size {index} exceeds worst-case CB size {worst}")
    run_indexed(session, buffers, index, round_up(index, ALIGNMENT), p.config_in_dram)
    if p.window.transposed and held is not None:
        session.end(held)
    check_small(session)
    return result


def _check_room(session: Session, tensors: int, buffers: int) -> None:
    """Refuses early what cannot fit: the haloed input and the result, and the buffers beside them."""
    bank = session.device.l1_bank_bytes(session.small_bytes)
    if buffers > session.device.cb_limit_bytes:
        raise Refused(f"Statically allocated circular buffers need {buffers} B", Rejection.CB_TOO_BIG)
    if tensors > bank:
        raise Refused(f"Out of Memory: {tensors} B of tensors exceed {bank} B per bank", Rejection.OOM_L1)
    if tensors + buffers > bank:
        text = f"Statically allocated circular buffers ({buffers} B) clash with L1 buffers ({tensors} B)"
        raise Refused(text, Rejection.CB_CLASH)


def _halo(session: Session, p: ConvProblem, source: Parallel, shard: tuple[int, int], held: Buffer | None) -> Buffer:
    """The halo takes the place of the input."""
    halo = run_halo(session, p.window, source, shard, p.stick_element, not p.row_major, index_in_dram=p.config_in_dram)
    own = held is not None and session.made(held) and not p.window.transposed
    if held is not None and (own or p.config.deallocate_activation):
        session.end(held)
    return session.move(halo) if p.config.reallocate_halo_output else halo


def _matmul(
    session: Session, p: ConvProblem, plan: ConvPlan, shard: tuple[int, int], row_major: bool, held: Buffer | None
) -> Buffer:
    """A 1x1 convolution: tilize if needed, then a matmul in the convolution's blocking."""
    drop = p.config.deallocate_activation
    if row_major:
        size = shard_bytes(shard, p.dtype_in, False)
        padded = None
        if p.memory.is_sharded and p.window.in_nhw % TILE:
            padded = session.hold(size)  # shards are padded before they are tilized
            session.run(dfb=shard[1] * p.dtype_in.element_bytes)
        tiled = session.hold(size)
        whole_rows = 0 if plan.kind is HEIGHT else 2 * ceil_div(p.cin, TILE) * p.dtype_in.tile_bytes
        session.run(dfb=whole_rows)
        if padded is not None:
            session.end(padded)
        if held is not None and (session.made(held) or drop):
            session.end(held)
        held = tiled
    result = session.hold(shard_bytes(plan.out_shard, p.dtype_out, False))
    session.run(dfb=_matmul_buffers(p, plan))
    if held is not None and drop and p.memory.buffer_type is not BufferType.DRAM:
        session.end(held)
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
