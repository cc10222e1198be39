"""Time of element-wise ops: arithmetic per tile against the trips of tiles that are not at home."""

from __future__ import annotations

from optimizer.opmodel.analytical.formulas.basics import dram_both_ways, tile_trips, tiles_per_core
from optimizer.opmodel.analytical.terms import Clock, Terms
from optimizer.opmodel.analytical.work import Work
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
    if op in _SIMPLE:
        return "tile_cycles.simple"
    return "tile_cycles.short" if op in _SHORT else "tile_cycles.transcendental"


def eltwise(t: Clock, work: Work, terms: Terms) -> float:
    tiles = tiles_per_core(work)
    cycles = sum(t.k[arithmetic(name)] for name in (work.op, *work.first))
    terms.add(Bound.COMPUTE, t.cycles(tiles * cycles))
    trips = tile_trips(t, work)
    if "broadcast" in work.traits:  # the reader spreads a row over the tile
        trips += t.k["broadcast_tile_cycles"]
    terms.add(Bound.NOC, t.cycles(tiles * trips))
    dram_both_ways(t, work, terms)
    return 0.0
