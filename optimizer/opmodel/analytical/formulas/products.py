"""Time of products, attention, convolutions and pools.

A matmul: the matrix engine against the two readers, and the write of the result after the last block. Convolutions and
pools: windows gathered from a halo, then multiplied or reduced.
"""

from __future__ import annotations

from optimizer.ir.compute_config import PASSES, TILE_PRODUCT_CYCLES
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.formulas.basics import Clock, Terms, dram, noc
from optimizer.opmodel.analytical.work import BankReads, Feed, Place, Product, Window, Work
from optimizer.opmodel.base import Bound

_EACH = (Feed.DRAM_EACH, Feed.L1_EACH)
SHARED = (Feed.SHARED, Feed.DRAM_SHARED, Feed.L1_SHARED)


def constant(t: Clock, p: Product, name: str) -> float:
    """A constant; products of which A is at home (height shards) run another kernel, some constants of which differ."""
    if p.feeds[0] is Feed.LOCAL:
        own = t.k.get(f"matmul_local.{name}")
        if own is not None:
            return own
    return t.k[f"matmul.{name}"]


def tile_product_cycles(t: Clock, p: Product) -> float:
    """Cycles of one 32x32x32 product: the passes of the engine, or the unpacking of its operands.

    Of a subblock of h x w output tiles the operand of the longer side is unpacked once for all of them.
    """
    h, w = p.subblock
    a, b = p.tile_bytes
    unpacked = b + a / w if w >= h else a + b / h
    phases = PASSES.get(p.fidelity, 2)
    # A further pass over the same data finds it unpacked: only the first two stall.
    engine = TILE_PRODUCT_CYCLES * phases + min(phases, 2) * constant(t, p, "stall_cycles")
    return max(engine, unpacked / constant(t, p, "unpack_bytes_per_cycle")) + constant(t, p, "tile_cycles")


def compute_ns(t: Clock, p: Product) -> float:
    """Engine time of one core. Every step packs a subblock while the next one is computed."""
    h, w = p.subblock
    tiles = h * w
    each = constant(t, p, "pack_fp32_cycles" if p.fp32 else "pack_cycles")
    pack = max(constant(t, p, "pack_latency_cycles"), each * tiles)
    subblocks = p.rows * p.columns * p.batches / tiles
    whole, rest = divmod(p.depth, p.k_block)
    product = tiles * tile_product_cycles(t, p) / constant(t, p, "clock_derate")
    cycles = whole * max(product * p.k_block, pack)
    if rest:
        cycles += max(product * rest, pack)
    # Rectifiers are part of packing; other functions run in their approximate form.
    fused = 0.0 if p.fused in ("", "relu") else t.k["tile_cycles.short"]
    return t.cycles((cycles + tiles * fused) * subblocks)


def feed_cycles(t: Clock, p: Product, feed: Feed, everywhere: bool, tiles: float, tile_bytes: int) -> float:
    """Cycles for tiles of an operand to arrive in one core. A sender reads a block, then multicasts it."""
    if feed is Feed.LOCAL:
        return 0.0
    reach = constant(t, p, "mcast_grid_bytes_per_cycle" if everywhere else "mcast_bytes_per_cycle")
    per_byte = 1 / reach if feed in SHARED else 0.0
    if feed in (Feed.DRAM_SHARED, Feed.DRAM_EACH):
        per_byte += 1 / constant(t, p, "dram_core_bytes_per_cycle")
    elif feed in (Feed.L1_SHARED, Feed.L1_EACH):
        per_byte += 1 / t.k["noc_bytes_per_cycle"]
    issue = constant(t, p, "issue_cycles") if feed is not Feed.SHARED else 0.0
    return tiles * max(issue, tile_bytes * per_byte)


def matmul(t: Clock, work: Work, terms: Terms) -> float:
    p = work.product
    assert p is not None, "a matmul has a product"
    if work.banks is not None:
        return _from_banks(t, work, p, work.banks, terms)
    down = ceil_div(p.rows, p.block_rows or p.rows)
    across = ceil_div(p.columns, p.block_columns or p.columns)
    steps = ceil_div(p.depth, p.k_block)
    blocks = down * across * p.batches
    compute = compute_ns(t, p)
    reader = t.cycles(_reader_cycles(t, work, p, (down, across)))
    write = _write_ns(t, work, p)
    terms.add(Bound.COMPUTE, compute)
    terms.add(Bound.NOC, reader)
    parts = zip(work.reads, p.feeds, (across, down), strict=False)
    fetched = sum(r.size * again for r, feed, again in parts if r.place is Place.DRAM and feed is not Feed.LOCAL)
    # All blocks but the last are written while the next one is computed.
    terms.add(Bound.DRAM, fetched / t.k["matmul.dram_read_gbps"] + write * (1 - 1 / blocks))
    tail = max(0.0, write / blocks - max(compute, reader) / (steps * blocks))
    fill = min(compute, reader) / steps + t.cycles((p.batches - 1) * t.k["matmul.batch_cycles"])
    spread = sum(w.size for w in work.writes if w.place is Place.L1)
    return fill + tail + t.cycles(spread / work.cores / t.k["noc_bytes_per_cycle"])


def _from_banks(t: Clock, work: Work, p: Product, banks: BankReads, terms: Terms) -> float:
    """Operand B from shards in the DRAM banks, read while A is multicast block by block and what came is multiplied.

    The cores that hold A send one after the other, each when all receivers are ready (tenstorrent/tt-metal #55443).
    """
    steps = ceil_div(p.depth, p.k_block)
    block = p.k_block * p.tile_bytes[0]
    hop = t.k["matmul.step_cycles"] + block / t.k["matmul.mcast_grid_bytes_per_cycle"]
    if banks.gathered:
        hop += block / t.k["noc_bytes_per_cycle"]
    terms.add(Bound.COMPUTE, compute_ns(t, p))
    terms.add(Bound.NOC, t.cycles(steps * hop))
    rate = t.k["matmul.bank_gbps" if banks.readers == 1 else "matmul.shared_bank_gbps"]
    terms.add(Bound.DRAM, banks.size / rate)
    result = sum(w.size for w in work.writes) / work.cores / t.k["noc_bytes_per_cycle"]
    return (sum(terms.values()) - max(terms.values())) / steps + t.cycles(result)


def _reader_cycles(t: Clock, work: Work, p: Product, blocks: tuple[int, int]) -> float:
    """Cycles of the two readers of one core; a block of output reads its rows of A and its columns of B again."""
    steps = ceil_div(p.depth, p.k_block) * blocks[0] * blocks[1] * p.batches
    lines = (p.rows * blocks[1], p.columns * blocks[0])
    # Where every core reads its own part of one operand, one core sends the other to the whole grid.
    reach = (p.feeds[1] in _EACH, p.feeds[0] in _EACH)
    readers = []
    for feed, everywhere, count, size in zip(p.feeds, reach, lines, p.tile_bytes, strict=True):
        cycles = feed_cycles(t, p, feed, everywhere, count * p.depth * p.batches, size)
        if feed in SHARED and work.cores > 1:
            cycles += steps * constant(t, p, "step_cycles")
        readers.append(cycles)
    return max(readers) + t.k["matmul.reader_overlap"] * min(readers)


def _write_ns(t: Clock, work: Work, p: Product) -> float:
    """The result's way to DRAM."""
    written = sum(w.size for w in work.writes if w.place is Place.DRAM)
    if not written:
        return 0.0
    latency = 0.0
    if p.feeds[0] not in SHARED:  # cores that each hold whole rows start on the same bank and write in step
        subblocks = p.rows * p.columns * p.batches / (p.subblock[0] * p.subblock[1])
        latency = subblocks * t.k["matmul.write_cycles"]
    return written / t.k["matmul.dram_write_gbps"] + t.cycles(latency)


def sdpa(t: Clock, work: Work, terms: Terms) -> float:
    """A step multiplies a chunk of queries by one of keys, exponentiates and multiplies by the values.

    With 16-bit sums the packer exponentiates while the engine multiplies; with 32-bit sums one waits for the other
    (tenstorrent/tt-metal #56693). Every step begins with hand-shakes and new formats (#56692).
    """
    a = work.attention
    assert a is not None, "attention has chunks"
    phases = PASSES.get(a.fidelity, 2)
    scores = a.q * a.k
    products = 2 * scores * a.head * (float(TILE_PRODUCT_CYCLES) * phases + min(phases, 2) * t.k["matmul.stall_cycles"])
    products = (products + 2 * scores * a.head * t.k["matmul.tile_cycles"]) / t.k["matmul.clock_derate"]
    exponentials = scores * t.k["sdpa.exp_tile_cycles"]
    cycles = products + exponentials if a.fp32 else max(products, exponentials)
    cycles += scores * t.k["sdpa.score_tile_cycles"] * (2 if a.masked else 1) + t.k["sdpa.step_cycles"]
    terms.add(Bound.COMPUTE, t.cycles(a.steps * cycles))
    terms.add(Bound.NOC, t.cycles(a.steps * a.key_bytes / t.k["noc_bytes_per_cycle"]))
    noc(t, work, terms)
    dram(t, work, terms)
    return 0.0


def sdpa_decode(t: Clock, work: Work, terms: Terms) -> float:
    """Two matmuls with an exponential between them: rows of queries, columns of the head, depth of the keys."""
    p = work.product
    assert p is not None, "attention has a product"
    products = 2.0 * p.rows * p.columns * p.depth * p.batches
    phases = PASSES.get(p.fidelity, 2)
    each = TILE_PRODUCT_CYCLES * phases + min(phases, 2) * t.k["matmul.stall_cycles"] + t.k["matmul.tile_cycles"]
    cycles = products * each
    cycles += p.rows * p.depth * p.batches * t.k["sdpa_score_tile_cycles"]
    terms.add(Bound.COMPUTE, t.cycles(cycles) / t.k["matmul.clock_derate"])
    noc(t, work, terms)
    dram(t, work, terms)
    return 0.0


def conv(t: Clock, work: Work, terms: Terms) -> float:
    """A core gathers the windows of some rows of output, tilizes them and multiplies them by the weights.

    Weights come by multicast: once for height shards, for every block of rows where the shards are blocks.
    """
    p, w = work.product, work.window
    assert p is not None, "a convolution has a product"
    assert w is not None, "a convolution has a window"
    downs = ceil_div(p.rows, max(1, w.block_rows))
    blocks = downs * ceil_div(p.depth, p.k_block)
    cycles = p.rows * p.columns * p.depth * tile_product_cycles(t, p)
    cycles += w.tilized * t.k["conv.tilize_cycles"] + blocks * t.k["conv.block_cycles"]
    cycles += w.untilized[1] * t.k["conv.untilize_cycles"]
    terms.add(Bound.COMPUTE, t.cycles(cycles))
    reads = w.sticks * w.height
    gather = reads * (t.k["conv.gather_cycles"] + w.width * w.stick_bytes / t.k["conv.gather_bytes_per_cycle"])
    if w.shared:
        gather += blocks * t.k["conv.share_cycles"]
        gather += p.rows * p.depth * 2048 / t.k["matmul.mcast_bytes_per_cycle"]
    terms.add(Bound.NOC, t.cycles(gather))
    per_byte = 1 / t.k["matmul.dram_core_bytes_per_cycle"] + 1 / t.k["matmul.mcast_bytes_per_cycle"]
    size = p.tile_bytes[1]
    weights = p.depth * p.columns * (downs if w.shared else 1) * max(t.k["matmul.issue_cycles"], size * per_byte)
    terms.add(Bound.DRAM, t.cycles(weights))
    # Height shards of several blocks of rows keep all their weights: nothing is left to be read ahead.
    weights_ahead = w.weights_ahead and (w.shared or downs == 1)
    if w.gathers_ahead or weights_ahead:
        terms.together = _read_ahead(t, terms, w.gathers_ahead, weights_ahead, blocks)
    return 0.0


def _read_ahead(t: Clock, terms: Terms, gathers: bool, weights: bool, blocks: int) -> float:
    """A convolution with second buffers: all but the first block is read while the one before is multiplied."""
    share = t.k["overlap.conv"]
    ahead = share / blocks + t.k["overlap.conv_ahead"] * (1 - 1 / blocks)
    compute, gather, weight = terms[Bound.COMPUTE], terms[Bound.NOC], terms[Bound.DRAM]
    inner = max(compute, gather) + (ahead if gathers else share) * min(compute, gather)
    return max(inner, weight) + (ahead if weights else share) * min(inner, weight)


FACE_ROWS = 16
"""Rows of a window that are reduced at once: a half tile, two faces (tt-metal's `pool_2d_multi_core.cpp`)."""


def pool(t: Clock, work: Work, terms: Terms) -> float:
    """Rows of every window are copied together, then unpacked and reduced by 16 rows and 32 channels at a time."""
    w = work.window
    assert w is not None, "a pool has a window"
    if work.op == "grid_sample":
        return _sampled(t, w, terms)
    parts = ceil_div(w.height * w.width, FACE_ROWS) * ceil_div(w.stick_bytes, TILE * 2)
    terms.add(Bound.COMPUTE, t.cycles(w.sticks * (t.k["pool.stick_cycles"] + parts * t.k["pool.reduce_cycles"])))
    run = t.k["conv.gather_cycles"] + w.width * w.stick_bytes / t.k["conv.gather_bytes_per_cycle"]
    terms.add(Bound.NOC, t.cycles(w.sticks * w.height * run))
    return 0.0


def _sampled(t: Clock, w: Window, terms: Terms) -> float:
    """Of every point the reader works out four pixels, asks for them and waits, while the last one is summed up."""
    bytes_read = w.height * w.width * w.stick_bytes
    point = t.k["pool.point_cycles"] + bytes_read / t.k["noc_bytes_per_cycle"]
    terms.add(Bound.NOC, t.cycles(w.sticks * point))
    return 0.0
