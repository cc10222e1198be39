"""The written result is checked from scratch, priced, and summed up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, cast

from optimizer.errors import InfeasibleError, VerificationError
from optimizer.importers.passes import fed_inputs
from optimizer.ir.graph import Graph
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
from optimizer.pipeline.work import Stage, Work
from optimizer.result import OptimizedGraph, Role
from optimizer.result.summary import Baselines, NumericRisk, Status, Summary
from optimizer.sharding.base import Plan
from optimizer.verify import VerifyReport, verify

SHOWN_ERRORS = 5
DRAM_ALTERNATIVES = ("a board with more DRAM", "weights_dtype bf16 or bfp8_b", "a smaller batch or sequence")
"""What may help where DRAM is too small."""


@dataclass(frozen=True)
class Verify(Stage):
    """Checks the result from scratch: VerificationError if anything is wrong, InfeasibleError where DRAM is full."""

    name: ClassVar[str] = "verify"
    takes: ClassVar[tuple[str, ...]] = ("result", "problem")
    gives: ClassVar[tuple[str, ...]] = ("report",)
    closing: ClassVar[bool] = True

    def apply(self, work: Work) -> None:
        device = work.opmodel.device
        _check_outputs(work.result.graph, work.problem.graph)
        report = verify(work.result, work.opmodel)
        if report.peak_dram_bank_bytes > device.dram_bank_bytes:
            place, message = report.errors[-1]
            raise InfeasibleError(
                f"'{place}': {message}",
                node=place,
                limit=device.dram_bank_bytes * device.dram_banks,
                alternatives=DRAM_ALTERNATIVES,
            )
        if not report.ok:
            shown = "; ".join(f"{place}: {message}" for place, message in report.errors[:SHOWN_ERRORS])
            more = len(report.errors) - SHOWN_ERRORS
            raise VerificationError(
                f"the finished plan fails its re-check: {shown}" + (f" (and {more} more)" if more > 0 else ""),
                node=report.errors[0][0],
            )
        work.report = report


def _check_outputs(graph: Graph, problem: Graph) -> None:
    """VerificationError where a plan gives an output in another element type than it was asked for."""
    for made, asked in zip(graph.outputs, problem.outputs, strict=True):
        found, wanted = graph.value(made).dtype, problem.value(asked).dtype
        if found is not wanted:
            raise VerificationError(f"the finished plan gives output '{made}' as {found}, not {wanted}", node=made)


@dataclass(frozen=True)
class Predict(Stage):
    """Writes into every op's record what the OpModel predicts of it."""

    name: ClassVar[str] = "predict"
    takes: ClassVar[tuple[str, ...]] = ("result", "report")
    gives: ClassVar[tuple[str, ...]] = ("result",)
    closing: ClassVar[bool] = True

    def apply(self, work: Work) -> None:
        work.result = predicted(work.result, work.opmodel, work.report)


def predicted(result: OptimizedGraph, model: OpModel, report: VerifyReport) -> OptimizedGraph:
    """A result with a `Prediction` in the record of every op of a run; `report` is the verifier's."""
    predictor, records = Predictor(result.graph, result.layouts, model), dict(result.records)
    limits = op_limits(result)
    for step in report.steps:
        record = records[step.op]
        prediction = predictor.prediction(step.op, record, step.total_bytes, limits[step.op])
        records[step.op] = replace(record, predicted=prediction)
    return replace(result, records=records)


@dataclass(frozen=True)
class Summarise(Stage):
    """Adds the predictions up to the figures that a person reads first."""

    name: ClassVar[str] = "summary"
    takes: ClassVar[tuple[str, ...]] = (
        "result", "report", "baseline", "plan", "origin", "imported", "rewritten", "values", "precision",
        "unjudged",
    )  # fmt: skip
    gives: ClassVar[tuple[str, ...]] = ("result", "kept")
    closing: ClassVar[bool] = True

    def apply(self, work: Work) -> None:
        plan = work.plan
        needed = (rewrite.warning for rewrite in work.rewritten if rewrite.is_needed)
        warnings = (*work.origin.warnings, *plan.warnings, *needed)
        summary = summarise(work.result, work.opmodel, work.report, work.baseline, plan)
        measured = () if work.values is None else work.values.warnings
        warnings = (*measured, *_unjudged(work), *warnings, *_of_inputs(work), *summary.warnings)
        summary = summary.model_copy(
            update={
                "rewritten": work.rewritten,
                "warnings": warnings,
                "precision": work.precision,
                "unjudged": work.unjudged,
            }
        )
        work.kept = work.result = replace(work.result, priced=summary)


def _unjudged(work: Work) -> tuple[str, ...]:
    if work.unjudged is None:
        return ()
    return (f"an error budget was not planned for, the plan has the model's own element types: {work.unjudged}",)


def summarise(result: OptimizedGraph, model: OpModel, report: VerifyReport, baseline: Totals, plan: Plan) -> Summary:
    """The figures of a result whose ops have their predictions; `report` is the verifier's, `baseline` all in DRAM."""
    totals = Predictor(result.graph, result.layouts, model).totals(result.records, result.fused_kernels)
    launches, weights = launch_figures(totals, model.launch), l1_weight_figures(result)
    interval = interval_figures(totals, model)
    roles = Counter(record.role for record in result.records.values())
    options, device = result.options, result.device
    failed = sum(chain.state == "failed" for chain in result.chains)
    bound = plan.lower_bound_ns
    proven = plan.status != "optimal" or reaches(bound, totals.time_ns)
    return Summary(
        status=cast(Status, plan.status) if proven else "feasible",
        policy=options.policy,
        opmodel=options.opmodel,
        predicted_time_ns=totals.time_ns,
        predicted_low_ns=interval["predicted_low_ns"],
        predicted_high_ns=interval["predicted_high_ns"],
        lower_bound_ns=bound,
        gap=None if bound is None else max(0.0, 1 - bound / max(1, totals.time_ns)),
        baselines=_baselines(baseline, totals.time_ns if options.policy == "dfsharding" else None, plan.baselines),
        limit=limit_of(result, {op_id: r.predicted for op_id, r in result.records.items() if r.predicted}),
        ops=sum(1 for op in result.graph.ops() if result.records[op.id].role is not Role.HOST),
        ops_by_role={role.value: roles[role] for role in Role if roles[role]},
        time_by_class_ns=totals.by_class_ns,
        time_by_bound_ns=totals.by_bound_ns,
        programs=launches.programs,
        traced_ns=launches.traced_ns,
        untraced_ns=launches.untraced_ns,
        chains=len(result.chains) - failed,
        chains_failed=failed,
        reshards=roles[Role.RESHARD],
        loads=roles[Role.LOAD],
        spills=roles[Role.SPILL],
        dram_read_bytes_total=totals.dram_read_bytes,
        dram_write_bytes_total=totals.dram_write_bytes,
        l1_peak_bytes=max((r.predicted.peak_l1_bytes for r in result.records.values() if r.predicted), default=0),
        l1_limit_bytes=device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap),
        dram_peak_bank_bytes=report.peak_dram_bank_bytes,
        dram_bank_bytes=device.dram_bank_bytes,
        l1_weights_bytes=weights["l1_weights_bytes"],
        l1_weights_bytes_total=weights["l1_weights_bytes_total"],
        l1_resident_fraction=l1_resident_fraction(result),
        fallbacks=plan.fallbacks,
        rewritten=(),
        unsupported=tuple((op.op, op.id) for op in result.graph.ops() if opdef(op.op).opaque),
        numeric_risks=tuple(NumericRisk(**asdict(risk)) for risk in numeric_risks(result.graph)),
        check=None,
        precision=None,
        unjudged=None,
        stopped=None,
        warnings=tuple(unpriced(result.graph)),
    )


def _of_inputs(work: Work) -> list[str]:
    """What there is to say of the order of the inputs' dims."""
    if work.options.channels_last_inputs:
        return fed_inputs.lacking(work.result.graph)
    times_ns = {op_id: r.predicted.time_ns for op_id, r in work.result.records.items() if r.predicted}
    return fed_inputs.advice(work.imported, work.result.graph, times_ns)


def _baselines(dram: Totals, dfsharding_ns: int | None, made: Mapping[str, int]) -> Baselines:
    """The plan in DRAM, this one if it is that of `dfsharding`, and those that the policy made on its way."""
    return Baselines(
        dram_ns=made.get("dram_ns", dram.time_ns),
        dfsharding_ns=made.get("dfsharding_ns", dfsharding_ns),
        dram_read_bytes_total=dram.dram_read_bytes,
        dram_write_bytes_total=dram.dram_write_bytes,
        **{name: ns for name, ns in made.items() if name not in ("dram_ns", "dfsharding_ns")},
    )


@dataclass(frozen=True)
class FuseKernels(Stage):
    """Chooses the regions that the emitted program runs as our kernels, if that is asked for."""

    name: ClassVar[str] = "fuse-kernels"
    takes: ClassVar[tuple[str, ...]] = ("result",)
    gives: ClassVar[tuple[str, ...]] = ("result",)
    closing: ClassVar[bool] = True

    fuse_kernels: bool

    def apply(self, work: Work) -> None:
        result = work.result
        if self.fuse_kernels:
            from optimizer.fusion.binding import fused_records

            kernels, refused = fused_records(result, work.clock.poll_limit)
            result = replace(result, fused_kernels=kernels, refused_kernels=refused)
        work.result = result
