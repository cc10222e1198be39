"""Time of normalisations, softmax and reductions."""

from __future__ import annotations

from optimizer.opmodel.analytical.formulas.basics import dram_both_ways, most_tiles, pick, tile_trips, tiles_per_core
from optimizer.opmodel.analytical.terms import Clock, Terms
from optimizer.opmodel.analytical.work import Place, Work
from optimizer.opmodel.base import Bound


def norm(t: Clock, work: Work, terms: Terms) -> float:
    if work.groups is not None:
        return group_norm(t, work, terms)
    tiles = tiles_per_core(work)
    terms.add(Bound.COMPUTE, t.cycles(tiles * pick(t, "norm_tile_cycles", work)))
    terms.add(Bound.NOC, t.cycles(tiles * tile_trips(t, work) * 0.5))
    dram_both_ways(t, work, terms)
    return 0.0


def group_norm(t: Clock, work: Work, terms: Terms) -> float:
    """Every core goes through its rows once per group; the cores of a group exchange sums for each."""
    g = work.groups
    assert g is not None, "a group norm has groups"
    away = any(p.place is not Place.SHARD for p in work.reads[:1])
    per_row = t.k["group_norm.row_away_cycles" if away else "group_norm.row_cycles"]
    terms.add(Bound.COMPUTE, t.cycles(g.groups * g.rows * per_row))
    terms.add(Bound.NOC, t.cycles(g.groups * g.sharers * t.k["group_norm.share_cycles"]))
    return 0.0


def reduce(t: Clock, work: Work, terms: Terms) -> float:
    tiles = most_tiles(work.reads) / work.cores
    terms.add(Bound.COMPUTE, t.cycles(tiles * t.k["reduce_tile_cycles"]))
    terms.add(Bound.NOC, t.cycles(tiles * tile_trips(t, work)))
    dram_both_ways(t, work, terms)
    return 0.0
