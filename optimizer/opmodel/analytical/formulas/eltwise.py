"""Time of element-wise ops, normalisations and reductions: arithmetic per tile against the trips of tiles."""

from __future__ import annotations

from optimizer.opmodel.analytical.formulas.basics import (
    Clock,
    Terms,
    dram_both_ways,
    most_tiles,
    pick,
    read_trip,
    tile_trips,
    tiles_per_core,
    write_trip,
)
from optimizer.opmodel.analytical.work import Place, Work
from optimizer.opmodel.base import Bound

_ADD = frozenset(("add", "subtract", "rsub", "bias_add"))
_MULTIPLY = frozenset(
    ("multiply", "eq", "ne", "lt", "gt", "le", "ge", "maximum", "minimum", "where", "logical_and", "logical_or")
)
_SIMPLE = frozenset((
    "abs", "assign", "ceil", "clamp", "clone", "eqz", "fill", "floor", "gtz", "hardshrink", "hardtanh", "identity",
    "leaky_relu", "ltz", "neg", "nez", "prelu", "relu", "relu6", "round", "sign", "softshrink", "square", "threshold",
    "trunc", "typecast",
))  # fmt: skip
_SHORT = frozenset(("divide", "div", "reciprocal", "sqrt", "rsqrt", "rotary_embedding", "logical_not", "bitwise_and"))


def arithmetic(op: str) -> str:
    """Which cost per tile: FPU sum, FPU product, short or long SFPU function."""
    if op in _ADD:
        return "tile_cycles.sum"
    if op in _MULTIPLY:
        return "tile_cycles.product"
    if op == "typecast_to_integer":
        return "tile_cycles.integer"
    if op in _SIMPLE:
        return "tile_cycles.simple"
    return "tile_cycles.short" if op in _SHORT else "tile_cycles.transcendental"


def eltwise(t: Clock, work: Work, terms: Terms) -> float:
    """Reader, arithmetic and writer, a tile behind each other: the first tile goes through all three."""
    tiles = tiles_per_core(work)
    cycles = sum(t.k[arithmetic(name)] for name in (work.op, *work.first))
    terms.add(Bound.COMPUTE, t.cycles(tiles * cycles))
    read, write = read_trip(t, work), write_trip(t, work)
    spread = t.k["broadcast_tile_cycles"] if "broadcast" in work.traits else 0.0  # a row over the tile, by the reader
    trips = max(read, write) + spread
    terms.add(Bound.NOC, t.cycles(tiles * trips))
    dram_both_ways(t, work, terms)
    through = (read + spread, cycles, write)
    first = sum(through) - max(through)
    if "number" in work.traits:  # the writer fills a tile with it while the reader fetches the first one
        first += max(0.0, t.k["number_tile_cycles"] - through[0])
    return t.cycles(first)


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


def scan(t: Clock, work: Work, terms: Terms) -> float:
    """Running sums: a core goes along the summed dim with one position of the others, tile by tile."""
    tiles = tiles_per_core(work)
    terms.add(Bound.COMPUTE, t.cycles(tiles * t.k["tile_cycles.sum"]))
    trips = t.k["scan_image_tile_cycles"] if work.op == "integral_image" else tile_trips(t, work)
    terms.add(Bound.NOC, t.cycles(tiles * trips))
    dram_both_ways(t, work, terms)
    return 0.0


def reduce(t: Clock, work: Work, terms: Terms) -> float:
    tiles = most_tiles(work.reads) / work.cores
    terms.add(Bound.COMPUTE, t.cycles(tiles * t.k["reduce_tile_cycles"]))
    terms.add(Bound.NOC, t.cycles(tiles * tile_trips(t, work)))
    dram_both_ways(t, work, terms)
    return 0.0
