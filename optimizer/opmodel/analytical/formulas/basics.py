"""What the time formulas share: constants with the clock, terms by what would bound the op, and those of several."""

from __future__ import annotations

from collections.abc import Mapping

from optimizer.layouts.tiling import ceil_div
from optimizer.opmodel.analytical.work import Piece, Place, Work
from optimizer.opmodel.base import Bound


class Terms(dict[Bound, float]):
    """Nanoseconds by what would bound the op; same bounds add up."""

    together: float | None = None
    """What they take together, where some overlap more than others; None: the longest and a share of the rest."""

    def add(self, bound: Bound, value: float) -> None:
        self[bound] = self.get(bound, 0.0) + value


class Clock:
    """The constants of one architecture at one clock."""

    def __init__(self, constants: Mapping[str, float], clock_mhz: int) -> None:
        self.k = constants
        self.ns_per_cycle = 1000.0 / clock_mhz

    def cycles(self, count: float) -> float:
        """Nanoseconds of so many cycles."""
        return count * self.ns_per_cycle


def pick(t: Clock, name: str, work: Work) -> float:
    """The constant of the op, else of its family, else the one for all."""
    for key in (f"{name}.{work.op}", f"{name}.{work.family}"):
        if key in t.k:
            return t.k[key]
    return t.k[name]


def most_tiles(pieces: tuple[Piece, ...]) -> int:
    return max((p.tiles for p in pieces), default=0)


def tiles_per_core(work: Work) -> int:
    return work.share or ceil_div(max(most_tiles(work.reads), most_tiles(work.writes)), work.cores)


def read_trip(t: Clock, work: Work) -> float:
    """Cycles to fetch one tile of every operand that is not the core's own.

    A reader asks for a tile of every operand (or for a burst of them), waits for all, and asks again.
    """
    wait = {Place.DRAM: t.k["tile_wait_dram_cycles"], Place.L1: t.k["tile_wait_l1_cycles"]}
    away = [p for p in work.reads if p.place in wait and p.tiles and not p.sticks]
    reader = max((wait[p.place] for p in away), default=0.0) / work.burst
    return reader + sum(p.size / p.tiles for p in away) / t.k["tile_bytes_per_cycle"]


def write_trip(t: Clock, work: Work) -> float:
    """Cycles to write one tile of every result that is not the core's own, and to wait until it is there."""
    gone = [p for p in work.writes if p.place in (Place.DRAM, Place.L1) and p.tiles and not p.sticks]
    writer = pick(t, "tile_write_cycles", work) if gone else 0.0
    return writer + sum(p.size / p.tiles for p in gone) / t.k["tile_bytes_per_cycle"]


def tile_trips(t: Clock, work: Work) -> float:
    """Cycles per tile of the slower of reader and writer."""
    return max(read_trip(t, work), write_trip(t, work))


def dram(t: Clock, work: Work, terms: Terms) -> None:
    """Bytes between DRAM and the cores, all together."""
    read = sum(p.size for p in work.reads if p.place is Place.DRAM)
    write = sum(p.size for p in work.writes if p.place is Place.DRAM)
    whole = read / pick(t, "dram_read_gbps", work) + write / pick(t, "dram_write_gbps", work)
    terms.add(Bound.DRAM, whole)


def dram_both_ways(t: Clock, work: Work, terms: Terms) -> None:
    """Reads and writes of ops that do both all the time share one bandwidth; writes alone have their own."""
    read = sum(p.size for p in work.reads if p.place is Place.DRAM)
    write = sum(p.size for p in work.writes if p.place is Place.DRAM)
    rate = pick(t, "dram_mixed_gbps", work) if read else pick(t, "dram_write_gbps", work)
    terms.add(Bound.DRAM, (read + write) / rate)


def noc(t: Clock, work: Work, terms: Terms) -> None:
    """Bytes from and to other cores' L1."""
    moved = sum(p.size for p in (*work.reads, *work.writes) if p.place is Place.L1)
    terms.add(Bound.NOC, t.cycles(moved / work.cores / t.k["noc_bytes_per_cycle"]))


def sticks(t: Clock, work: Work, terms: Terms) -> None:
    """Rows of row-major tensors that do not lie in the core's own L1, one transaction each."""
    terms.add(Bound.NOC, sticks_read_ns(t, work) + sticks_written_ns(t, work))


def sticks_read_ns(t: Clock, work: Work) -> float:
    read = sum(p.sticks for p in work.reads if p.place is not Place.SHARD)
    return read * pick(t, "stick_read_ns", work) / work.cores


def sticks_written_ns(t: Clock, work: Work) -> float:
    write = sum(p.sticks for p in work.writes if p.place is not Place.SHARD)
    return write * pick(t, "stick_write_ns", work) / work.cores
