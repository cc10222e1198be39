"""Time of kernels of ours: three threads that hand blocks on, each priced with the constants of TTNN's ops.

    compute   the longest of unpacker, math and packer, and what no block makes shorter: inits and waits
    reader    per block and tensor one burst of tiles and a wait for it; where many cores want the same few tiles, what
              the DRAM banks or cores that hold them can serve
    writer    the same the other way

Blocks of the three overlap: the longest thread takes its whole time, each other one that of one block more.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.opmodel.analytical.formulas.basics import Clock, Terms
from optimizer.opmodel.analytical.formulas.eltwise import arithmetic, norm, reduce
from optimizer.opmodel.analytical.formulas.products import SHARED, constant, feed_cycles, tile_product_cycles
from optimizer.opmodel.analytical.work import Compute, Feed, Kernel, Place, Product, Transfer, Work
from optimizer.opmodel.base import Bound

_RATES = {"norm": norm, "reduce": reduce}
"""Families of ops that were measured as a whole, per tile."""


def kernel(t: Clock, work: Work, terms: Terms) -> float:
    """Longest thread in the terms; what the others add, and what comes before the first block, in the tail."""
    k = work.kernel
    assert k is not None, "a kernel of ours says what its threads do"
    if k.after is not None or any(r.feed for r in (*k.reads, *k.read_by_writer)):
        return _fed_kernel(t, work, k, terms)
    compute = t.cycles(compute_cycles(t, k.compute)) + sum(_beyond(t, *rated) for rated in k.rated)
    first = tuple(r for r in k.reads if r.first)
    each = tuple(r for r in k.reads if not r.first)
    reader, writer = _moved(t, work, each, reads=True), _moved(t, work, k.writes, reads=False)
    for moved in (reader, writer):
        for bound, value in moved.items():
            terms[bound] = max(terms.get(bound, 0.0), value)
    terms.add(Bound.COMPUTE, compute)
    threads = (compute, *(max(moved.values(), default=0.0) for moved in (reader, writer)))
    fill = (sum(threads) - max(threads)) / k.blocks
    return fill + max(_moved(t, work, first, reads=True).values(), default=0.0)


def _fed_kernel(t: Clock, work: Work, k: Kernel, terms: Terms) -> float:
    """The same with operands that come by multicast or in pieces: both threads read, as those of TTNN's matmul do.

    What comes in pieces along the depth is multiplied while the next piece is on its way; what is computed with the
    sums comes after that.
    """
    threads = (k.reads, k.read_by_writer)
    multiplied = t.cycles(compute_cycles(t, k.compute))
    after = 0.0 if k.after is None else t.cycles(compute_cycles(t, k.after))
    after += sum(_beyond(t, *rated) for rated in k.rated)
    compute = multiplied + after
    first = _both(t, [_fed(t, work, k, [r for r in reads if r.first]) for reads in threads])
    each = _both(t, [_fed(t, work, k, [r for r in reads if not r.first]) for reads in threads])
    written = _moved(t, work, k.writes, reads=False)
    write = max(written.values(), default=0.0)
    terms.add(Bound.COMPUTE, compute)
    terms.add(Bound.NOC, max(each, written.get(Bound.NOC, 0.0)))
    terms.add(Bound.DRAM, max(_fetched(t, work, k), written.get(Bound.DRAM, 0.0)))
    longest, read = max(terms.values()), max(each, _fetched(t, work, k))
    if k.after is None:
        return first + (compute + read + write - max(compute, read, write)) / k.blocks
    whole = max(multiplied, read) + min(multiplied, read) / k.pieces + after + write
    return first + whole - longest


def _both(t: Clock, threads: Sequence[float]) -> float:
    """Two readers at once."""
    return max(threads) + t.k["matmul.reader_overlap"] * min(threads)


def _fed(t: Clock, work: Work, k: Kernel, transfers: Sequence[Transfer]) -> float:
    """Nanoseconds of one reader: what is multiplied or multicast as to TTNN's matmul, the rest tile by tile."""
    product, cycles = _product(k.compute), 0.0
    for x in transfers:
        if x.feed is not None:
            cycles += feed_cycles(t, product, x.feed, x.everywhere, x.tiles, x.tile_bytes)
            cycles += x.bursts * constant(t, product, "step_cycles") if x.feed in SHARED else 0.0
    rest = _moved(t, work, tuple(x for x in transfers if x.feed is None), reads=True)
    served = (_served(t, work, x) for x in transfers if x.place is Place.L1)
    return max(t.cycles(cycles) + rest.get(Bound.NOC, 0.0), *served, 0.0)


def _fetched(t: Clock, work: Work, k: Kernel) -> float:
    """Nanoseconds in which DRAM gives all that is read."""
    reads = (x for x in (*k.reads, *k.read_by_writer) if x.place is Place.DRAM)
    return sum(_dram(t, work, x) for x in reads)


# -- the compute thread ----------------------------------------------------------------------------------
def compute_cycles(t: Clock, c: Compute) -> float:
    """Cycles of one core: unpacker, math and packer overlap, inits and waits hold all of them up."""
    unpack = c.unpacked_bytes / t.k["matmul.unpack_bytes_per_cycle"]
    math = sum(times * _tile_cycles(t, name, operands) for name, operands, times in c.arithmetic)
    math += _product_cycles(t, c)
    pack = c.packed * t.k["matmul.pack_fp32_cycles" if c.wide else "matmul.pack_cycles"]
    pack = max(pack, c.sections * t.k["matmul.pack_latency_cycles"])
    return max(unpack, math, pack) + c.inits * t.k["kernel.init_cycles"] + c.waits * t.k["kernel.wait_cycles"]


def _product(c: Compute) -> Product:
    """One product of two tiles."""
    feeds = (Feed.LOCAL if c.local else Feed.DRAM_SHARED, Feed.DRAM_SHARED)
    size = (2048, 2048)
    return Product(1, 1, 1, 1, size, feeds=feeds, fidelity=c.fidelity, fp32=c.wide, subblock=c.subblock)


def _product_cycles(t: Clock, c: Compute) -> float:
    """Of all products."""
    if not c.products:
        return 0.0
    product = _product(c)
    return c.products * tile_product_cycles(t, product) / constant(t, product, "clock_derate")


def _tile_cycles(t: Clock, name: str, operands: int) -> float:
    """Math of one tile. What an op of TTNN takes per tile includes bringing its operands to DST, if they are there."""
    copy = t.k["tile_cycles.sum"] / 2  # a sum on the FPU unpacks two tiles
    if name == "copy":
        return copy
    if name == "reduce":
        return t.k["reduce_tile_cycles"]
    whole = t.k[arithmetic(name)]
    return max(t.k["kernel.sfpu_cycles"], whole - operands * copy) if operands else whole


def _beyond(t: Clock, op: Work, alone: Compute) -> float:
    """Nanoseconds that an op takes beyond what its calls account for, by what was measured of TTNN's kernel for it."""
    terms = Terms()
    _RATES[op.family](t, op, terms)
    return max(0.0, terms[Bound.COMPUTE] - t.cycles(compute_cycles(t, alone)))


# -- data movement -----------------------------------------------------------------------------------------
def _moved(t: Clock, work: Work, transfers: tuple[Transfer, ...], *, reads: bool) -> dict[Bound, float]:
    """Nanoseconds of one thread: of the core itself, and of the memories that serve all cores."""
    if not transfers:
        return {}
    wait = {Place.DRAM: t.k["tile_wait_dram_cycles"], Place.L1: t.k["tile_wait_l1_cycles"]}
    rate = {Place.DRAM: t.k["tile_bytes_per_cycle"], Place.L1: t.k["noc_bytes_per_cycle"]}
    cycles, dram, served = 0.0, 0.0, 0.0
    for x in transfers:
        cycles += x.bursts * (wait[x.place] if reads else t.k["tile_write_cycles"])
        cycles += x.tiles * max(t.k["matmul.issue_cycles"], x.tile_bytes / rate[x.place])
        if x.place is Place.DRAM:
            dram += _dram(t, work, x)
        else:
            served = max(served, _served(t, work, x))
    return {Bound.NOC: max(t.cycles(cycles), served), Bound.DRAM: dram}


def _dram(t: Clock, work: Work, x: Transfer) -> float:
    """Nanoseconds of DRAM, by the share of its banks that hold the tensor."""
    whole = t.k["matmul.dram_read_gbps" if x.multiplied else "dram_mixed_gbps"]
    total = x.tiles * x.tile_bytes * (x.readers or work.cores)
    return total / (whole * min(x.distinct, x.holders) / x.holders)


def _served(t: Clock, work: Work, x: Transfer) -> float:
    """Nanoseconds of the cores that hold a tensor."""
    total = x.tiles * x.tile_bytes * (x.readers or work.cores)
    return t.cycles(total / min(x.distinct, x.holders) / t.k["reshard_bytes_per_cycle"])
