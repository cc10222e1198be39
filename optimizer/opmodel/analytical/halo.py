"""Index tensors of sliding-window ops: what halo and convolution keep in L1_SMALL while they run.

Source: tt-metal `sliding_window.cpp` (`generate_shard_boundaries`, `generate_halo_kernel_config_tensors`,
`generate_sliding_window_op_config`, `construct_on_host_config_tensor`); sizes checked against recorded programs.
All sizes are bytes per core; a tensor's row is as long as the longest that any core needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimizer.layouts.tiling import TILE, round_up
from optimizer.opmodel.analytical.parallel import Window

Ints = NDArray[np.int64]
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


@dataclass(frozen=True, slots=True)
class _Runs:
    """Maximal runs of the padded input, in order: where each starts and which input row it holds (-1: padding)."""

    starts: Ints
    sources: Ints
    total: int


@lru_cache(maxsize=32)
def _runs(window: Window) -> _Runs:
    height, width = window.padded_hw
    top, left = window.first_data
    sy, sx = window.spread
    row = _line(left, window.width, sx)
    if sx == 1 and width == window.width:
        row = np.zeros(1, dtype=np.int64)
    data_rows = top + sy * np.arange(window.height, dtype=np.int64)
    batches = np.arange(window.batch, dtype=np.int64) * (height * width)
    lines = (batches[:, None] + data_rows[None, :] * width).ravel()
    firsts = np.arange(window.batch * window.height, dtype=np.int64) * window.width
    starts = (lines[:, None] + row[None, :]).ravel()
    step = window.width if len(row) == 1 else 1
    per_run = window.width if sx == 1 else 1
    sources = (firsts[:, None] + step * np.arange(len(row), dtype=np.int64)[None, :]).ravel()
    ends = starts + per_run
    keep = np.ones(len(starts), dtype=bool)
    keep[1:] = starts[1:] != ends[:-1]  # rows without padding between them are one run
    last = np.append(keep[1:], True)
    starts, sources, ends = starts[keep], sources[keep], ends[last]
    total = window.batch * height * width
    pads = np.concatenate((np.zeros(1, dtype=np.int64), ends))
    until = np.append(starts, total)
    real = until > pads
    pads = pads[real]
    every = np.concatenate((starts, pads))
    order = np.argsort(every, kind="stable")
    origin = np.concatenate((sources, np.full(len(pads), -1, dtype=np.int64)))
    return _Runs(every[order], origin[order], total)


def _line(left: int, count: int, step: int) -> Ints:
    """Starts of the data runs of one padded row."""
    if step == 1:
        return np.array([left], dtype=np.int64)
    return left + step * np.arange(count, dtype=np.int64)


@lru_cache(maxsize=1024)
def boundaries(window: Window, cores: int, snap: bool = True) -> tuple[Ints, Ints, Ints, Ints]:
    """(first output, last output, first input, last input) of each core that has output; inputs are padded ones."""
    oh, ow = window.out_hw
    total = window.batch * oh * ow
    unit = cores * TILE if snap else cores
    shard = round_up(total, unit) // cores
    first = np.arange(0, total, shard, dtype=np.int64)
    last = np.minimum(first + shard, total) - 1
    height, width = window.padded_hw
    sy, sx = window.step
    reach = window.dilation[0] * (window.kernel[0] - 1) * width + window.dilation[1] * (window.kernel[1] - 1)

    def corner(index: Ints) -> Ints:
        batch, rest = np.divmod(index, oh * ow)
        y, x = np.divmod(rest, ow)
        found: Ints = batch * (height * width) + y * (sy * width) + x * sx
        return found

    return first, last, corner(first), corner(last) + reach


def _pieces(begin: Ints, stop: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Splits [begin, stop) at multiples of `size`: (index of the range, start, end) of each part."""
    first, last = begin // size, (stop - 1) // size
    counts = last - first + 1
    owner = np.repeat(np.arange(len(begin), dtype=np.int64), counts)
    offset = np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    block = first[owner] + offset
    return owner, np.maximum(begin[owner], block * size), np.minimum(stop[owner], (block + 1) * size)


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
        first = np.append(first, np.full(idle, corner))
        last = np.append(last, np.full(idle, last[-1]))
    runs = _runs(window)
    low = np.searchsorted(runs.starts, first, side="right") - 1
    high = np.searchsorted(runs.starts, last, side="right") - 1
    counts = high - low + 1
    target = np.repeat(np.arange(len(first), dtype=np.int64), counts)
    index = np.arange(len(target), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts) + low[target]
    limits = np.append(runs.starts[1:], runs.total)
    begin = np.maximum(runs.starts[index], first[target])
    stop = np.minimum(limits[index], last[target] + 1)
    source = runs.sources[index]
    padding = np.bincount(target[source < 0], minlength=1)
    pads = (2 * int(np.max(padding // 2)) + 2, 2 * int(np.max(padding - padding // 2)) + 2)
    data = source >= 0
    offset = source[data] + begin[data] - runs.starts[index[data]]
    owner, start, end = _pieces(offset, offset + stop[data] - begin[data], shard_rows)
    target = target[data][owner]
    if tiled:
        gathers = _blocked(target, start, end, shard_rows, columns, by_column)
    else:
        gathers = _alternated(target, start // shard_rows)
    return HaloConfig(*(INDEX_BYTES * size for size in (*pads, *gathers)))


def _lengths(core: Ints, group: Ints, cores: int) -> int:
    """Longest gather row: a count, then 3 numbers per route and per transfer; `group` numbers the targets."""
    if not len(core):
        return 2
    transfers = np.bincount(core, minlength=cores)
    change = np.ones(len(core), dtype=bool)
    change[1:] = (core[1:] != core[:-1]) | (group[1:] != group[:-1])
    routes = np.bincount(core[change], minlength=cores)
    return round_up(1 + 3 * int(np.max(transfers + routes)), 2)


def _alternated(target: Ints, source: Ints) -> tuple[int, int]:
    """Row-major input: a core's transfers go to the two readers in turn; those to itself come first."""
    key = np.where(target == source, -1, target)
    order = np.argsort(source * (int(key.max(initial=0)) + 2) + key, kind="stable")
    source, key = source[order], key[order]
    cores = int(source.max()) + 1 if len(source) else 1
    counts = np.bincount(source, minlength=cores)
    position = np.arange(len(source), dtype=np.int64) - (np.cumsum(counts) - counts)[source]
    even = position % 2 == 0
    return _lengths(source[even], key[even], cores), _lengths(source[~even], key[~even], cores)


def _blocked(target: Ints, start: Ints, end: Ints, shard_rows: int, columns: int, by_column: bool) -> tuple[int, int]:
    """Tiled input: transfers are cut at every 32 rows, ordered by row, and the blocks go to the readers in turn."""
    source = start // shard_rows
    local = start - source * shard_rows
    owner, begin, _ = _pieces(local, local + end - start, TILE)
    source, target = source[owner], target[owner]
    place = target if by_column else (target % columns) * (1 << 16) + target // columns
    order = np.lexsort((place, begin, source))
    source, place, begin = source[order], place[order], begin[order]
    cores = int(source.max()) + 1 if len(source) else 1
    even = begin // TILE % 2 == 0
    return _lengths(source[even], place[even], cores), _lengths(source[~even], place[~even], cores)


@lru_cache(maxsize=16384)
def reader_index_bytes(window: Window, cores: int, first_rows: int, second_rows: int, snap: bool = True) -> int:
    """Bytes per core of the index tensor that a convolution's readers follow.

    A block of `first_rows` output rows (alternating with `second_rows` when two readers split the work) takes two
    numbers, and two for every run of outputs whose windows follow each other.
    """
    first, last, _, _ = boundaries(window, cores, snap)
    oh, ow = window.out_hw
    height, width = window.padded_hw
    sy, sx = window.step
    along = sy * width - (ow - 1) * sx == sx
    jump = height * width - (oh - 1) * sy * width - (ow - 1) * sx == sx
    period = first_rows + second_rows
    longest = 0
    for begin, end in zip(first.tolist(), (last + 1).tolist(), strict=True):
        full, rest = divmod(end - begin, period)
        blocks = full * (2 if second_rows else 1) + (0 if not rest else 1 + (second_rows > 0 and rest > first_rows))
        cuts = _breaks(begin, end, oh, ow, along, jump) - _breaks_at(
            begin, end, first_rows, second_rows, oh, ow, along, jump
        )
        longest = max(longest, 2 * blocks + 2 * (blocks + cuts))
    return INDEX_BYTES * round_up(longest, 2)


def _broken(index: int, oh: int, ow: int, along: bool, jump: bool) -> bool:
    """Whether the window of output `index` does not follow that of the output before it."""
    if index % ow:
        return False
    return not (jump if index % (oh * ow) == 0 else along)


def _breaks(begin: int, end: int, oh: int, ow: int, along: bool, jump: bool) -> int:
    """Broken outputs inside (begin, end)."""
    rows = (end - 1) // ow - begin // ow
    images = (end - 1) // (oh * ow) - begin // (oh * ow)
    return (0 if along else rows - images) + (0 if jump else images)


def _breaks_at(
    begin: int, end: int, first_rows: int, second_rows: int, oh: int, ow: int, along: bool, jump: bool
) -> int:
    """Broken outputs of (begin, end) that start a block, where a run ends anyhow."""
    count, at, turn = 0, begin, 0
    while True:
        at += second_rows if turn and second_rows else first_rows
        turn = 1 - turn
        if at >= end:
            return count
        count += _broken(at, oh, ow, along, jump)
