"""`ttnn.upsample` by nearest neighbours (tt-metal 0.81 `pool/upsample`)."""

from __future__ import annotations

from math import ceil, floor, prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import grid_shards, named_shards, reshaped, with_spec
from optimizer.opmodel.analytical.device_run.session import Held, Session
from optimizer.opmodel.analytical.device_run.transfer import aligned_page
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, INTERLEAVED, WIDTH

Scale = tuple[float, float]

FLOAT_PAGES = 4
"""Pages in flight where output positions are mapped back one by one (measured: always 4)."""
INTERVAL_BYTES = 8
"""Core and first and last row of the rows that a reader takes from one input shard."""


def upsample(session: Session, held: Held, scale: Scale, memory: MemoryConfig | None = None) -> Held:
    """(n, h, w, c) with h and w scaled; row major. Sharded results take their shards from the operand's."""
    target = held.memory if memory is None else memory
    by_rows = not held.is_tile
    whole = all(float(s).is_integer() for s in scale)
    need(by_rows or held.shape == held.padded, "Tiled input must be tile-aligned (no padding difference)")
    need(by_rows or (whole and not held.is_sharded), "Unsupported upsample configuration")
    n, h, w, c = held.shape
    shape = (n, floor(h * scale[0]), floor(w * scale[1]), c)
    optimized = whole and held.memory.memory_layout in (INTERLEAVED, HEIGHT, BLOCK)
    if target.is_sharded:
        need(held.is_sharded, "Output memory config is sharded but input memory config is not sharded")
        target = _grown(held, target, scale) if optimized else _recut(held, shape)
    dtype = DType.BF16 if held.dtype is DType.BFP8_B else held.dtype
    out = session.make(shape, dtype, PageLayout.ROW_MAJOR, target)
    if not optimized:
        same = held.page_bytes == out.page_bytes
        need(same, f"Input and output page sizes must match, got {held.page_bytes} and {out.page_bytes}")
        session.run(dfb=FLOAT_PAGES * aligned_page(out, session.device))
    elif held.is_sharded:
        _run_shards(session, held, out, int(scale[0]))
    else:
        _run_interleaved(session, held, out)
    return out


def _grown(held: Held, target: MemoryConfig, scale: Scale) -> MemoryConfig:
    """`compute_integer_output_mem_config`: input shards times the scales, on the named cores."""
    named = named_shards(target, "bad optional access")
    height, width = held.spec.shape
    return with_spec(target, reshaped(named, (ceil(height * scale[0] * scale[1]), width)))


def _recut(held: Held, shape: tuple[int, ...]) -> MemoryConfig:
    """`compute_float_output_mem_config`: the operand's cores share the rows again."""
    spec, kind = held.spec, held.memory.memory_layout
    parts = {HEIGHT: spec.num_cores, WIDTH: 1}.get(kind) or grid_shards(spec)[0]
    return with_spec(held.memory, reshaped(spec, (ceil_div(prod(shape[:-1]), parts), spec.shape[1])))


def _run_interleaved(session: Session, held: Held, out: Held) -> None:
    """Rows, or rows of tiles that are untilized on the way; two at once where a core has several."""
    if held.is_tile:
        pages = held.padded[-1] // TILE
        units = held.rows // TILE
        size = pages * (held.dtype.tile_bytes + out.dtype.tile_bytes)
    else:
        units = held.rows
        size = round_up(held.padded[-1] * held.dtype.element_bytes, session.device.dram_alignment_bytes)
    session.run(dfb=size * (1 if units <= session.device.num_cores else 2))


def _run_shards(session: Session, held: Held, out: Held, rows_up: int) -> None:
    """Every core fetches its rows from the input shards that a list in small L1 names."""
    need(out.is_sharded, "bad optional access")
    need(out.spec.num_cores == held.spec.num_cores, "Output tensor should have same number of cores as input tensor")
    n, h, w, _ = held.padded
    most = _most_intervals(n * h, w, held.spec.shape[0], rows_up)
    session.run(small=2 * most * INTERVAL_BYTES)


def _most_intervals(rows: int, width: int, sticks: int, rows_up: int) -> int:
    """Intervals of the busiest reader; a core has two, each writing half of its rows.

    `create_config_tensor`: walks image rows `rows_up` times each; an interval ends with its input shard, with its
    reader's share and between repetitions of a row.
    """
    made = sticks * rows_up
    share = ceil_div(made, 2)
    offset = taken = count = most = 0
    fresh = True
    for _ in range(rows):
        start = offset
        for repetition in range(rows_up):
            left = width
            while left:
                offset = 0 if offset == sticks else offset
                if taken == share:
                    share = made - share if made > 1 else share
                    most, count, taken, fresh = max(most, count), 0, 0, True
                if fresh or offset == 0:
                    count += 1
                    fresh = False
                step = min(left, sticks - offset, share - taken)
                left, offset, taken = left - step, offset + step, taken + step
            if repetition < rows_up - 1:
                offset, fresh = start, True
    return max(most, count)
