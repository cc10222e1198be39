"""What a document states of its plan, compared with what is recomputed from the plan.

Every function takes the `Stated` of a plan that `verify` accepts and yields what differs; `NOT_RECOMPUTED` names what
no function recomputes. A figure that the document does not state is not compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from optimizer.device import DeviceSpec, preset_names
from optimizer.ir.digest import graph_sha256
from optimizer.ir.graph import ValueKind
from optimizer.ir.numeric_risk import numeric_risks
from optimizer.ir.vocabulary import opdef
from optimizer.limit.losses import limit_of
from optimizer.limit.per_op import op_limits
from optimizer.limit.predictions import (
    Predictor,
    Totals,
    interval_figures,
    l1_resident_fraction,
    l1_weight_figures,
    launch_figures,
    reaches,
    unpriced,
)
from optimizer.opmodel.base import OpModel
from optimizer.result import OptimizedGraph, Prediction, Role, prediction_json
from optimizer.result.summary import PhysicalLimit
from optimizer.verify.subject import Error, VerifyReport

NOT_RECOMPUTED = (
    "summary.lower_bound_ns: compared with time, gap and status only",
    "summary.baselines: compared with the plan's time only, `dram` is planned again with --model",
    "summary.fallbacks: ops and roles only, not whether all are named",
    "summary.warnings: that of ops on the host only, those of the import with --model",
    "reasons, statistics of chains, timings",
)
_SUMMARY = "summary"
FASTEST = "global"
"""The policy whose plan is never slower than the baselines."""


@dataclass
class Stated:
    """A result that verifies, what it states of itself, and the OpModel that the figures are recomputed by."""

    result: OptimizedGraph
    model: OpModel
    report: VerifyReport
    kernels: tuple[Mapping[str, Any], ...] = ()
    """The regions that its program runs as kernels, found again;"""
    refused: tuple[Mapping[str, Any], ...] = ()
    """the groups of ops that it does not."""

    @cached_property
    def totals(self) -> Totals:
        return self._predictor.totals(self.result.records, self.kernels)

    @cached_property
    def predictions(self) -> dict[str, Prediction]:
        """What the OpModel says of every op of a run."""
        result, predictor = self.result, self._predictor
        records, limits = result.records, op_limits(result)
        return {s.op: predictor.prediction(s.op, records[s.op], s.total_bytes, limits[s.op]) for s in self.report.steps}

    @cached_property
    def limit(self) -> PhysicalLimit:
        return limit_of(self.result, self.predictions, self.kernels)

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.result.graph, self.result.layouts, self.model)

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        return self.result.summary_json()


def compared(stated: Stated, same_opmodel: bool) -> Iterator[Error]:
    """Everything that differs; figures of an OpModel only where it is the same one."""
    yield from board(stated)
    yield from digests(stated)
    yield from counts(stated)
    yield from judgement(stated)
    yield from fallbacks(stated)
    yield from kernels(stated)
    if same_opmodel:
        yield from predictions(stated)
        yield from sums(stated)


def same(stated: Any, found: Any) -> bool:
    """Equality in which true is no 1, but 1.0 is."""
    if isinstance(stated, bool) or isinstance(found, bool):
        return stated is found
    if isinstance(stated, Mapping) and isinstance(found, Mapping):
        return stated.keys() == found.keys() and all(same(stated[k], found[k]) for k in stated)
    if isinstance(stated, list | tuple) and isinstance(found, list | tuple):
        return len(stated) == len(found) and all(same(a, b) for a, b in zip(stated, found, strict=True))
    return bool(stated == found)


def _differences(stated: Mapping[str, Any], found: Mapping[str, Any], place: str) -> Iterator[Error]:
    for name, value in found.items():
        if name in stated and not same(stated[name], value):
            yield place, f"states {name} {_shown(stated[name])}, recomputed {_shown(value)}"


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]} ..."


# -- where it runs, what it computes --------------------------------------------------------------------------
def board(stated: Stated) -> Iterator[Error]:
    """The device is the preset that the document's option `board` names, unless that is a file."""
    device, statement = stated.result.device, stated.result.stated
    name = None if statement is None else statement.board
    if name is None or name.endswith(".json"):
        return
    if name not in preset_names():
        yield "options", f"board '{name}' is neither a preset nor a file"
    elif DeviceSpec.preset(name) != device:
        wanted, given = DeviceSpec.preset(name).to_json(), device.to_json()
        differ = [key for key in wanted if wanted[key] != given[key]]
        yield "device", f"is not the board '{name}' of the options: {', '.join(differ)} differ"


def digests(stated: Stated) -> Iterator[Error]:
    """The graph has the digest that is stated, as many parameters as were imported, and returns what ops compute."""
    graph, model = stated.result.graph, stated.result.model
    for v in dict.fromkeys(graph.outputs):
        if graph.producer(v) is None and (model.get("sha256") or model.get("import")):
            yield v, "is returned, but no op computes it: imported models return what ops compute"
    given = model.get("graph_sha256")
    if given is not None and given != (found := graph_sha256(graph)):
        yield "model", f"states that its graph has the SHA-256 {given}, it has {found}"
    imported = model.get("import")
    if isinstance(imported, Mapping):
        weights = (v for v in graph.values.values() if v.kind is ValueKind.PARAMETER and graph.producer(v.id) is None)
        yield from _differences(imported, {"parameter_count": sum(v.volume for v in weights)}, "model.import")


# -- figures --------------------------------------------------------------------------------------------------
def predictions(stated: Stated) -> Iterator[Error]:
    """Every op's prediction; ops on the host have none, and either all others have one or none has."""
    records = stated.result.records
    given = {op_id: record.predicted for op_id, record in records.items() if record.predicted is not None}
    if not given and not stated.summary:
        return
    for op_id, record in records.items():
        if record.role is Role.HOST:
            if op_id in given:
                yield op_id, "runs on the host, but states a prediction"
        elif op_id not in given:
            yield op_id, "states no prediction"
        else:
            found = prediction_json(stated.predictions[op_id])
            yield from _differences(prediction_json(given[op_id]), found, op_id)


def sums(stated: Stated) -> Iterator[Error]:
    """The summary's sums over the ops of a run."""
    totals = stated.totals
    found: dict[str, Any] = {
        "predicted_time_ns": totals.time_ns,
        "time_by_class_ns": dict(totals.by_class_ns),
        "time_by_bound_ns": dict(totals.by_bound_ns),
        **interval_figures(totals, stated.model),
        "limit": stated.limit.to_json(),
        **asdict(launch_figures(totals, stated.model.launch)),
        "dram_read_bytes_total": totals.dram_read_bytes,
        "dram_write_bytes_total": totals.dram_write_bytes,
        "l1_peak_bytes": stated.report.peak_l1_bytes,
        "dram_peak_bank_bytes": stated.report.peak_dram_bank_bytes,
    }
    yield from _differences(stated.summary, found, _SUMMARY)


def counts(stated: Stated) -> Iterator[Error]:
    """The summary's counts, and what it repeats of options and board."""
    result, options = stated.result, stated.result.options
    roles = Counter(record.role for record in result.records.values())
    failed = sum(chain.state == "failed" for chain in result.chains)
    found: dict[str, Any] = {
        "policy": options.policy,
        "opmodel": options.opmodel,
        "ops": sum(count for role, count in roles.items() if role is not Role.HOST),
        "ops_by_role": {role.value: roles[role] for role in Role if roles[role]},
        "chains": len(result.chains) - failed,
        "chains_failed": failed,
        "reshards": roles[Role.RESHARD],
        "loads": roles[Role.LOAD],
        "spills": roles[Role.SPILL],
        "l1_limit_bytes": result.device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap),
        "dram_bank_bytes": result.device.dram_bank_bytes,
        **l1_weight_figures(result),
        "l1_resident_fraction": l1_resident_fraction(result),
        "unsupported": [[op.op, op.id] for op in result.graph.ops() if opdef(op.op).opaque],
        "numeric_risks": [asdict(risk) for risk in numeric_risks(result.graph)],
    }
    yield from _differences(stated.summary, found, _SUMMARY)
    for warning in unpriced(result.graph):
        if warning not in stated.summary.get("warnings", [warning]):
            yield _SUMMARY, f"does not warn that {warning}"


def judgement(stated: Stated) -> Iterator[Error]:
    """Time, lower bound, gap, status and baselines fit each other."""
    summary = stated.summary
    if not {"predicted_time_ns", "status"} <= summary.keys():
        return
    time, bound, status = summary["predicted_time_ns"], summary.get("lower_bound_ns"), summary["status"]
    gap = None if bound is None else max(0.0, 1 - bound / max(1, time))
    yield from _differences(summary, {"gap": gap}, _SUMMARY)
    if bound is not None and not 0 <= bound <= time:
        yield _SUMMARY, f"states the lower bound {bound} of a plan of {time} ns"
    reached = reaches(bound, time)
    if status != "fallback" and (status == "optimal") is not reached:
        yield _SUMMARY, f"states status {status} for a plan of {time} ns with the lower bound {bound}"
    baselines = summary.get("baselines") or {}
    policy = stated.result.options.policy
    yield from _differences(baselines, {f"{policy}_ns": time} if policy != FASTEST else {}, f"{_SUMMARY}.baselines")
    slowest = time if policy == FASTEST and status != "fallback" else 0
    for name, given in baselines.items():
        if given is None:
            continue
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            yield f"{_SUMMARY}.baselines", f"states {name} {_shown(given)}"
        elif name.endswith("_ns") and given < slowest:
            yield f"{_SUMMARY}.baselines", f"states {name} {given}, less than the plan's {time}"


def fallbacks(stated: Stated) -> Iterator[Error]:
    """Ops that fell back exist, are in one list only, and give no result in shards."""
    result = stated.result
    seen: set[str] = set()
    for fallback in stated.summary.get("fallbacks") or ():
        for op_id in fallback["ops"]:
            if not result.graph.has_op(op_id) or result.records[op_id].role is Role.HOST or op_id in seen:
                yield f"{_SUMMARY}.fallbacks", f"names '{op_id}', which is no op of a run, or named before"
            elif result.layouts[result.graph.op(op_id).outputs[0]].is_l1:
                yield f"{_SUMMARY}.fallbacks", f"names '{op_id}', whose result is in L1"
            seen.add(op_id)


def kernels(stated: Stated) -> Iterator[Error]:
    """The regions that run as kernels are those that are found again, and so are the groups that do not."""
    given, found = stated.result.fused_kernels, stated.kernels
    refused = stated.result.refused_kernels
    if not stated.summary and not given and not refused:
        return
    if len(found) != len(given):
        yield "fused_kernels", f"states {len(given)} regions, {len(found)} are found"
    for said, region in zip(given, found, strict=False):
        yield from _differences(said, region, f"fused_kernels.{region['kernel']}")
    if len(refused) != len(stated.refused):
        yield "refused_kernels", f"states {len(refused)} groups, {len(stated.refused)} are found"
    for number, (said, group) in enumerate(zip(refused, stated.refused, strict=False)):
        yield from _differences(said, group, f"refused_kernels.{number}")
