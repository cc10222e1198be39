"""What the OpModel predicts of a transformed graph: per op, added up, and what is resident where."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.ir.graph import Graph
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import tensor_bytes
from optimizer.limit.per_op import OpLimit
from optimizer.opmodel.base import LaunchTimes, OpConstraints, OpCost, OpModel
from optimizer.opmodel.pricing import OpPricer
from optimizer.opmodel.spans import of_op, of_plan
from optimizer.result import COPIES, OpRecord, OptimizedGraph, Prediction, Role

FUSED = "fused"
"""Class of the time of our kernels, among those of ops."""
LAUNCHES_NOTHING = ("view", "transfer")
"""Kinds of program that are none."""


@dataclass(frozen=True)
class Totals:
    """Sums over all ops of one run."""

    time_ns: int
    dram_read_bytes: int
    dram_write_bytes: int
    by_class_ns: Mapping[str, int]
    by_bound_ns: Mapping[str, int]
    parts_ns: tuple[float, ...]
    """Times of the device programs, in order; empty where the backend does not say."""
    by_kind_ns: Mapping[str, float]
    """The same and transfers, added up by kind of program."""


class Predictor:
    """Prices the ops of a transformed graph."""

    def __init__(self, graph: Graph, layouts: Mapping[str, TensorLayout], model: OpModel) -> None:
        self._graph = graph
        self._layouts = layouts
        self._model = model
        pages = {v: layout.page_layout for v, layout in layouts.items()}
        self._pricer = OpPricer(graph, pages, model, model.device.cb_limit_bytes)

    def answers(self, op_id: str, record: OpRecord) -> tuple[OpConstraints, OpCost]:
        op = self._graph.op(op_id)
        query = self._pricer.query(op, [self._layouts[v] for v in op.inputs], record.config, record.request)
        return self._model.constraints(query), self._model.cost(query)

    def prediction(self, op_id: str, record: OpRecord, peak_l1_bytes: int, limit: OpLimit | None = None) -> Prediction:
        """What the OpModel says of one op, beside its limit, if known, and the peak of L1 per core while it runs."""
        least = limit or OpLimit()
        answer, cost = self.answers(op_id, record)
        interval = of_op(cost, self._model)
        return Prediction(
            time_ns=cost.time_ns,
            cb_bytes=answer.cb_bytes,
            peak_l1_bytes=peak_l1_bytes,
            cores=answer.cores,
            bound=cost.bound.value,
            dram_read_bytes=cost.dram_read_bytes,
            dram_write_bytes=cost.dram_write_bytes,
            limit_ns=int(least.ns),
            compulsory_dram_bytes=least.dram_bytes,
            flops=least.flops,
            parts=cost.parts,
            low_ns=interval.low_ns,
            high_ns=interval.high_ns,
        )

    def totals(self, records: Mapping[str, OpRecord], kernels: Sequence[Mapping[str, Any]] = ()) -> Totals:
        """Sums over every op that is not on the host; `kernels`: the regions that run as our kernels, with their
        times (`fused_kernels` of a result), which stand for their ops."""
        read = write = 0
        by_class: Counter[str] = Counter()
        by_bound: Counter[str] = Counter()
        parts: list[float] = []
        kinds: defaultdict[str, float] = defaultdict(float)
        priced = [kernel for kernel in kernels if "predicted_ns" in kernel]
        fused = {op_id for kernel in priced for op_id in kernel["ops"]}
        for kernel in priced:
            read += kernel["dram_read_bytes"]
            write += kernel["dram_write_bytes"]
            by_class[FUSED] += kernel["predicted_ns"]
            by_bound[kernel["bound"]] += kernel["predicted_ns"]
            parts.append(float(kernel["predicted_ns"]))
            kinds["kernel"] += kernel["predicted_ns"]
        for op in self._graph.ops():
            record = records[op.id]
            if record.role is Role.HOST or op.id in fused:
                continue
            _, cost = self.answers(op.id, record)
            read += cost.dram_read_bytes
            write += cost.dram_write_bytes
            by_class[opdef(op.op).cost_class.value] += cost.time_ns
            by_bound[cost.bound.value] += cost.time_ns
            parts += (part.time_ns for part in cost.parts if part.name not in LAUNCHES_NOTHING)
            for part in cost.parts:
                kinds[part.name] += part.time_ns
        classes, bounds = dict(sorted(by_class.items())), dict(sorted(by_bound.items()))
        return Totals(sum(by_class.values()), read, write, classes, bounds, tuple(parts), dict(sorted(kinds.items())))


def reaches(lower_bound_ns: int | None, time_ns: int) -> bool:
    """Whether a plan takes no longer than its lower bound, transfers around ops on the host included in both."""
    return lower_bound_ns is not None and time_ns <= lower_bound_ns


def unpriced(graph: Graph) -> list[str]:
    """The warning of ops whose time is not part of the sum, if there are any."""
    count = sum(opdef(op.op).opaque for op in graph.ops())
    return [f"{count} op(s) run on the host: their transfers are priced, their own time is not"] if count else []


@dataclass(frozen=True)
class Launches:
    """Device programs of one run, and whole-model times with their launches."""

    programs: int = 0
    traced_ns: int | None = None
    """Kernels with the gaps of a trace."""
    untraced_ns: int | None = None
    """Kernels, the host dispatching every program."""


def launch_figures(totals: Totals, launch: LaunchTimes | None) -> Launches:
    """What launches add to the kernels; nothing is known where the backend tells no programs or no launch times."""
    if not totals.parts_ns or launch is None:
        return Launches()
    count, spent = len(totals.parts_ns), sum(totals.parts_ns)
    untraced = sum(max(ns, launch.dispatch_ns) for ns in totals.parts_ns)
    return Launches(count, round(totals.time_ns + launch.gap_ns * count), round(totals.time_ns - spent + untraced))


def interval_figures(totals: Totals, model: OpModel) -> dict[str, int | None]:
    """The 80 % interval of the time of a run, as the summary names it."""
    found = of_plan(totals.time_ns, totals.by_kind_ns, model)
    return {"predicted_low_ns": found.low_ns, "predicted_high_ns": found.high_ns}


def l1_weight_figures(result: OptimizedGraph) -> dict[str, int]:
    """What the weights kept in L1 take: on every core, and as tensors."""
    weights = result.program.weights
    total = 0
    for weight in weights:
        value = result.graph.value(weight.value)
        total += tensor_bytes(value.shape, value.dtype, result.layouts[value.id].page_layout)
    return {"l1_weights_bytes": sum(weight.size_bytes for weight in weights), "l1_weights_bytes_total": total}


def l1_resident_fraction(result: OptimizedGraph) -> float:
    """Share, by bytes, of the activations computed in a run that are produced in L1 (copies left out)."""
    total = resident = 0
    for op in result.graph.ops():
        if result.records[op.id].role in (*COPIES, Role.HOST, Role.TRANSFER):
            continue
        for v in op.outputs:
            value, layout = result.graph.value(v), result.layouts[v]
            size = tensor_bytes(value.shape, value.dtype, layout.page_layout)
            total += size
            resident += size if layout.is_l1 else 0
    return round(resident / total, 6) if total else 0.0
