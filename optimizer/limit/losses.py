"""Where the time of a plan goes that the physical limit does not need: a partition of it, to the nanosecond.

An op's time is its programs' starts and, of each program, the longest of its terms, a share of the others and what
nothing overlaps (`optimizer.opmodel.analytical.timing`). The op's limit is taken off what the limiting resource takes,
then off the longest; what is left is given to the kinds below (docs/cost-model.md, "The physical limit").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.limit.per_op import OpLimit, op_limits
from optimizer.opmodel.base import Bound, CostPart
from optimizer.result import COPIES, OptimizedGraph, Prediction, Role
from optimizer.result.summary import Loss, LossKind, PhysicalLimit

_OF_CLASS = {
    CostClass.ELTWISE: LossKind.ELEMENTWISE,
    CostClass.NORM: LossKind.NORMS,
    CostClass.SOFTMAX: LossKind.NORMS,
    CostClass.REDUCE: LossKind.NORMS,
    CostClass.POOL: LossKind.POOLS,
    CostClass.UPSAMPLE: LossKind.POOLS,
    CostClass.SAMPLE: LossKind.POOLS,
    CostClass.LAYOUT: LossKind.CONVERSIONS,
    CostClass.HOST: LossKind.TRANSFERS,
}
"""What ops without products lose by; those of other classes only move elements."""
_WHOLE = {
    **dict.fromkeys(COPIES, LossKind.COPIES),
    Role.LAYOUT: LossKind.CONVERSIONS,
    Role.TRANSFER: LossKind.TRANSFERS,
}
"""Roles of ops that another plan may do without: all of their time is theirs."""
_PROGRAMS = {"reshard": LossKind.COPIES, "movement": LossKind.COPIES, "halo": LossKind.WINDOWS,
             "tilize": LossKind.WINDOWS, "eltwise": LossKind.ELEMENTWISE}  # fmt: skip
"""Programs around a product that are something else."""
_COMPUTE, _DRAM = "compute", "dram"
"""Time that has no kind yet, by its resource."""
Spent = dict[str, float]
"""Nanoseconds by kind, or by resource."""


@dataclass(frozen=True)
class Spending:
    """One op of a run, or a kernel that stands for several: what it takes and what it would have to."""

    time_ns: int
    limit: OpLimit
    role: Role
    cost_class: CostClass | None
    """None: one of our kernels."""
    cores: int
    excess_bytes: int
    """What it moves between DRAM and the cores beyond the compulsory."""
    parts: tuple[CostPart, ...] = ()
    writes_dram: bool = False

    @property
    def multiplies(self) -> bool:
        return self.limit.padded_ns > 0 and self.cost_class is not None


def limit_of(
    result: OptimizedGraph,
    predictions: Mapping[str, Prediction],
    kernels: Sequence[Mapping[str, Any]] | None = None,
) -> PhysicalLimit:
    """The limit of a plan and what its time beyond that is lost by; `kernels` as in `Predictor.totals`, None: its own.

    `predictions` are those of all ops of a run.
    """
    limits = op_limits(result)
    regions = result.fused_kernels if kernels is None else kernels
    spendings = list(_spendings(result, predictions, limits, regions))
    total = sum(limits.values(), OpLimit())
    time_ns, limit_ns = sum(s.time_ns for s in spendings), int(total.ns)
    lost: Spent = {LossKind.SERIAL: sum(s.limit.ns for s in spendings) - total.ns}
    for spending in spendings:
        for kind, ns in _losses(spending, result.device).items():
            lost[kind] = lost.get(kind, 0.0) + ns
    return PhysicalLimit(
        limit_ns=limit_ns,
        dram_ns=int(total.dram_ns),
        compute_ns=int(total.compute_ns),
        compulsory_dram_bytes=total.dram_bytes,
        flops=total.flops,
        of_limit=round(limit_ns / time_ns, 6) if time_ns else 0.0,
        losses=_rounded(lost, time_ns - limit_ns),
    )


def _spendings(
    result: OptimizedGraph,
    predictions: Mapping[str, Prediction],
    limits: Mapping[str, OpLimit],
    kernels: Sequence[Mapping[str, Any]],
) -> Iterator[Spending]:
    """Kernels first, then the ops that are part of none."""
    inside: set[str] = set()
    for kernel in kernels:
        if "predicted_ns" in kernel:
            inside.update(kernel["ops"])
            limit = sum((limits[op_id] for op_id in kernel["ops"]), OpLimit())
            moved = kernel["dram_read_bytes"] + kernel["dram_write_bytes"] - limit.dram_bytes
            yield Spending(kernel["predicted_ns"], limit, Role.COMPUTE, None, kernel["cores"], max(0, moved))
    for op_id, limit in limits.items():
        if op_id not in inside:
            p, row = predictions[op_id], opdef(result.graph.op(op_id).op)
            moved = p.dram_read_bytes + p.dram_write_bytes - limit.dram_bytes
            role, writes = result.records[op_id].role, p.dram_write_bytes > 0
            yield Spending(p.time_ns, limit, role, row.cost_class, p.cores, max(0, moved), p.parts, writes)


# -- one op ---------------------------------------------------------------------------------------------------
def _losses(spending: Spending, device: DeviceSpec) -> Spent:
    """What one op takes beyond its own limit, by kind; the sum is exactly that, up to rounding of floats."""
    spent = _spent(spending)
    _take_limit(spent, spending.limit)
    found: Spent = {kind: ns for kind, ns in spent.items() if kind not in (_COMPUTE, _DRAM)}

    def add(kind: LossKind, ns: float) -> None:
        found[kind] = found.get(kind, 0.0) + ns

    own = _own_kind(spending)
    for kind, ns in _dram_losses(spent.get(_DRAM, 0.0), spending, device, own):
        add(kind, ns)
    for kind, ns in _compute_losses(spent.get(_COMPUTE, 0.0), spending, device, own):
        add(kind, ns)
    return found


def _own_kind(spending: Spending) -> LossKind:
    """What the time of an op is called that has no closer reason."""
    if spending.cost_class is None:
        return LossKind.KERNELS
    if spending.role in _WHOLE:
        return _WHOLE[spending.role]
    return LossKind.BELOW_PEAK if spending.multiplies else _OF_CLASS.get(spending.cost_class, LossKind.MOVEMENT)


def _spent(spending: Spending) -> Spent:
    """The time of an op by what takes it, as its programs' terms add up; whole where the backend tells no programs."""
    if spending.role in _WHOLE or not spending.parts:
        return {_own_kind(spending): float(spending.time_ns)}
    spent: Spent = {}
    for part in spending.parts:
        for kind, ns in _of_part(part, spending):
            spent[kind] = spent.get(kind, 0.0) + ns
    whole = sum(spent.values())
    if whole <= 0:
        return {_own_kind(spending): float(spending.time_ns)}
    return {kind: ns * spending.time_ns / whole for kind, ns in spent.items()}


def _of_part(part: CostPart, spending: Spending) -> Iterator[tuple[str, float]]:
    """What takes the time of one program: its start, the longest term whole, an even share of each other, the tail."""
    yield LossKind.STARTS, part.start_ns
    named = _PROGRAMS.get(part.name) if spending.multiplies else None
    named = named or (None if spending.multiplies else _own_kind(spending))
    left = part.time_ns - part.start_ns - part.tail_ns
    terms = sorted(part.terms, key=lambda term: (-term[1], term[0]))
    others = sum(ns for _, ns in terms[1:])
    share = max(0.0, left - terms[0][1]) / others if others else 0.0
    for number, (bound, ns) in enumerate(terms):
        yield _resource(bound, part, named), ns * (1.0 if number == 0 else share)
    if not terms:
        yield named or _COMPUTE, left
    yield _DRAM if spending.writes_dram else _resource(Bound.NOC, part, named), part.tail_ns


def _resource(bound: Bound, part: CostPart, named: LossKind | None) -> str:
    """Where a term of a program goes: to DRAM, to the kind of a program that is no product, or by its resource."""
    if bound is Bound.DRAM:
        return _DRAM
    if named is not None:
        return named
    if bound is Bound.COMPUTE:
        return _COMPUTE
    return LossKind.WINDOWS if part.name == "conv" else LossKind.FEEDING


def _take_limit(spent: Spent, limit: OpLimit) -> None:
    """Take an op's limit off what its resource takes, then off the longest others; the rest, if any, off the first."""
    first = _DRAM if limit.dram_ns > limit.compute_ns else _COMPUTE
    left = limit.ns
    for kind in (first, *sorted((k for k in spent if k != first), key=lambda k: (-spent[k], k))):
        taken = min(left, max(0.0, spent.get(kind, 0.0)))
        spent[kind] = spent.get(kind, 0.0) - taken
        left -= taken
    spent[first] -= left


def _dram_losses(ns: float, spending: Spending, device: DeviceSpec, own: LossKind) -> Iterator[tuple[LossKind, float]]:
    """Time of DRAM beyond the limit: what had to be moved but waited, what need not be moved, what was moved slowly."""
    limit = spending.limit
    waiting = _at_most(limit.dram_ns if limit.compute_ns >= limit.dram_ns else 0.0, ns)
    needless = _at_most(spending.excess_bytes / device.dram_best_gbps, ns - waiting)
    yield LossKind.SERIAL, waiting
    yield LossKind.DRAM_TRAFFIC, needless
    yield LossKind.DRAM_RATE if spending.multiplies else own, ns - waiting - needless


def _compute_losses(
    ns: float, spending: Spending, device: DeviceSpec, own: LossKind
) -> Iterator[tuple[LossKind, float]]:
    """Time of the matrix engine beyond the limit: waiting for DRAM, products of padding, cores that stand idle."""
    limit = spending.limit
    waiting = _at_most(limit.compute_ns if limit.dram_ns > limit.compute_ns else 0.0, ns)
    left = ns - waiting
    padding = _at_most(max(0.0, limit.padded_ns - limit.compute_ns), left)
    idle = _at_most(limit.padded_ns * max(0.0, device.num_cores / max(1, spending.cores) - 1), left - padding)
    yield LossKind.SERIAL, waiting
    yield LossKind.PADDING, padding
    yield LossKind.IDLE_CORES, idle
    yield own, left - padding - idle


def _at_most(ns: float, available: float) -> float:
    return max(0.0, min(ns, available))


# -- all of them ----------------------------------------------------------------------------------------------
def _rounded(lost: Mapping[str, float], whole_ns: int) -> tuple[Loss, ...]:
    """Whole nanoseconds that add up to `whole_ns`: sums by name are rounded as they grow. Largest first."""
    names = sorted(name for name, ns in lost.items() if ns)
    ends = [round(end) for end in _running(lost[name] for name in names)]
    if ends:
        ends[-1] = whole_ns
    found = [
        Loss(kind=LossKind(name).value, ns=end - start)
        for name, start, end in zip(names, [0, *ends], ends, strict=False)
    ]
    return tuple(sorted((loss for loss in found if loss.ns), key=lambda loss: (-loss.ns, loss.kind)))


def _running(numbers: Iterable[float]) -> Iterator[float]:
    total = 0.0
    for number in numbers:
        total += number
        yield total
