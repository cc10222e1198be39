"""Time of scaled dot-product attention."""

from __future__ import annotations

from optimizer.opmodel.analytical.formulas.basics import dram, noc
from optimizer.opmodel.analytical.terms import PHASES, Clock, Terms
from optimizer.opmodel.analytical.work import Work
from optimizer.opmodel.base import Bound


def sdpa(t: Clock, work: Work, terms: Terms) -> float:
    """Two matmuls with an exponential between them: rows of queries, columns of the head, depth of the keys."""
    p = work.product
    assert p is not None, "attention has a product"
    products = 2.0 * p.rows * p.columns * p.depth * p.batches
    phases = PHASES.get(p.fidelity, 2)
    cycles = products * (16.0 * phases + min(phases, 2) * t.k["matmul.stall_cycles"] + t.k["matmul.tile_cycles"])
    cycles += p.rows * p.depth * p.batches * t.k["sdpa_score_tile_cycles"]
    terms.add(Bound.COMPUTE, t.cycles(cycles) / t.k["matmul.clock_derate"])
    noc(t, work, terms)
    dram(t, work, terms)
    return 0.0
