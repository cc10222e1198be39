"""Time of convolutions and pools: windows gathered from a halo, then multiplied or reduced."""

from __future__ import annotations

from optimizer.layouts.tiling import ceil_div
from optimizer.opmodel.analytical.formulas.matmul import tile_product_cycles
from optimizer.opmodel.analytical.terms import Clock, Terms
from optimizer.opmodel.analytical.work import Work
from optimizer.opmodel.base import Bound


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
    return 0.0


def pool(t: Clock, work: Work, terms: Terms) -> float:
    """Windows are read stick by stick and reduced tile by tile."""
    w = work.window
    assert w is not None, "a pool has a window"
    taps = w.height * w.width
    cycles = w.sticks * (t.k["pool.stick_cycles"] + taps * t.k["pool.tap_cycles"])
    cycles += w.sticks * taps * w.stick_bytes / t.k["pool.bytes_per_cycle"]
    terms.add(Bound.COMPUTE, t.cycles(cycles))
    return 0.0
