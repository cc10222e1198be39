"""Rows of matmuls and convolutions as the product that one core computes.

Rows seldom name the whole program config, so the one that tt-metal chose is rebuilt: from the config's text, else
by tt-metal's rule. The measured runs are older than the rules of `matmul_auto`: a product of interleaved operands
with one block of output in a direction (up to 16 tiles) then ran as a 1D multicast.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from optimizer.layouts.attention_chunks import deal
from optimizer.layouts.memory_config import BufferType, MemoryConfig, TensorMemoryLayout
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.calibration import columns
from optimizer.opmodel.analytical.calibration.columns import Row
from optimizer.opmodel.analytical.products.matmul_auto import Problem, fit_blocks, subblock
from optimizer.opmodel.analytical.work import Attention, Feed, Piece, Place, Product, Work

_ROOM = {"wormhole_b0": 1_395_000, "blackhole": 1_469_000}
"""L1 bytes per core for buffers when nothing else is in L1."""
_NARROW = 8
_MINIMAL_GRID = (8, 8)


@dataclass(frozen=True, slots=True)
class _Shape:
    batch: int
    m: int
    k: int
    n: int


def _problem(row: Row, s: _Shape, cores: int) -> Problem:
    a, b, out = (columns.dtype(row, f"{name}_dtype") for name in ("in0", "in1", "out"))
    where = columns.place(row.get("in0_mem") or "")
    dram = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.DRAM)
    room = _ROOM.get(row.get("arch") or "", _ROOM["wormhole_b0"])
    rows = s.m * s.batch
    flat = row.get("in0_mem") == "L1_HEIGHT_SHARDED"
    if where is Place.SHARD:
        room -= (ceil_div(rows, cores) * s.k if flat else ceil_div(rows * s.k, cores)) * a.tile_bytes
    if columns.place(row.get("out_mem") or "") is Place.SHARD:
        room -= (ceil_div(rows, cores) * s.n if flat else ceil_div(rows * s.n, cores)) * out.tile_bytes
    fp32 = row.get("fp32_acc") in ("1", "1.0")
    return Problem(
        s.batch, 1, s.m, s.k, s.n, a.tile_bytes, b.tile_bytes, 0, 4096 if fp32 else max(2048, out.tile_bytes),
        dram, dram, dram, fp32, room, (8, 8), None, False,
    )  # fmt: skip


def matmul(row: Row) -> Work:
    tiles = (max(1, ceil_div(columns.number(row, c), TILE)) for c in ("M", "K", "N"))
    s, cores = _Shape(max(1, columns.number(row, "batch", 1)), *tiles), columns.cores(row)
    problem = _problem(row, s, cores)
    product = _planned(row, s, cores, problem)
    gap = row.get("time_kind") == "host_traced"
    return Work("matmul", "matmul", cores, *columns.pieces(row), product, gap=gap)


def _planned(row: Row, s: _Shape, cores: int, p: Problem) -> Product:
    config, sharded = row.get("program_config") or "", row.get("in0_mem") or ""
    b_feed = _feed(columns.place(row.get("in1_mem") or ""))
    if sharded == "L1_HEIGHT_SHARDED":
        per_core = ceil_div(s.m * s.batch, cores)
        bh, bw, _ = fit_blocks(p, per_core, s.n, s.k, False)
        if bw != s.n:
            bh = 1
        bh, bw = columns.config_number(row, "out_block_h") or bh, columns.config_number(row, "out_block_w") or bw
        k = columns.config_number(row, "in0_block_w") or s.k
        return _product(row, p, (per_core, s.n), (bh, bw), k, (Feed.LOCAL, b_feed))
    if "MinimalMatmul" in config:
        gy, gx = _MINIMAL_GRID
        each = (ceil_div(s.m, gy), ceil_div(s.n, gx))
        return _product(row, p, each, each, min(8, s.k), (Feed.DRAM_SHARED, b_feed))
    if columns.config_number(row, "per_core_M") and columns.config_number(row, "per_core_N"):
        return _configured(row, s, p, config, b_feed)
    grid = _grid(config)
    a_feed = Feed.SHARED if columns.place(sharded) is Place.SHARD else _feed(columns.place(sharded))
    if grid is None or (a_feed is not Feed.SHARED and ("auto" in config or "oob" in config)):
        return _automatic(row, s, cores, p, grid, (a_feed, b_feed))
    return _two_dimensional(row, s, p, grid, (a_feed, b_feed))


def _configured(row: Row, s: _Shape, p: Problem, config: str, b_feed: Feed) -> Product:
    """A whole program config: what the kernels of each kind do with the operands."""
    numbers = {n: columns.config_number(row, n) or 0 for n in ("per_core_M", "per_core_N", "in0_block_w")}
    each = (numbers["per_core_M"], numbers["per_core_N"])
    block = (columns.config_number(row, "out_block_h") or each[0], columns.config_number(row, "out_block_w") or each[1])
    where = columns.place(row.get("in0_mem") or "")
    alone = {Feed.DRAM_SHARED: Feed.DRAM_EACH, Feed.L1_SHARED: Feed.L1_EACH}
    a_feed = Feed.SHARED if where is Place.SHARD else _feed(where)
    feeds, batches = (a_feed, b_feed), s.batch
    if "DRAMSharded" in config or ("1D" in config and columns.config_number(row, "mcast_in0") != 0):
        feeds = (a_feed, alone[b_feed])
    elif "1D" in config:
        feeds = (alone.get(a_feed, Feed.LOCAL), b_feed)
    elif "MultiCast" not in config:
        feeds = (alone.get(a_feed, Feed.LOCAL), alone[b_feed])
        batches = ceil_div(ceil_div(s.batch * s.m, each[0]) * ceil_div(s.n, each[1]), columns.cores(row))
    if columns.config_number(row, "fuse_batch") == 1 and "MultiCast" in config:
        batches = 1
    return _product(row, p, each, block, min(s.k, numbers["in0_block_w"] or 1), feeds, batches)


def _feed(where: Place) -> Feed:
    return Feed.DRAM_SHARED if where is Place.DRAM else Feed.L1_SHARED


@lru_cache(maxsize=1024)
def _grid(config: str) -> tuple[int, int] | None:
    """(rows, columns) of the grid that the text names."""
    found = re.search(r"grid (\d+)x(\d+)|grid_size=\(x=(\d+);y=(\d+)\)", config)
    if not found:
        return None
    x, y = (int(g) for g in found.groups() if g is not None)
    return (y, x)


def _two_dimensional(row: Row, s: _Shape, p: Problem, grid: tuple[int, int], feeds: tuple[Feed, Feed]) -> Product:
    each = (ceil_div(s.m, grid[0]), ceil_div(s.n, grid[1]))
    k = s.k // grid[1] if s.k % grid[1] == 0 else 1
    bh, bw, k = fit_blocks(p, *each, k, True)
    return _product(row, p, each, (bh, bw), k, feeds, s.batch)


def _automatic(
    row: Row, s: _Shape, cores: int, p: Problem, grid: tuple[int, int] | None, feeds: tuple[Feed, Feed]
) -> Product:
    """Interleaved operands without a config: 1D along the longer side when narrow, else 2D."""
    total = max(1, columns.number(row, "avail_cores", cores))
    rows, width = grid or _near_square(total)
    core = 16
    while core > 1 and p.cb_estimate(core, core, 2) >= p.room:
        core //= 2
    down, across = ceil_div(s.m, core), ceil_div(s.n, core)
    fits = (down, across) != (1, 1) and down <= rows and across <= width
    ratio = max(s.m, s.n) // min(s.m, s.n)
    narrow = ratio > _NARROW or s.m == 1 or s.n == 1
    k = 2 if s.k % 2 == 0 else 1
    shared_b = Feed.DRAM_SHARED if feeds[1] is Feed.DRAM_SHARED else Feed.L1_SHARED
    if s.batch > 1 and columns.shape(row, "in1_shape")[:-2] not in ((), (1,), (1, 1)) and s.m * s.n > 4:
        each = Feed.DRAM_EACH if feeds[0] is Feed.DRAM_SHARED else Feed.L1_EACH
        batches = ceil_div(s.batch, cores)
        return _product(row, p, (s.m, s.n), (s.m, s.n), k, (each, each), batches)
    if (narrow and s.n >= s.m) or (fits and down == 1):
        each_b = Feed.DRAM_EACH if feeds[1] is Feed.DRAM_SHARED else Feed.L1_EACH
        size = (s.m, ceil_div(s.n, total))
        bh, bw, _ = fit_blocks(p, *size, k, False)
        return _product(row, p, size, (bh, bw), k, (feeds[0], each_b), s.batch)
    if narrow or (fits and across == 1):
        each_a = Feed.DRAM_EACH if feeds[0] is Feed.DRAM_SHARED else Feed.L1_EACH
        size = (ceil_div(s.m, total), s.n)
        bh, bw, _ = fit_blocks(p, *size, k, False)
        return _product(row, p, size, (bh, bw), k, (each_a, shared_b), s.batch)
    return _two_dimensional(row, s, p, (rows, width), feeds)


def _near_square(cores: int) -> tuple[int, int]:
    """The grid of a chip that shows so many cores."""
    known = {20: (4, 5), 56: (7, 8), 64: (8, 8), 110: (10, 11), 130: (10, 13), 140: (10, 14)}
    return known.get(cores, (1, cores))


def _product(
    row: Row, p: Problem, each: tuple[int, int], block: tuple[int, int], k: int, feeds: tuple[Feed, Feed],
    batches: int = 1,
) -> Product:  # fmt: skip
    sharded = columns.place(row.get("out_mem") or "") is Place.SHARD and not row.get("program_config")
    held = subblock(*block, p.fp32_dest, sharded)
    given = (columns.config_number(row, "out_subblock_h"), columns.config_number(row, "out_subblock_w"))
    if given[0] and given[1]:
        held = (given[0], given[1])
    return Product(
        each[0], each[1], p.kt, max(1, k), (p.tile_a, p.tile_b), batches, block[0], block[1], feeds,
        fidelity(row), p.fp32_dest, held,
    )  # fmt: skip


def sdpa(row: Row) -> Work:
    """Attention of queries `in0` over keys `in1`; as many queries as keys: a causal prefill."""
    q, k = columns.given_shape(row, "in0_shape"), columns.given_shape(row, "in1_shape")
    cores = columns.cores(row)
    sizes = [columns.config_number(row, f"{name}_chunk_size") or TILE for name in "qk"]
    wide = ceil_div(q[-1], TILE)
    rows, keys = (size // TILE for size in sizes)
    cut = deal(q, k, q[-2] == k[-2], cores, rows, keys)
    tiles = 2 * keys * wide
    both = tiles * columns.dtype(row, "in1_dtype").tile_bytes
    fp32 = row.get("fp32_acc") in ("1", "1.0")
    attention = Attention(rows, keys, wide, cut.steps, fidelity(row), fp32, both)
    queries, writes = columns.pieces(row, ("in0",))
    fetched = Piece(both * cut.steps * cut.active, tiles * cut.steps * cut.active, Place.DRAM)
    return Work("sdpa", "sdpa", cores, (*queries, fetched), writes, attention=attention)


def fidelity(row: Row) -> str:
    given = row.get("fidelity") or ""
    return given if given in ("LoFi", "HiFi2", "HiFi3", "HiFi4") else "HiFi2"
