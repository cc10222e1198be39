"""A convolution from DRAM to DRAM, slice by slice.

Source: tt-metal `op_slicing.cpp` (`determine_slice_config`, `run_sliced_op`) and `conv2d.cpp` (`Conv2dSliceAttr`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Refused, need
from optimizer.opmodel.analytical.device_run.session import Buffer, Session
from optimizer.opmodel.analytical.tensors import WIDTH
from optimizer.opmodel.analytical.windows import parallel
from optimizer.opmodel.analytical.windows.conv_buffers import ConvProblem, conv_buffer_bytes
from optimizer.opmodel.analytical.windows.conv_plan import alignment, auto_kind, estimate, plan_of
from optimizer.opmodel.analytical.windows.conv_run import ConvOutcome, run_in_l1
from optimizer.opmodel.analytical.windows.parallel import Parallel, Window, shard_bytes

FEW_SLICES = 32
"""With more slices than this only some are looked at."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Output rows [top, bottom) and columns [left, right), and the window over the input they need."""

    out_hw: tuple[int, int]
    window: Window
    whole: bool
    columns: int
    """Output columns before they are rounded up to tiles."""


Span = tuple[int, int, int, int]
"""Input elements along an axis, padding before and after them, extra results."""


def _cut(p: ConvProblem, size: tuple[int, int], rows: Span, columns: Span, tile: bool) -> Slice | None:
    """`get_input_slice_and_padding` of `size` output rows and columns; None: padding only."""
    w = p.window
    if rows[0] <= 0 or columns[0] <= 0:
        return None
    whole = rows[0] == w.height and columns[0] == w.width
    rest = size[1] % TILE if tile else 0
    more = TILE - rest if rest and not whole else 0  # slices are written in whole tiles
    after, extra_w = columns[2], columns[3]
    if w.transposed:
        extra_w += more
    else:
        after += more * w.stride[1]
    padding = (rows[1], rows[2], columns[1], after)
    window = Window(
        w.batch, rows[0], columns[0], w.kernel, w.stride, padding, w.dilation, w.ceil, w.transposed, (rows[3], extra_w)
    )  # fmt: skip
    return Slice((size[0], size[1] + more), window, whole, size[1])


def _span(first: int, end: int, extent: int, size: int, w: Window, axis: int) -> Span:
    """(input rows, padding before and after, extra result rows) of output rows [first, end) along an axis."""
    before, after = w.padding[2 * axis], w.padding[2 * axis + 1]
    start = first * w.stride[axis] - before
    stop = (end - 1) * w.stride[axis] - before + w.reach_hw[axis] + 1
    low, high = max(0, start), min(size, stop)
    pads = [max(0, -start), max(0, stop - size)]
    if first == 0:
        pads[0], low = before, 0
    if end == extent:
        pads[1], high = after, size
    return high - low, pads[0], pads[1], 0


def _transposed_span(first: int, end: int, extent: int, size: int, w: Window, axis: int) -> Span:
    """`_span` of a transposed convolution, whose padding shrinks the result."""
    base, step = w.reach_hw[axis], w.stride[axis]
    before, after = base - w.padding[2 * axis], base - w.padding[2 * axis + 1]
    skipped = max(0, first - before)
    stop = end - before + base
    pads = [max(0, before - first, -skipped % step), max(0, stop - extent, (stop - 1) % step if end < extent else 0)]
    low, high = max(0, ceil_div(first - before, step)), min(size, (stop - 1) // step + 1)
    extra = 0
    if first == 0:
        pads[0], low = before, 0
    if end == extent:
        pads[1], high, extra = after, size, w.output_padding[axis]
    return high - low, base - pads[0], base - pads[1], extra


def _ranges(extent: int, unit: int, count: int) -> list[tuple[int, int]]:
    """First output and end of `count` slices along an axis; of very many only those that can differ."""
    least, more = divmod(ceil_div(extent, unit), count)
    found = []
    for index in range(count) if count <= FEW_SLICES else _telling(count, more):
        start = unit * (index * least + min(index, more))
        end = min(extent, start + unit * (least + (index < more)))
        if end > start:
            found.append((start, end))
    return found


def _telling(count: int, longer: int) -> list[int]:
    """Slices that show all there are among many: those at the ends and where the longer ones stop."""
    near = FEW_SLICES // 4
    middle = range(max(0, longer - near), min(count, longer + near))
    return sorted({*range(near), *middle, *range(count - near, count)})


def _pieces(p: ConvProblem, along_height: bool, count: int, tile: bool) -> list[Slice]:
    """The slices that differ, in order."""
    w = p.window
    span = _transposed_span if w.transposed else _span
    axis = 0 if along_height else 1
    sizes, extents = (w.height, w.width), w.out_hw
    across = span(0, extents[1 - axis], extents[1 - axis], sizes[1 - axis], w, 1 - axis)
    ranges = _ranges(extents[axis], TILE if tile and not along_height else 1, count)
    different = dict.fromkeys(
        (end - start, span(start, end, extents[axis], sizes[axis], w, axis)) for start, end in ranges
    )
    if along_height:
        pieces = [_cut(p, (size, extents[1]), along, across, tile) for size, along in different]
    else:
        pieces = [_cut(p, (extents[0], size), across, along, tile) for size, along in different]
    return list(dict.fromkeys(piece for piece in pieces if piece is not None))


def _input_shards(case: Case, p: ConvProblem, piece: Slice) -> tuple[TensorMemoryLayout, Parallel, tuple[int, int]]:
    """`get_input_memory_config`: where a slice of the input goes."""
    out_nhw = p.window.batch * piece.out_hw[0] * piece.out_hw[1]
    w = piece.window
    kind = p.asked
    if kind is None:
        height, width = w.padded_hw if w.transposed else (w.height, w.width)
        inner = Window(w.batch, height, width, w.kernel, w.stride, p.window.padding, w.dilation)
        kind = auto_kind(p, case.device, out_nhw, inner)
    align = alignment(p, kind, None, sliced=w.transposed or not piece.whole)
    source = parallel.determine(kind, p.cin, out_nhw, p.cout, align, case.device, p.orientation, True)
    return kind, source, parallel.input_shard(source, w.in_nhw, p.cin, align, p.row_major)


def slice_shards(
    case: Case, p: ConvProblem, along_height: bool, count: int, tile: bool
) -> tuple[Parallel, tuple[int, int]]:
    """Cores and shards of the first slice, which the weights of all slices are prepared for."""
    _, source, shard = _input_shards(case, p, _pieces(p, along_height, count, tile)[0])
    return source, shard


def _estimate(case: Case, p: ConvProblem, along_height: bool, count: int, tile: bool) -> int:
    """`compute_L1_usage_for_slice_config`: what tt-metal expects the largest of `count` slices to take."""
    most = 0
    for piece in _pieces(p, along_height, count, tile):
        kind, source, shard = _input_shards(case, p, piece)
        if p.window.transposed:
            most = max(most, _transposed_estimate(case, p, piece, source, shard))
            continue
        found = estimate(p, kind, case.device, None, (source, shard), piece.window)
        most = max(most, found.halo_input + found.halo, found.total)
    return most


def _transposed_estimate(case: Case, p: ConvProblem, piece: Slice, source: Parallel, shard: tuple[int, int]) -> int:
    """`ConvT2DSliceAttr::get_L1_usage`."""
    target = parallel.determine_output(source, p.cout, case.device, False)
    channels = round_up(p.cin, TILE * source.channels)
    rows = channels * p.window.kernel[0] * p.window.kernel[1] // TILE
    out_nhw = p.window.batch * piece.out_hw[0] * piece.columns
    plan = plan_of(p, source, target, channels, out_nhw, case.device, weight_rows=rows)
    halo = parallel.halo_sticks(piece.window, source.nhw) * shard[1] * p.stick_element
    tall, wide = plan.out_tiles
    buffers = conv_buffer_bytes(plan, plan.worst_index_bytes if p.config_in_dram else 0)
    held = shard[0] * shard[1] * p.stick_element
    return halo + max(buffers + tall * wide * p.dtype_out.tile_bytes, held)


def _max_slices(extent: int, along_height: bool, tile: bool) -> int:
    return extent if along_height or not tile else ceil_div(extent, TILE)


def _choose_slices(case: Case, p: ConvProblem, tile: bool) -> tuple[bool, int]:
    """(along the height, count): the fewest slices that fit; first along the guessed side, then along the other."""
    w = p.window
    tall = w.width < 200 or w.height > w.width if tile else w.height > 3 * w.width
    room = case.device.l1_bank_bytes(case.l1_small_bytes)
    oh, ow = w.out_hw
    for along_height in (tall, not tall):
        for count in range(1, _max_slices(oh if along_height else ow, along_height, tile) + 1):
            if _estimate(case, p, along_height, count, tile) <= room:
                return along_height, count
    raise Refused("DRAM Auto slice could not find valid slice configuration.")


def runs_in_l1(case: Case, p: ConvProblem) -> bool:
    """Whether the convolution is one of L1, or a matmul; else it goes from DRAM to DRAM."""
    sliced = p.config.slice
    return p.matmul or sliced == "l1" or (sliced == "auto" and case.x.layout.is_l1)


def slices_of(case: Case, p: ConvProblem, tile: bool) -> tuple[bool, int]:
    """(along the height, count) of the slices from DRAM to DRAM: as the config says, or chosen."""
    if p.config.slice == "auto":
        return _choose_slices(case, p, tile)
    direction, _, number = p.config.slice.partition(":")
    return direction == "dram_height", int(number or 0)


def run_slices(session: Session, case: Case, p: ConvProblem, along_height: bool, count: int, tile: bool) -> None:
    """The programs of the slices, each from and to DRAM."""
    oh, ow = p.window.out_hw
    limit = _max_slices(oh if along_height else ow, along_height, tile)
    need(count <= limit, f"Number of slices ({count}) exceeds the maximum allowed ({limit})")
    kind = p.asked or (auto_kind(p, case.device) if count == 1 else None)
    p = replace(p, config=replace(p.config, deallocate_activation=True, reallocate_halo_output=True))
    _check_ends(p.window, along_height, count, tile)
    if count == 1:
        outer = session.enter()
        outcome = run_in_l1(session, case, p, kind, None, tile_result=True)
        session.leave(outer, [outcome.block])
        session.run()
        session.end(outcome.block)
        return
    for piece in _pieces(p, along_height, count, tile):
        kind = _run_slice(session, case, p, piece, tile)
        p = replace(p, config=replace(p.config, shard_layout=kind.value))


def _check_ends(w: Window, along_height: bool, count: int, tile: bool) -> None:
    """No slice may end in front of the image: its end, below zero, is an unsigned number in tt-metal.

    Slices that begin behind the image are left out (mock n150, of either kind).
    """
    if w.transposed or count == 1:
        return
    axis = 0 if along_height else 1
    size = (w.height, w.width)[axis]
    for _, end in _ranges(w.out_hw[axis], TILE if tile and not along_height else 1, count):
        stop = (end - 1) * w.stride[axis] - w.padding[2 * axis] + w.reach_hw[axis] + 1
        need(stop >= 0, f"Ends {stop % 2**32} must be less than or equal to the shape of the tensor {size}")


def _run_slice(session: Session, case: Case, p: ConvProblem, piece: Slice, tile: bool) -> TensorMemoryLayout:
    kind, source, shard = _input_shards(case, p, piece)
    need(p.dtype_in is not DType.BFP4_B, "Only TILE layout is supported for BFLOAT4_B dtype!")
    dtype = DType.F32 if p.dtype_in is DType.F32 else DType.BF16
    held = session.hold(shard_bytes(shard, dtype, True))
    session.run(cb=_slice_buffers(case, p, source, shard[1], dtype))
    memory = source.memory(shard)
    inner = replace(p, window=piece.window, memory=memory, row_major=True, dtype_in=dtype)
    outer = session.enter()
    outcome = run_in_l1(session, case, inner, kind, held, tile_result=True)
    session.leave(outer, [outcome.block])
    block = outcome.block
    if not tile:
        block = _untilized(session, p, outcome)
    session.run()
    session.end(block)
    if not held.freed:
        session.end(held)
    return kind


def _slice_buffers(case: Case, p: ConvProblem, source: Parallel, width: int, dtype: DType) -> int:
    """Buffers of the program that cuts a slice out of DRAM (`padded_slice`; measured on mock devices)."""
    stick = width * p.stick_element
    padding = stick if width * source.channels > p.cin else 0
    if not p.row_major:
        wide = _tiles_spanned(width, p.cin)
        return 4 * wide * (p.dtype_in.tile_bytes + dtype.tile_bytes) + stick
    step = case.device.dram_alignment_bytes
    row = p.cin * p.stick_element
    if row % step == 0 and (source.channels == 1 or stick % step == 0):
        return padding
    return padding + 2 * (round_up(row, step) + step)


def _tiles_spanned(width: int, channels: int) -> int:
    """Most tiles that a shard of `width` channels touches; it may start inside a tile."""
    starts = range(0, channels, width)
    return max(ceil_div(min(start + width, channels), TILE) - start // TILE for start in starts)


def _untilized(session: Session, p: ConvProblem, outcome: ConvOutcome) -> Buffer:
    """A slice's result in rows; width shards go through interleaved L1."""
    block = outcome.block
    if outcome.target.kind is not WIDTH:
        rows = session.hold(shard_bytes(outcome.shard, p.dtype_out, True))
        session.run()
        session.end(block)
        return rows
    tall, wide = outcome.shard[0] // TILE, ceil_div(p.cout, TILE)
    tiles = session.hold(ceil_div(tall * wide, session.device.num_cores) * p.dtype_out.tile_bytes)
    session.run()
    session.end(block)
    stick = round_up(p.cout * p.dtype_out.element_bytes, 16)
    rows = session.hold(ceil_div(outcome.shard[0], session.device.num_cores) * stick)
    session.run(cb=4 * wide * p.dtype_out.tile_bytes)
    session.end(tiles)
    return rows
