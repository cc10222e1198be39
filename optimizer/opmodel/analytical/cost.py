"""Cost of an accepted query: its programs as `Work`, read off the query and its usage, timed by the formulas."""

from __future__ import annotations

from typing import Any

from optimizer import families
from optimizer.device import DeviceSpec
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import padded_shape
from optimizer.opmodel.analytical.case import Usage
from optimizer.opmodel.analytical.costing import moves, products, windows
from optimizer.opmodel.analytical.costing.pieces import Builder, Job, of_tensor
from optimizer.opmodel.analytical.tensors import TILED
from optimizer.opmodel.analytical.timing import Timing
from optimizer.opmodel.analytical.work import Place, Work
from optimizer.opmodel.base import Bound, CostPart, OpCost, OpQuery

_BUILDERS: dict[CostClass, Builder] = {
    CostClass.MATMUL: products.matmul,
    CostClass.CONV: windows.conv,
    CostClass.ELTWISE: moves.eltwise,
    CostClass.SOFTMAX: moves.norm,
    CostClass.NORM: moves.norm,
    CostClass.REDUCE: moves.reduce,
    CostClass.DATA_MOVEMENT: moves.movement,
    CostClass.LAYOUT: moves.reshard,
    CostClass.POOL: windows.pool,
    CostClass.UPSAMPLE: moves.movement,
    CostClass.SAMPLE: windows.sample,
    CostClass.EMBEDDING: moves.movement,
    CostClass.SDPA: products.sdpa,
}
"""What builds the work of each cost class; classes that are not here launch nothing."""
_PRODUCTS = frozenset((CostClass.MATMUL, CostClass.CONV, CostClass.SDPA))


class CostModel:
    """Time of accepted queries on one board."""

    def __init__(self, device: DeviceSpec) -> None:
        self.device = device
        self.timing = Timing(device.arch, device.clock_mhz)

    def cost(self, query: OpQuery, usage: Usage) -> OpCost:
        """Sum over the programs of the op; the bound is that of the longest one."""
        works = self.works(query, usage)
        parts, total, read, write = [], 0.0, 0, 0
        longest, bound = -1.0, Bound.DISPATCH
        for work in works:
            found = self.timing.breakdown(work)
            total += found.total_ns
            if found.total_ns > longest:
                longest, bound = found.total_ns, found.bound
            read += sum(p.size for p in work.reads if p.place is Place.DRAM)
            write += sum(p.size for p in work.writes if p.place is Place.DRAM)
            parts.append(
                CostPart(work.family, found.total_ns, found.start_ns, tuple(found.terms.items()), found.tail_ns)
            )
        time = max(1, round(total))
        return OpCost(time, bound, read, write, tuple(parts))

    def works(self, query: OpQuery, usage: Usage) -> tuple[Work, ...]:
        """The programs of an op. One whose results are not described is taken to write as much as it reads."""
        reads = tuple(of_tensor(t) for t in query.inputs)
        writes = tuple(of_tensor(t) for t in usage.outputs) or reads[:1]
        if usage.view:
            return (Work("view", "view", 1),)
        name = _short_name(query)
        cores = max(1, min(usage.cores, self.device.num_cores))
        row = opdef(query.op)
        job = Job(query, row.with_defaults(query.attrs), usage, self.device, name, cores, reads, writes)
        klass = row.cost_class
        builder = families.entry("COSTS", query.op) or _BUILDERS.get(klass)
        if builder is None:
            return (Work("view", "view", 1),)
        if not query.inputs or (klass in _PRODUCTS and (len(query.inputs) < 2 or not usage.outputs)):
            if not reads:  # an op without operands writes its result
                return (Work("movement", name, cores, (), writes),)
            builder = moves.movement
        return builder(job)


def _short_name(query: OpQuery) -> str:
    """The name whose constants apply: retiling differs with padding, permutations by what they move."""
    name = query.op.removeprefix("ttnn.")
    if name == "to_layout":
        x = query.inputs[0]
        padded = padded_shape(x.shape, TILED) != x.shape
        if x.layout.is_tile:
            return "untilize_with_unpadding" if padded else "untilize"
        return "tilize_with_zero_padding" if padded else "tilize"
    if name == "permute":
        given = dict(query.attrs).get("dims", ())
        return _permute_name(given if isinstance(given, tuple) else ())
    if name == "transpose":
        return _transpose_name(dict(query.attrs), len(query.inputs[0].shape))
    return name


def _permute_name(dims: tuple[Any, ...]) -> str:
    """`ttnn.permute` of up to four dims calls `ttnn.transpose` where that does it; with the last two dims in place
    whole tiles move (tt-metal 0.81: `permute.cpp`, device operations on mock devices)."""
    rank = len(dims)
    plain = tuple(int(d) % rank for d in dims)
    moved = [i - rank for i, d in enumerate(plain) if i != d]
    if moved == [-3, -2] and rank <= 4:
        return "transpose_hc"
    return "permute" if {-2, -1} & set(moved) and moved != [-2, -1] else "transpose"


def _transpose_name(attrs: dict[str, Any], rank: int) -> str:
    """Whole tiles move when the last two dims swap or both stay; rows of tiles do otherwise."""
    pair = (attrs.get("dim0", -2), attrs.get("dim1", -1))
    moved = {d % rank - rank for d in pair if isinstance(d, int)}
    if -2 in moved and -1 not in moved:
        return "transpose_hc"
    return "permute" if -1 in moved and -2 not in moved else "transpose"
