"""The halo of sliding-window ops, and the index tensors that it and a convolution keep in L1_SMALL while they run.

Source: tt-metal `sliding_window.cpp` (`generate_shard_boundaries`, `generate_halo_kernel_config_tensors`,
`generate_sliding_window_op_config`, `construct_on_host_config_tensor`) and
`untilize_with_halo_program_factory.cpp`; sizes checked against recorded programs.
All sizes are bytes per core; a tensor's row is as long as the longest that any core needs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import refuse
from optimizer.opmodel.analytical.device_run.session import Buffer, Session
from optimizer.opmodel.analytical.tensors import BLOCK
from optimizer.opmodel.analytical.windows.parallel import COL, Ints, Parallel, Window, boundaries, halo_sticks
from optimizer.opmodel.base import Rejection

INDEX_BYTES = 2
ALIGNMENT = 16


class HaloConfig(NamedTuple):
    """Bytes per core of the four index tensors of a halo program (padding of either reader, gathering of either)."""

    pad0: int
    pad1: int
    gather0: int
    gather1: int

    @property
    def allocated(self) -> int:
        """Bytes that the four take in L1_SMALL."""
        return sum(round_up(size, ALIGNMENT) for size in self)


def run_halo(
    session: Session,
    window: Window,
    source: Parallel,
    shard: tuple[int, int],
    element_bytes: int,
    tiled: bool,
    snap: bool = True,
    index_in_dram: bool = False,
) -> Buffer:
    """Every core fetches the input rows around its own; tiles are untilized on the way. `snap`: as of `halo_config`."""
    stick = round_up(shard[1] * element_bytes, ALIGNMENT)
    halo = session.hold(halo_sticks(window, source.nhw, snap) * stick)
    by_column = source.kind is BLOCK and source.orientation is not COL
    columns = source.nhw if source.kind is BLOCK and not by_column else max(r[2] for r in source.ranges) + 1
    index = halo_config(window, source.nhw, shard[0], tiled, columns, by_column, snap)
    buffers = 2 * stick
    if tiled:
        buffers += 4 * ceil_div(shard[1], TILE) * TILE * TILE * element_bytes
    run_indexed(session, buffers, sum(index), index.allocated, index_in_dram)
    return halo


def run_indexed(session: Session, buffers: int, index: int, small: int, index_in_dram: bool = False) -> None:
    """A program with so many bytes of buffers, and of index tensors: `small` in L1_SMALL, else `index` more buffers."""
    if index_in_dram:
        session.run(cb=buffers + index)
    else:
        session.run(cb=buffers, small=small)


def check_small(session: Session) -> None:
    """Refuses what L1_SMALL has no room for."""
    if session.small_peak > session.small_bytes:
        text = f"Out of Memory: {session.small_peak} B of L1_SMALL of {session.small_bytes} B"
        refuse(text, Rejection.OOM_L1_SMALL)


@lru_cache(maxsize=16384)
def halo_config(
    window: Window, cores: int, shard_rows: int, tiled: bool, columns: int, by_column: bool, snap: bool = True
) -> HaloConfig:
    """Sizes of the index tensors of a halo over `cores` shards of `shard_rows` input rows.

    `tiled`: the input is untilized on the way, 32 rows at a time. `columns`: cores in a row of the grid when the
    shards go along it row by row (height sharding); `by_column`: they all lie in one column (block sharding);
    `snap`: outputs are dealt in whole tiles, as convolutions do and pools do not.
    """
    _, _, first, last = boundaries(window, cores, snap)
    idle = cores - len(first)
    corner = last[-1] - window.reach_hw[0] * window.padded_hw[1] - window.reach_hw[1]
    if idle and corner:  # cores without output still fetch the last window
        first = np.concatenate((first, corner.repeat(idle)))
        last = np.concatenate((last, last[-1:].repeat(idle)))
    end = last + 1
    target, begin, stop, source = _runs(window, first, end)
    # Padding comes between the runs of data, and before and after them where they do not fill the core's range.
    padding = np.bincount(target, minlength=len(first)) + 1
    padding[target[begin == first[target]]] -= 1
    padding[target[stop == end[target]]] -= 1
    most = int(padding.max())
    pads = (2 * (most // 2) + 2, 2 * (most - most // 2) + 2)
    stop = source + (stop - begin)
    if tiled:
        if not by_column:
            target = target % columns * cores + target // columns
        gathers = _blocked(target, source, stop, shard_rows)
    else:
        target, start, _ = _pieces(target, source, stop, shard_rows)
        gathers = _alternated(target, start // shard_rows, len(first))
    return HaloConfig(*(INDEX_BYTES * size for size in (*pads, *gathers)))


def _runs(window: Window, first: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Runs of data in the ranges [first, end) of the padded input, longest ones, in order.

    (range, start and end in the padded input, input row at the start) of each.
    """
    if window.spread != (1, 1):
        return _spread_runs(window, first, end)
    height, width = window.padded_hw
    top, left = window.first_data
    rows, size = window.height, window.width
    if width == size:  # rows without padding between them are one run, and maybe images too
        left, size, width = top * width, rows * width, height * width
        top, rows, height = 0, 1, 1
        if size == width:
            size = width = window.batch * width
    # Padded rows whose data reach into the range, and of these the rows of data.
    low = _data_rows((first - (left + size)) // width + 1, top, rows, height)
    high = _data_rows((end - (left + 1)) // width + 1, top, rows, height)
    target, row = _expanded(low, high - low)
    start = row * width + (top * width + left)
    if height > rows and window.batch > 1:
        start += row // rows * ((height - rows) * width)
    begin = np.maximum(start, first[target])
    return target, begin, np.minimum(start + size, end[target]), row * size + (begin - start)


def _data_rows(row: Ints, top: int, rows: int, height: int) -> Ints:
    """Rows of data above padded rows, in images of `height` rows that hold `rows` of data from `top` on."""
    if height == rows:
        return row
    image, within = np.divmod(row, height)
    found: Ints = image * rows + np.minimum(np.maximum(within - top, 0), rows)
    return found


def _spread_runs(window: Window, first: Ints, end: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """`_runs` of a transposed convolution, whose input elements lie apart from each other."""
    height, width = window.padded_hw
    top, left = window.first_data
    sy, sx = window.spread
    images = np.arange(window.batch, dtype=np.int64)[:, None] * height
    rows = (images + (top + sy * np.arange(window.height, dtype=np.int64))).ravel() * width
    starts = (rows[:, None] + (left + sx * np.arange(window.width, dtype=np.int64))).ravel()
    sources = np.arange(len(starts), dtype=np.int64)
    keep = np.diff(starts, prepend=-1) != 1  # the end of a row may touch the start of the next
    keep[0] = True
    ends = starts[np.concatenate((keep[1:], keep[:1]))] + 1
    starts, sources = starts[keep], sources[keep]
    low = np.searchsorted(ends, first, side="right")
    target, index = _expanded(low, np.searchsorted(starts, end, side="left") - low)
    begin = np.maximum(starts[index], first[target])
    return target, begin, np.minimum(ends[index], end[target]), sources[index] + (begin - starts[index])


def _expanded(low: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """(group, number) of `counts[i]` numbers from `low[i]` upwards for every group i."""
    group = np.arange(len(counts), dtype=np.int64).repeat(counts)
    return group, np.arange(len(group), dtype=np.int64) - (counts.cumsum() - counts - low).repeat(counts)


def _pieces(target: Ints, begin: Ints, stop: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Splits ranges [begin, stop), each of a target, at multiples of `size`: (target, start, end) of each part."""
    first = begin // size
    counts = (stop - 1) // size - first + 1
    if len(counts) == 0 or counts.max() == 1:
        return target, begin, stop
    owner, block = _expanded(first, counts)
    block *= size
    return target[owner], np.maximum(begin[owner], block), np.minimum(stop[owner], block + size)


def _row(numbers: int) -> int:
    """Length of a gather row: a count, then 3 numbers per route and per transfer."""
    return round_up(1 + 3 * numbers, 2)


def _alternated(target: Ints, source: Ints, cores: int) -> tuple[int, int]:
    """Row-major input: a core's transfers go to the two readers in turn; those to itself come first."""
    if not len(source):
        return _row(0), _row(0)
    route = source * (cores + 1) + np.where(target == source, 0, target + 1)
    route.sort()
    source = route // (cores + 1)
    counts = np.bincount(source)
    index = np.arange(len(source), dtype=np.int64)
    reader = 2 * source + (index - (counts.cumsum() - counts)[source]) % 2
    begins = np.ones(len(route), dtype=bool)
    begins[2:] = route[2:] != route[:-2]
    numbers = np.bincount(np.concatenate((reader, reader[begins])), minlength=2 * len(counts))
    return _row(int(numbers[::2].max())), _row(int(numbers[1::2].max()))


def _blocked(place: Ints, start: Ints, stop: Ints, shard_rows: int) -> tuple[int, int]:
    """Tiled input: transfers are cut at every 32 rows, ordered by row, and the blocks go to the readers in turn.

    `place` numbers the targets in the order in which a block goes to them.
    """
    if not len(start):
        return _row(0), _row(0)
    size = shard_rows
    if shard_rows % TILE:  # blocks are counted from the start of each shard
        place, start, stop = _pieces(place, start, stop, shard_rows)
        size = round_up(shard_rows, TILE)
        shift = start // shard_rows * (size - shard_rows)
        start, stop = start + shift, stop + shift
    place, start, _ = _pieces(place, start, stop, TILE)
    bits = int(place.max()).bit_length()
    order = (start << bits) | place
    order.sort()
    start = order >> bits
    source = start // size
    even = (start - source * size) & TILE == 0
    route = order - ((start - source) << bits)
    return _longest(source[even], route[even]), _longest(source[~even], route[~even])


def _longest(source: Ints, route: Ints) -> int:
    """Longest gather row of a reader whose transfers are in order, a route being one transfer after the other."""
    if not len(source):
        return _row(0)
    begins = np.ones(len(route), dtype=bool)
    begins[1:] = route[1:] != route[:-1]
    return _row(int(np.bincount(np.concatenate((source, source[begins]))).max()))


@lru_cache(maxsize=16384)
def reader_index_bytes(window: Window, cores: int, first_rows: int, second_rows: int, snap: bool = True) -> int:
    """Bytes per core of the index tensor that a convolution's readers follow.

    A block of `first_rows` output rows (alternating with `second_rows` when two readers split the work) takes two
    numbers, and two for every run of outputs whose windows follow each other.
    """
    begin, last, _, _ = boundaries(window, cores, snap)
    oh, ow = window.out_hw
    height, width = window.padded_hw
    sy, sx = window.step
    along = sy * width - (ow - 1) * sx == sx
    jump = height * width - (oh - 1) * sy * width - (ow - 1) * sx == sx
    starts = np.arange(0, int(last[0] - begin[0]) + 1, first_rows + second_rows, dtype=np.int64)
    if second_rows:
        starts = np.concatenate((starts, starts + first_rows))
        starts.sort()
    at = begin + starts[1:, None]
    inside = at <= last
    numbers = 4 * (1 + inside.sum(axis=0))
    # The first window of a row, and that of an image, may not follow the one before.
    for every, weight in ((ow, not along), (oh * ow, int(along) - int(jump))):
        if weight:
            cuts = last // every - begin // every - ((at % every == 0) & inside).sum(axis=0)
            numbers += 2 * weight * cuts
    return INDEX_BYTES * round_up(int(numbers.max()), 2)
