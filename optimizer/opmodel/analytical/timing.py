"""Time formulas: `Work` -> nanoseconds, by family.

Every formula has one shape: `t = t0 + max(x) + overlap * (sum(x) - max(x)) + tail`, where the `x` are what could
bound the op (arithmetic, NoC, DRAM, tiles or rows handled one by one) and `tail` what nothing overlaps. The
constants are data: `constants/<arch>.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

from optimizer.errors import UnknownNameError
from optimizer.opmodel.analytical.work import Piece, Place, Work
from optimizer.opmodel.base import Bound

PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
"""Passes of the matrix engine at each math fidelity."""


@cache
def constants(arch: str) -> dict[str, float]:
    """The constants of one architecture: name -> value (the file also names unit and source of each)."""
    text = (resources.files("optimizer.opmodel.analytical") / "constants" / f"{arch}.json").read_text("utf-8")
    record: dict[str, Any] = json.loads(text)
    return {k: float(v["value"]) for k, v in record.items()}


class Terms(dict[Bound, float]):
    """Nanoseconds by what would bound the op; same bounds add up."""

    def add(self, bound: Bound, value: float) -> None:
        self[bound] = self.get(bound, 0.0) + value


class Timing:
    """Formulas with the constants of one board."""

    def __init__(self, arch: str, clock_mhz: int) -> None:
        self.k = constants(arch)
        self.ns_per_cycle = 1000.0 / clock_mhz

    def time(self, work: Work) -> tuple[int, Bound]:
        """(nanoseconds, at least 1; what bounds the op)."""
        formula = FORMULAS.get(work.family)
        if formula is None:
            raise UnknownNameError("cost family", work.family, tuple(FORMULAS))
        terms, tail = Terms(), 0.0
        tail = formula(self, work, terms)
        start = self.pick("t0_ns", work)
        longest = max(terms.values(), default=0.0)
        rest = sum(terms.values()) - longest
        total = start + longest + self.k["overlap"] * rest + tail + (self.k["gap_ns"] if work.gap else 0.0)
        total *= self.k.get(f"factor.{work.family}", 1.0)
        bound = max(terms, key=lambda b: terms[b]) if terms else Bound.DISPATCH
        if longest + tail < start:
            bound = Bound.DISPATCH
        elif tail > longest:
            bound = Bound.DRAM
        return max(1, round(total)), bound

    def of(self, name: str, key: str) -> float:
        """The constant for `key`, else the one for all."""
        own = self.k.get(f"{name}.{key}")
        return self.k[name] if own is None else own

    def pick(self, name: str, work: Work) -> float:
        """The constant of the op, else of its family, else the one for all."""
        for key in (f"{name}.{work.family}.{work.op}", f"{name}.{work.op}", f"{name}.{work.family}"):
            if key in self.k:
                return self.k[key]
        return self.k[name]

    def cycles(self, count: float) -> float:
        return count * self.ns_per_cycle

    def dram(self, work: Work, terms: Terms) -> None:
        """Bytes between DRAM and the cores; few cores cannot use the whole bandwidth."""
        read = sum(p.size for p in work.reads if p.place is Place.DRAM)
        write = sum(p.size for p in work.writes if p.place is Place.DRAM)
        per_core = self.cycles((read + write) / work.cores / self.k["dram_core_bytes_per_cycle"])
        whole = read / self.of("dram_read_gbps", work.family) + write / self.of("dram_write_gbps", work.family)
        terms.add(Bound.DRAM, max(per_core, whole))

    def noc(self, work: Work, terms: Terms) -> None:
        """Bytes from and to other cores' L1."""
        moved = sum(p.size for p in (*work.reads, *work.writes) if p.place is Place.L1)
        terms.add(Bound.NOC, self.cycles(moved / work.cores / self.k["noc_bytes_per_cycle"]))

    def sticks(self, work: Work, terms: Terms) -> None:
        """Rows of row-major tensors that do not lie in the core's own L1, one transaction each."""
        read = sum(p.sticks for p in work.reads if p.place is not Place.SHARD)
        write = sum(p.sticks for p in work.writes if p.place is not Place.SHARD)
        value = read * self.pick("stick_read_ns", work) + write * self.pick("stick_write_ns", work)
        terms.add(Bound.NOC, value / work.cores)


def _tiles(pieces: tuple[Piece, ...]) -> int:
    return max((p.tiles for p in pieces), default=0)


def _interleaved_tiles(work: Work) -> int:
    moved = (*work.reads, *work.writes)
    return sum(p.tiles for p in moved if p.place in (Place.DRAM, Place.L1) and not p.sticks)


def eltwise(self: Timing, work: Work, terms: Terms) -> float:
    tiles = max(_tiles(work.reads), _tiles(work.writes)) / work.cores
    cycles = self.of("tile_cycles", work.op)
    if "wide" in work.traits:
        cycles += self.k["tile_cycles_wide"]
    terms.add(Bound.COMPUTE, self.cycles(tiles * cycles))
    io = self.k["interleaved_tile_cycles"] * _interleaved_tiles(work) / work.cores
    if "broadcast" in work.traits and _interleaved_tiles(work):
        io += self.k["broadcast_tile_cycles"] * tiles
    terms.add(Bound.NOC, self.cycles(io))
    self.noc(work, terms)
    self.dram(work, terms)
    return 0.0


def matmul(self: Timing, work: Work, terms: Terms) -> float:
    rows, columns = work.block
    phases = PHASES.get(work.fidelity, 2)
    unpack = sum(work.tile_bytes) / 2 / self.k["unpack_bytes_per_cycle"]
    cycles = max(16.0 * phases, unpack) + self.k["tile_matmul_extra_cycles"]
    if work.fp32:
        cycles += self.k["tile_matmul_fp32_cycles"]
    done = rows * columns * work.blocks
    terms.add(Bound.COMPUTE, self.cycles(done * work.depth * cycles) / self.k["clock_derate"])
    terms.add(Bound.COMPUTE, self.cycles(done * self.k["output_tile_cycles"]))
    moved = work.blocks * work.depth * columns * work.tile_bytes[1]
    if "height_sharded" not in work.traits:
        moved += work.blocks * work.depth * rows * work.tile_bytes[0]
    terms.add(Bound.NOC, self.cycles(moved / self.k["mcast_bytes_per_cycle"]))
    read = sum(p.size for p in work.reads if p.place is Place.DRAM)
    terms.add(Bound.DRAM, read / self.of("dram_read_gbps", "matmul"))
    written = sum(p.size for p in work.writes if p.place is Place.DRAM)
    spread = sum(p.size for p in work.writes if p.place is Place.L1)
    tail = written / self.of("dram_write_gbps", "matmul")
    return tail + self.cycles(spread / work.cores / self.k["noc_bytes_per_cycle"])


def matmul_hs(self: Timing, work: Work, terms: Terms) -> float:
    rows, columns = work.block
    terms.add(Bound.COMPUTE, self.cycles(rows * columns * work.depth * self.k["hs_tile_matmul_cycles"]))
    terms.add(Bound.COMPUTE, self.cycles(rows * columns * self.k["hs_output_tile_cycles"]))
    terms.add(Bound.NOC, self.cycles(columns * work.depth * self.k["hs_weight_tile_cycles"]))
    return 0.0


def conv(self: Timing, work: Work, terms: Terms) -> float:
    tail = matmul(self, work, terms)
    rows = work.block[0] * work.blocks
    gathered = rows * 32 * work.depth * 32 * 2 * (0.0 if "pointwise" in work.traits else 1.0)
    terms.add(Bound.NOC, self.cycles(gathered / self.k["im2col_bytes_per_cycle"]))
    self.sticks(work, terms)
    return tail


def norm(self: Timing, work: Work, terms: Terms) -> float:
    tiles = _tiles(work.reads) / work.cores
    terms.add(Bound.COMPUTE, self.cycles(tiles * self.of("norm_tile_cycles", work.op)))
    self.noc(work, terms)
    self.dram(work, terms)
    return 0.0


def reduce(self: Timing, work: Work, terms: Terms) -> float:
    tiles = _tiles(work.reads) / work.cores
    terms.add(Bound.COMPUTE, self.cycles(tiles * self.of("reduce_tile_cycles", work.op)))
    terms.add(Bound.NOC, self.cycles(self.k["interleaved_tile_cycles"] * _interleaved_tiles(work) / work.cores))
    self.dram(work, terms)
    return 0.0


def movement(self: Timing, work: Work, terms: Terms) -> float:
    """Data movement: bytes over DRAM and NoC, rows one by one."""
    self.dram(work, terms)
    self.noc(work, terms)
    self.sticks(work, terms)
    moved = sum(p.size for p in (*work.reads, *work.writes) if p.place is Place.SHARD)
    terms.add(Bound.COMPUTE, self.cycles(moved / work.cores / self.k["l1_copy_bytes_per_cycle"]))
    if not any(p.sticks for p in (*work.reads, *work.writes)):
        tiles = max(_tiles(work.reads), _tiles(work.writes))
        terms.add(Bound.NOC, tiles / work.cores * self.pick("repack_tile_ns", work))
    return 0.0


def tilize(self: Timing, work: Work, terms: Terms) -> float:
    movement(self, work, terms)
    tiles = max(_tiles(work.reads), _tiles(work.writes)) / work.cores
    terms.add(Bound.COMPUTE, self.cycles(tiles * self.k["tilize_tile_cycles"]))
    return 0.0


def pool(self: Timing, work: Work, terms: Terms) -> float:
    tiles = _tiles(work.writes) / work.cores
    terms.add(Bound.COMPUTE, self.cycles(tiles * work.passes * self.k["pool_tile_cycles"]))
    movement(self, work, terms)
    return 0.0


def sdpa(self: Timing, work: Work, terms: Terms) -> float:
    """Two matmuls with an exponential between them: `block` is (query rows, head width), `depth` the key rows."""
    rows, width = work.block
    phases = PHASES.get(work.fidelity, 2)
    products = 2.0 * rows * width * work.depth * work.blocks
    cycles = products * (16.0 * phases + self.k["tile_matmul_extra_cycles"])
    cycles += rows * work.depth * work.blocks * self.k["sdpa_score_tile_cycles"]
    terms.add(Bound.COMPUTE, self.cycles(cycles) / self.k["clock_derate"])
    self.noc(work, terms)
    self.dram(work, terms)
    return 0.0


def view(self: Timing, work: Work, terms: Terms) -> float:
    """Nothing runs on the device."""
    return 0.0


def transfer(self: Timing, work: Work, terms: Terms) -> float:
    """Bytes over PCIe; DRAM is far faster than the link."""
    to_host = any(p.place is Place.HOST for p in work.writes)
    gbps = self.k["pcie_read_gbps" if to_host else "pcie_write_gbps"]
    terms.add(Bound.PCIE, sum(p.size for p in work.reads) / gbps)
    return 0.0


FORMULAS: dict[str, Callable[[Timing, Work, Terms], float]] = {
    "eltwise": eltwise,
    "matmul": matmul,
    "matmul_hs": matmul_hs,
    "conv": conv,
    "norm": norm,
    "reduce": reduce,
    "movement": movement,
    "reshard": movement,
    "tilize": tilize,
    "pool": pool,
    "sdpa": sdpa,
    "view": view,
    "transfer": transfer,
}
