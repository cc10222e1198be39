"""Max and average pooling over [1, 1, N*H*W, C].

Source: tt-metal `generic_pools.cpp`, `pool_utils.cpp`: the input is sharded if it is not, haloed, pooled; a DRAM
input that does not fit at once is pooled slice by slice into DRAM.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from optimizer.families.windows.faults import writes_beyond
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import PageLayout, ShardOrientation, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import FACE, TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Refused, Usage, need
from optimizer.opmodel.analytical.derive import named_shards
from optimizer.opmodel.analytical.device_run.session import Buffer, Session
from optimizer.opmodel.analytical.tensors import BLOCK, DRAM_MEMORY, HEIGHT, WIDTH, row_scratch
from optimizer.opmodel.analytical.windows import parallel
from optimizer.opmodel.analytical.windows.halo import check_small, reader_index_bytes, run_halo
from optimizer.opmodel.analytical.windows.parallel import ROW, Parallel, Window, shard_bytes
from optimizer.opmodel.base import TensorSpec


@dataclass(frozen=True, slots=True)
class PoolProblem:
    """One pooling run: all of it or one slice."""

    window: Window
    channels: int
    tiled: bool
    dtype: DType
    average: bool
    counts_padding: bool = True
    """Of averages: whether windows count the padding that they reach."""


def pool2d(case: Case) -> Usage:
    problem, shape = _problem(case)
    memory = case.x.layout.memory
    asked = case.attrs.get("applied_shard_scheme")
    if not memory.is_sharded:
        source = _spread(case, problem, asked)
        if case.x.layout.is_dram and not _fits(case, problem, source):
            return _sliced(case, problem, shape, asked)
        shard = _input_shard(problem, source)
        return _pooled(case, problem, shape, source, shard, fresh=True)
    need(asked is None, "A sharding scheme should not be specified for a sharded input tensor.")
    spec = memory.shard_spec
    assert spec is not None
    need(spec.orientation is ShardOrientation.ROW_MAJOR, "Only row major orientation is supported.")
    source = parallel.of_memory(memory)
    need(parallel.walks_rows(source.ranges), "Sliding-window shard grid must be row-filled")
    channels = round_up(problem.channels, spec.shape[1])
    if source.kind is not HEIGHT:
        fits = channels % source.channels == 0
        need(fits, f"input channels ({channels}) should be divisible by num_shards ({source.channels})")
    return _pooled(case, problem, shape, source, spec.shape, fresh=False)


def _problem(case: Case) -> tuple[PoolProblem, tuple[int, ...]]:
    a, x = case.attrs, case.x
    window = Window(
        a["batch_size"], a["input_height"], a["input_width"], tuple(a["kernel_size"]), tuple(a["stride"]),
        tuple(a["padding"]), tuple(a["dilation"]), bool(a.get("ceil_mode")),
    )  # fmt: skip
    channels = a["channels"]
    need(x.shape == (1, 1, window.in_nhw, channels), "input must be [1, 1, N*H*W, C]")
    oh, ow = replace(window, ceil=False).out_hw
    need(oh > 0 and ow > 0, "Pool2D: Effective kernel size cannot exceed padded input size")
    top, bottom, left, right = window.padding
    half_h, half_w = window.kernel[0] // 2, window.kernel[1] // 2
    padded = max(top, bottom) <= half_h and max(left, right) <= half_w
    need(padded, "Pool2D: Padding should not exceed half of kernel size")
    need(x.dtype in (DType.BF16, DType.BFP8_B, DType.BFP4_B), "Only BFLOAT16 supported for now")
    need(x.layout.is_tile or x.dtype is DType.BF16, "Only BFLOAT16 supported for now")
    problem = PoolProblem(window, channels, x.layout.is_tile, x.dtype, case.query.op == "ttnn.avg_pool2d")
    problem = replace(problem, counts_padding=bool(a.get("count_include_pad", True)))
    return problem, (1, 1, window.out_nhw, channels)


def _spread(case: Case, p: PoolProblem, asked: str | None) -> Parallel:
    """Where an interleaved input is sharded: as asked, else the kind that needs least L1."""
    if asked is not None:
        return _determine(case, p, TensorMemoryLayout(asked), asked=True)
    sizes = {kind: _estimate(case, p, _determine(case, p, kind)) for kind in (HEIGHT, WIDTH, BLOCK)}
    if sizes[HEIGHT] > sizes[WIDTH]:
        return _determine(case, p, BLOCK if sizes[WIDTH] > sizes[BLOCK] else WIDTH)
    return _determine(case, p, BLOCK if sizes[HEIGHT] > sizes[BLOCK] else HEIGHT)


def _determine(case: Case, p: PoolProblem, kind: TensorMemoryLayout, asked: bool = False) -> Parallel:
    width = TILE if p.tiled else FACE
    alignment = 8 if asked and not p.tiled else TILE
    return parallel.determine(
        kind,
        p.channels,
        p.window.out_nhw,
        p.channels,
        alignment,
        case.device,
        ROW,
        False,
        tile_height=1,
        tile_width=width,
    )


def _input_shard(p: PoolProblem, source: Parallel) -> tuple[int, int]:
    unit = TILE if p.tiled else 1
    channels = round_up(p.channels, TILE) if p.tiled else p.channels
    width = round_up(channels, source.channels * (TILE if p.tiled else 8)) // source.channels
    rows = round_up(p.window.in_nhw, TILE) if p.tiled else p.window.in_nhw
    if source.kind is WIDTH:
        return (rows, width)
    return (round_up(rows, source.nhw * unit) // source.nhw, width)


def _own_divisors(p: PoolProblem) -> bool:
    """Averages whose windows hold different numbers of elements (`is_pool_op_one_scalar_per_core`)."""
    reaches_beyond = p.window.padded_hw != replace(p.window, ceil=False).padded_hw
    return p.average and (reaches_beyond or (not p.counts_padding and any(p.window.padding)))


@lru_cache(maxsize=4096)
def _divisor_bytes(p: PoolProblem, rows: int) -> int:
    """The list of runs of one divisor, three 16-bit words each, of the core with the most; `rows` windows a core."""
    if not _own_divisors(p):
        return 0
    high, wide = (_counted(p, axis) for axis in (0, 1))
    divisors = [h * w for h in high for w in wide] * p.window.batch
    starts = [index for index, d in enumerate(divisors) if index % rows == 0 or d != divisors[index - 1]]
    return round_up(6 * max(Counter(index // rows for index in starts).values()), FACE)


def _counted(p: PoolProblem, axis: int) -> list[int]:
    """How many elements along a dim the windows at each of its positions count."""
    window = p.window
    size = (window.height, window.width)[axis]
    before, after = window.padding[2 * axis : 2 * axis + 2]
    first, end = (-before, size + after) if p.counts_padding else (0, size)
    begins = (step * window.stride[axis] - before for step in range(window.out_hw[axis]))
    return [min(at + window.kernel[axis], end) - max(at, first) for at in begins]


def _buffers(p: PoolProblem, source: Parallel) -> int:
    """Circular buffers of the pooling program (`calculate_L1_usage`), the output's own left out."""
    kernel = p.window.kernel[0] * p.window.kernel[1]
    rows = kernel if kernel <= FACE else TILE
    share = p.channels / source.channels
    tiles = -int(-share // TILE)
    partial = 0 < (p.channels // source.channels) % TILE <= FACE
    large = kernel > (TILE // 2 if partial else TILE)
    most = 4 if p.average and large else 8
    elements = min(tiles, most) * TILE * rows if tiles > most else tiles * TILE * rows
    page = 2 * round_up(elements, TILE * TILE)
    scalars = 2 if _own_divisors(p) else 1
    return scalars * 2 * 2048 + 2048 + 4 * page


def _estimate(case: Case, p: PoolProblem, source: Parallel) -> int:
    """What auto-sharding compares: buffers plus a tile-rounded output shard."""
    channels = round_up(p.channels, source.channels * TILE)
    rows = p.window.out_nhw
    height = rows if source.kind is WIDTH else round_up(rows, source.nhw * TILE) // source.nhw
    width = channels // source.channels
    pages = height * -int(-(p.channels / source.channels) // FACE)
    return _buffers(p, source) + round_up(pages * min(FACE, width) * 2, 32)


def _run(
    session: Session,
    p: PoolProblem,
    source: Parallel,
    shard: tuple[int, int],
    fresh: bool,
    drop: bool,
    scratch: int = 0,
) -> tuple[Buffer, tuple[int, int]]:
    """Halo and pooling: `fresh` shards the input first, `drop` frees those shards after the halo."""
    held: Buffer | None = None
    if fresh:
        held = session.hold(shard_bytes(shard, p.dtype, not p.tiled))
        session.run(scratch=scratch)
    halo = run_halo(session, p.window, source, shard, 2, p.tiled, snap=False)
    if held is not None and drop:
        session.end(held)
    else:
        session.run()  # the halo's buffers are gone before it is moved
    halo = session.move(halo)
    rows = ceil_div(p.window.out_nhw, source.nhw)
    width = ceil_div(p.channels, source.channels)
    if width % FACE:
        width = FACE if width < FACE else round_up(width, TILE)
    out = session.hold(shard_bytes((rows, width), DType.BF16, True))
    index = round_up(reader_index_bytes(p.window, source.nhw, p.window.out_nhw, 0, False), FACE)
    index += _divisor_bytes(p, rows)
    session.run(cb=_buffers(p, source), small=index)
    if not drop:
        session.run()
    return out, (rows, width)


def _pooled(
    case: Case, p: PoolProblem, shape: tuple[int, ...], source: Parallel, shard: tuple[int, int], fresh: bool
) -> Usage:
    from_rows = fresh and case.x.layout.is_dram and not case.x.layout.is_sharded and not p.tiled
    scratch = row_scratch(shard[1] * 2, case.device) if from_rows else 0
    session = Session(case, endless=True)
    block, out_shard = _run(session, p, source, shard, fresh, case.x.layout.is_dram, scratch)
    memory = source.memory(out_shard)
    # Channels are padded inside the shards, so only the grid of the result can be wrong.
    case.result((*shape[:-1], out_shard[1] * source.channels), DType.BF16, memory, PageLayout.ROW_MAJOR)
    out = TensorSpec(shape, DType.BF16, TensorLayout(PageLayout.ROW_MAJOR, memory))
    requested = case.output
    if requested is not None and requested != memory:
        if requested.is_sharded:
            spec = named_shards(requested, "bad optional access")
            idle = requested.memory_layout is BLOCK and ceil_div(shape[-1], spec.shape[1]) < spec.grid_yx[1]
            need(not idle, "pooling into block shards with idle columns aborts")
        out = case.result(shape, DType.BF16, requested, PageLayout.ROW_MAJOR)
        moved = session.hold(case.l1(out))
        session.run()
        session.end(block)
        block = moved
    return _usage(session, case, p, out, source, block.number if out.layout.is_l1 else None)


def _usage(
    session: Session, case: Case, p: PoolProblem, out: TensorSpec, source: Parallel, made: int | None = None
) -> Usage:
    """What the pool takes, where it writes beyond its result provided that nothing but the operand is there.

    A pool that shards its operand itself and writes beyond its result (`writes_beyond`) hits what is left of those
    shards, unless other tensors leave a hole for the result elsewhere.
    """
    check_small(session)
    usage = session.summed((out,), source.cores, made)
    if not writes_beyond(p.channels, source.channels):
        return usage
    held = sum(case.l1(t) for t in case.inputs)
    return replace(usage, choice_room=case.device.l1_bank_bytes(case.l1_small_bytes) - held)


def _fits(case: Case, p: PoolProblem, source: Parallel) -> bool:
    session = Session(case, endless=True)
    _run(session, p, source, _input_shard(p, source), True, True)
    return session.room <= case.device.l1_bank_bytes(case.l1_small_bytes)


def _sliced(case: Case, p: PoolProblem, shape: tuple[int, ...], asked: str | None) -> Usage:
    """Pooling a DRAM input in slices of its width (or height): the result is DRAM interleaved."""
    need(p.dtype is not DType.BFP4_B, "Only TILE layout is supported for BFLOAT4_B dtype!")
    out = case.result(shape, DType.BF16, DRAM_MEMORY, PageLayout.ROW_MAJOR)
    window = p.window
    along_height = window.height > 3 * window.width
    for side in (along_height, not along_height):
        axis = 0 if side else 1
        extent = window.out_hw[axis]
        for count in range(2, extent + 1):
            size = ceil_div(extent, count)
            span = (size - 1) * window.stride[axis] + window.reach_hw[axis] + 1
            held = min(window.height if side else window.width, span)
            piece = replace(p, window=replace(window, height=held) if side else replace(window, width=held))
            if min(piece.window.out_hw) < 1:
                break
            source = _spread(case, piece, asked)
            if not _fits(case, piece, source):
                continue
            session = Session(case, endless=True)
            _run(session, piece, source, _input_shard(piece, source), True, True)
            return _usage(session, case, p, out, source)
    raise Refused("DRAM Auto slice could not find valid slice configuration.")
