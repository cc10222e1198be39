"""The plain roofline: whole chip at peak, no latency, no launch. What the model is compared with."""

from __future__ import annotations

from optimizer.device import DeviceSpec
from optimizer.opmodel.analytical.terms import PHASES
from optimizer.opmodel.analytical.work import Place, Work

TILE_PRODUCT_CYCLES = 16
"""Cycles of a 32x32x32 product per pass of the matrix engine."""


def roofline_ns(work: Work, device: DeviceSpec) -> float:
    """Nanoseconds at peak: every core's matrix engine busy, or DRAM at its peak bandwidth."""
    compute = 0.0
    p = work.product
    if p is not None:
        products = p.rows * p.columns * p.depth * p.batches * work.cores
        cycles = products * TILE_PRODUCT_CYCLES * PHASES.get(p.fidelity, 2) / device.num_cores
        compute = cycles * 1000.0 / device.clock_mhz
    moved = sum(part.size for part in (*work.reads, *work.writes) if part.place is Place.DRAM)
    return max(compute, moved / device.dram_peak_gbps)
