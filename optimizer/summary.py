"""Fills in predictions and adds them up to the summary a person reads first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.ir.graph import Graph
from optimizer.ir.numeric_risk import numeric_risks
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import l1_bytes_per_core, tensor_bytes
from optimizer.opmodel.analytical.timing import constants
from optimizer.opmodel.base import OpConstraints, OpCost, OpModel
from optimizer.opmodel.pricing import OpPricer
from optimizer.result import OpRecord, OptimizedGraph, Prediction, Role
from optimizer.verify import StepMemory, VerifyReport, weights_in_l1

LAUNCHES_NOTHING = ("view", "transfer")
"""Kinds of program that are none."""
COPIES = (Role.RESHARD, Role.SPILL, Role.LOAD)


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

    def prediction(self, step: StepMemory, record: OpRecord) -> Prediction:
        """What the OpModel says of one op, beside what is in L1 then."""
        answer, cost = self.answers(step.op, record)
        return Prediction(
            time_ns=cost.time_ns,
            cb_bytes=answer.cb_bytes,
            peak_l1_bytes=step.total_bytes,
            cores=answer.cores,
            bound=cost.bound.value,
            dram_read_bytes=cost.dram_read_bytes,
            dram_write_bytes=cost.dram_write_bytes,
            utilisation=cost.utilisation,
            parts=cost.parts,
        )

    def totals(self, records: Mapping[str, OpRecord]) -> Totals:
        """Sums over every op that is not on the host."""
        read = write = 0
        by_class: Counter[str] = Counter()
        by_bound: Counter[str] = Counter()
        parts: list[float] = []
        for op in self._graph.ops():
            record = records[op.id]
            if record.role is Role.HOST:
                continue
            _, cost = self.answers(op.id, record)
            read += cost.dram_read_bytes
            write += cost.dram_write_bytes
            by_class[opdef(op.op).cost_class.value] += cost.time_ns
            by_bound[cost.bound.value] += cost.time_ns
            parts += (part.time_ns for part in cost.parts if part.name not in LAUNCHES_NOTHING)
        classes, bounds = dict(sorted(by_class.items())), dict(sorted(by_bound.items()))
        return Totals(sum(by_class.values()), read, write, classes, bounds, tuple(parts))


def predict(result: OptimizedGraph, model: OpModel, steps: Iterable[StepMemory]) -> None:
    """Write a `Prediction` into the record of every op that runs; `steps` are the verifier's."""
    predictor = Predictor(result.graph, result.layouts, model)
    for step in steps:
        record = result.records[step.op]
        result.records[step.op] = replace(record, predicted=predictor.prediction(step, record))


def summarise(
    result: OptimizedGraph,
    model: OpModel,
    report: VerifyReport,
    baseline: Totals,
    status: str,
    warnings: Iterable[str],
    lower_bound_ns: int | None = None,
) -> dict[str, Any]:
    """The `summary` object of `graph.json`. Bytes are totals over the chip unless the key says L1 or bank.

    `lower_bound_ns` is what the policy proved, None if it proves nothing; `gap` is the share above it.
    """
    totals = Predictor(result.graph, result.layouts, model).totals(result.records)
    roles = Counter(record.role for record in result.records.values())
    options, device = result.options, result.device
    unsupported = [[op.op, op.id] for op in result.graph.ops() if opdef(op.op).opaque]
    failed = [c for c in result.chains if c.state == "failed"]
    if status == "optimal" and not reaches(lower_bound_ns, totals.time_ns):
        status = "feasible"
    return {
        "status": status,
        "policy": options.policy,
        "opmodel": options.opmodel,
        "predicted_time_ns": totals.time_ns,
        "lower_bound_ns": lower_bound_ns,
        "gap": None if lower_bound_ns is None else max(0.0, 1 - lower_bound_ns / max(1, totals.time_ns)),
        "baselines": {
            "dram_ns": baseline.time_ns,
            "dfsharding_ns": totals.time_ns if options.policy == "dfsharding" else None,
            "dram_read_bytes_total": baseline.dram_read_bytes,
            "dram_write_bytes_total": baseline.dram_write_bytes,
        },
        "ops": sum(1 for op in result.graph.ops() if result.records[op.id].role is not Role.HOST),
        "ops_by_role": {role.value: roles[role] for role in Role if roles[role]},
        "time_by_class_ns": dict(totals.by_class_ns),
        "time_by_bound_ns": dict(totals.by_bound_ns),
        **launch_figures(totals, device),
        "chains": len(result.chains) - len(failed),
        "chains_failed": len(failed),
        "reshards": roles[Role.RESHARD],
        "loads": roles[Role.LOAD],
        "spills": roles[Role.SPILL],
        "dram_read_bytes_total": totals.dram_read_bytes,
        "dram_write_bytes_total": totals.dram_write_bytes,
        "l1_peak_bytes": max((r.predicted.peak_l1_bytes for r in result.records.values() if r.predicted), default=0),
        "l1_limit_bytes": device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap),
        "dram_peak_bank_bytes": report.peak_dram_bank_bytes,
        "dram_bank_bytes": device.dram_bank_bytes,
        **l1_weight_figures(result),
        "l1_resident_fraction": l1_resident_fraction(result),
        "fallbacks": [],
        "rewritten": [],
        "unsupported": unsupported,
        "numeric_risks": [risk.to_json() for risk in numeric_risks(result.graph)],
        "check": None,
        "warnings": [*warnings, *unpriced(result.graph)],
    }


def reaches(lower_bound_ns: int | None, time_ns: int) -> bool:
    """Whether a plan takes no longer than its lower bound, transfers around ops on the host included in both."""
    return lower_bound_ns is not None and time_ns <= lower_bound_ns


def unpriced(graph: Graph) -> list[str]:
    """The warning of ops whose time is not part of the sum, if there are any."""
    count = sum(opdef(op.op).opaque for op in graph.ops())
    return [f"{count} op(s) run on the host: their transfers are priced, their own time is not"] if count else []


def launch_figures(totals: Totals, device: DeviceSpec) -> dict[str, int | None]:
    """Whole-model times: kernels with the gaps of a trace, and with the host dispatching every program."""
    if not totals.parts_ns:
        return {"programs": 0, "traced_ns": None, "untraced_ns": None}
    known = constants(device.arch)
    spent = sum(totals.parts_ns)
    untraced = sum(max(ns, known["dispatch_ns"]) for ns in totals.parts_ns)
    return {
        "programs": len(totals.parts_ns),
        "traced_ns": round(totals.time_ns + known["gap_ns"] * len(totals.parts_ns)),
        "untraced_ns": round(totals.time_ns - spent + untraced),
    }


def l1_weight_figures(result: OptimizedGraph) -> dict[str, int]:
    """What the weights kept in L1 take: on every core, and as tensors."""
    each = total = 0
    for v in weights_in_l1(result):
        value, layout = result.graph.value(v), result.layouts[v]
        each += l1_bytes_per_core(value.shape, value.dtype, layout, result.device)
        total += tensor_bytes(value.shape, value.dtype, layout.page_layout)
    return {"l1_weights_bytes": each, "l1_weights_bytes_total": total}


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
