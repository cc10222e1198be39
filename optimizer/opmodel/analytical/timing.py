"""Nanoseconds of a `Work`.

Every formula has one shape: `t = t0 + max(x) + overlap * (sum(x) - max(x)) + tail`, where the `x` are what could
bound the op (arithmetic, NoC, DRAM, tiles or rows handled one by one) and `tail` what nothing overlaps. The
constants are data: `constants/<arch>.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.errors import UnknownNameError
from optimizer.ir.compute_config import PASSES, TILE_PRODUCT_CYCLES
from optimizer.opmodel.analytical.formulas import FORMULAS
from optimizer.opmodel.analytical.formulas.basics import Clock, Terms, pick
from optimizer.opmodel.analytical.work import Feed, Place, Work
from optimizer.opmodel.base import Bound
from optimizer.opmodel.spans import Span


@cache
def constants(arch: str) -> dict[str, float]:
    """The constants of one architecture: name -> value (the file also names unit and source of each)."""
    text = (resources.files("optimizer.opmodel.analytical") / "constants" / f"{arch}.json").read_text("utf-8")
    record: dict[str, Any] = json.loads(text)
    return {k: float(v["value"]) for k, v in record.items()}


@cache
def spans(arch: str) -> dict[str, Span]:
    """How far times of one architecture are off, by kind of program (`scripts/calibrate.py` writes the file)."""
    text = (resources.files("optimizer.opmodel.analytical") / "constants" / "spans.json").read_text("utf-8")
    record: dict[str, Any] = json.loads(text)[arch]
    return {kind: Span(float(entry["low"]), float(entry["high"])) for kind, entry in record.items()}


@dataclass(frozen=True, slots=True)
class Breakdown:
    """A predicted time and what it is made of, in nanoseconds."""

    total_ns: float
    start_ns: float
    """Launch and pipeline fill that the size of the op does not change."""
    terms: Mapping[Bound, float]
    tail_ns: float
    """What comes after or before, overlapped by nothing: the last block's write, the first block's read."""

    @property
    def time_ns(self) -> int:
        return max(1, round(self.total_ns))

    @property
    def bound(self) -> Bound:
        """What limits the time: the longest term, or the launch where everything else is shorter."""
        longest = max(self.terms.values(), default=0.0)
        if longest + self.tail_ns < self.start_ns or not self.terms:
            return Bound.DISPATCH
        if self.tail_ns > longest:
            return Bound.DRAM
        return max(self.terms, key=lambda b: self.terms[b])


COUNT_FILL = frozenset(("tilize",))
"""Families whose threads run a block behind each other, and whose formula says what the first block adds."""


class Timing(Clock):
    """The formulas with the constants of one board."""

    def __init__(self, arch: str, clock_mhz: int, values: Mapping[str, float] | None = None) -> None:
        super().__init__(constants(arch) if values is None else values, clock_mhz)

    def time(self, work: Work) -> tuple[int, Bound]:
        """(nanoseconds, at least 1; what bounds the op)."""
        parts = self.breakdown(work)
        return parts.time_ns, parts.bound

    def breakdown(self, work: Work) -> Breakdown:
        formula = FORMULAS.get(work.family)
        if formula is None:
            raise UnknownNameError("cost family", work.family, tuple(FORMULAS))
        terms = Terms()
        tail = formula(self, work, terms)
        start = self._start(work)
        longest = max(terms.values(), default=0.0)
        rest = sum(terms.values()) - longest
        together = longest + self._overlap(work) * rest if terms.together is None else terms.together
        total = start + together + tail
        if work.gap:
            total += self.k["gap_ns"]
        return Breakdown(total, start, terms, tail)

    def _overlap(self, work: Work) -> float:
        """Share of the shorter terms that adds to the longest; 0 where the formula counts what they add itself."""
        return 0.0 if work.kernel is not None or work.family in COUNT_FILL else pick(self, "overlap", work)

    def _start(self, work: Work) -> float:
        if work.kernel is not None:  # one launch, with the longest start of the ops that it stands for
            return max(self._start(Work(family, op, work.cores)) for op, family in work.kernel.launches)
        keys: tuple[str, ...] = (f"t0_ns.{work.op}", f"t0_ns.{work.family}")
        if work.family == "matmul" and work.product is not None and work.product.feeds[0] is Feed.LOCAL:
            keys = ("t0_ns.matmul_local",)
        return next((self.k[key] for key in keys if key in self.k), self.k["t0_ns"])


def roofline_ns(work: Work, device: DeviceSpec) -> float:
    """Nanoseconds at peak: every core's matrix engine busy, or DRAM at its peak bandwidth."""
    compute = 0.0
    p = work.product
    if p is not None:
        products = p.rows * p.columns * p.depth * p.batches * work.cores
        cycles = products * TILE_PRODUCT_CYCLES * PASSES.get(p.fidelity, 2) / device.num_cores
        compute = cycles * 1000.0 / device.clock_mhz
    a = work.attention
    if a is not None:
        cycles = 2 * a.steps * a.q * a.k * a.head * TILE_PRODUCT_CYCLES * PASSES.get(a.fidelity, 2)
        compute = cycles * work.cores / device.num_cores * 1000.0 / device.clock_mhz
    moved = sum(part.size for part in (*work.reads, *work.writes) if part.place is Place.DRAM)
    return max(compute, moved / device.dram_peak_gbps)
