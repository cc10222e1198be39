"""Time of kernels of ours: three threads that hand blocks on, each priced with the constants of TTNN's ops.

    compute   the longest of unpacker, math and packer, and what no block makes shorter: inits and waits
    reader    per block and tensor one burst of tiles and a wait for it; where many cores want the same few tiles, what
              the DRAM banks or cores that hold them can serve
    writer    the same the other way

Blocks of the three overlap: the longest thread takes its whole time, each other one that of one block more.
"""

from __future__ import annotations

from optimizer.opmodel.analytical.formulas.basics import Clock, Terms
from optimizer.opmodel.analytical.formulas.eltwise import arithmetic, norm, reduce
from optimizer.opmodel.analytical.formulas.products import tile_product_cycles
from optimizer.opmodel.analytical.work import Compute, Place, Product, Transfer, Work
from optimizer.opmodel.base import Bound

_RATES = {"norm": norm, "reduce": reduce}
"""Families of ops that were measured as a whole, per tile."""


def kernel(t: Clock, work: Work, terms: Terms) -> float:
    """Longest thread in the terms; what the others add, and what comes before the first block, in the tail."""
    k = work.kernel
    assert k is not None, "a kernel of ours says what its threads do"
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


# -- the compute thread ----------------------------------------------------------------------------------
def compute_cycles(t: Clock, c: Compute) -> float:
    """Cycles of one core: unpacker, math and packer overlap, inits and waits hold all of them up."""
    unpack = c.unpacked_bytes / t.k["matmul.unpack_bytes_per_cycle"]
    math = sum(times * _tile_cycles(t, name, operands) for name, operands, times in c.arithmetic)
    if c.products:
        product = Product(1, 1, 1, 1, (2048, 2048), fidelity=c.fidelity, fp32=c.wide)
        math += c.products * tile_product_cycles(t, product) / t.k["matmul.clock_derate"]
    pack = c.packed * t.k["matmul.pack_fp32_cycles" if c.wide else "matmul.pack_cycles"]
    pack = max(pack, c.sections * t.k["matmul.pack_latency_cycles"])
    return max(unpack, math, pack) + c.inits * t.k["kernel.init_cycles"] + c.waits * t.k["kernel.wait_cycles"]


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
        total, share = x.tiles * x.tile_bytes * work.cores, min(x.distinct, x.holders)
        if x.place is Place.DRAM:
            whole = t.k["matmul.dram_read_gbps" if x.multiplied else "dram_mixed_gbps"]
            dram += total / (whole * share / x.holders)
        else:
            served = max(served, t.cycles(total / share / t.k["reshard_bytes_per_cycle"]))
    return {Bound.NOC: max(t.cycles(cycles), served), Bound.DRAM: dram}
