"""The pipeline: one straight list of stages from a model to a verified result.

    import -> page layouts -> scalar types -> legal layouts and configs -> policy -> transform -> verify -> predict
    [-> replay on the real tt-metal, and again from the start with what it refused]

Every stage announces itself through a `ProgressEvent`, and its wall time ends up in `timings`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.device import DeviceSpec, board_option
from optimizer.errors import (
    InfeasibleError,
    OpModelError,
    OptionError,
    TimeLimitError,
    UnsupportedOpError,
    VerificationError,
)
from optimizer.garbage import rare_collections
from optimizer.importers.passes.tile_padding import with_filled_padding
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.input_overrides import with_overridden_inputs
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR
from optimizer.layouts.overrides import Overrides, parse_overrides
from optimizer.layouts.page_layouts import AssignPageLayouts
from optimizer.layouts.scalar_dtypes import ScalarDataTypeAnalysis, apply_dtype_overrides
from optimizer.layouts.weight_dtypes import apply_block_weights
from optimizer.legality import legal_analyses, legal_configs
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.pricing import OpPricer
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.opmodel.ttnn_calls import call_text
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from optimizer.runnable import refused_convolutions, rewritten
from optimizer.runnable import warnings as rewriting_warnings
from optimizer.sharding.base import INTERRUPTED, Plan, PolicyInput
from optimizer.sharding.fallbacks import note_fallbacks
from optimizer.sharding.overriding import decide_overridden, note_overrides, noted
from optimizer.sharding.registry import create_policy
from optimizer.summary import Predictor, Totals, predict, summarise
from optimizer.transform.apply import AppliedPlan, ApplyPlan
from optimizer.transform.reservations import placed_reservations
from optimizer.verify import VerifyReport, verify

if TYPE_CHECKING:
    from optimizer.importers import ImportedModel

STAGES = (
    "import",
    "page-layouts",
    "scalar-dtypes",
    "legal-configs",
    "baseline",
    "policy",
    "transform",
    "verify",
    "predict",
    "replay",
)
SHOWN_ERRORS = 5
DRAM_ALTERNATIVES = ("a board with more DRAM", "weights_dtype bf16 or bfp8_b", "a smaller batch or sequence")
"""What may help where DRAM is too small."""
CLOSING_PER_BASELINE = 2.5
"""The stages after the policy, in terms of the stage that plans everything in DRAM (1.5 to 2.4 on graphs of 100 to
20,000 ops)."""
MOST_CLOSING = 0.4
"""Share of a time limit that is kept for them at most."""


@dataclass(frozen=True)
class ProgressEvent:
    """Stage `index` of `count` has begun, or has something to say."""

    stage: str
    index: int
    count: int
    detail: str = ""


Progress = Callable[[ProgressEvent], None]


def optimize_file(
    source: Path | bytes,
    options: Options,
    progress: Progress | None = None,
    name: str | None = None,
    interrupted: Callable[[], bool] = bool,
) -> OptimizedGraph:
    """Import a model (ONNX or JSON, by content), optimise it for `options.board`, verify it.

    Once `interrupted()` says so the policy ends its search, and the result is its best plan so far.
    """
    stages = Stages(progress, options.time_limit, interrupted)
    device = DeviceSpec.load(options.board)
    with stages.run("import"):
        model = import_model(source, options, name, stages.poll)
    result = _optimize(model, device, options, stages)
    result.source = source if isinstance(source, Path) else None
    return result


def optimize(
    model: ImportedModel | Graph,
    device: DeviceSpec,
    options: Options,
    progress: Progress | None = None,
    interrupted: Callable[[], bool] = bool,
) -> OptimizedGraph:
    """Lay out an imported model or a graph on a board. The input graph is not changed.

    Once `interrupted()` says so the policy ends its search, and the result is its best plan so far.
    Raises InfeasibleError when an op cannot run even from DRAM, VerificationError when the finished plan
    fails its re-check, and InputError for options that do not fit the graph.
    """
    return _optimize(model, device, options, Stages(progress, options.time_limit, interrupted))


def import_model(
    source: Path | bytes, options: Options, name: str | None = None, checkpoint: Callable[[], None] = lambda: None
) -> ImportedModel:
    """Read a model as the options say (input shapes, element types, limits).

    `checkpoint` is called all the time; what it raises ends the import.
    """
    from optimizer.importers import load
    from optimizer.importers.model import KEEP, ImportLimits

    activations = options.activations_dtype
    weights = options.weights_dtype or activations
    if weights is not None and DType(weights).is_block_float:  # `apply_block_weights` chooses which ones
        weights = None if activations is None else DType.BF16.value
    return load(
        source,
        input_shapes=options.input_shapes,
        limits=ImportLimits(max_nodes=options.max_nodes, max_bytes=options.max_model_bytes),
        activations_dtype=KEEP if activations is None else DType(activations),
        weights_dtype=KEEP if weights is None else DType(weights),
        name=name,
        checkpoint=checkpoint,
    )


@rare_collections()
def _optimize(model: ImportedModel | Graph, device: DeviceSpec, options: Options, stages: Stages) -> OptimizedGraph:
    """One solve; with `check`, solved and replayed in turn until the backend takes the whole program."""
    options = _effective(device, options)
    _check_l1_small(device, options)
    _check_supported(model, options)
    if isinstance(model, Graph):
        model = with_filled_padding(model)
    opmodel = CachedOpModel(create_opmodel(options.opmodel, device, options.l1_small_bytes))
    if options.check is None:
        result, _ = _solve(model, opmodel, options, stages)
    else:
        from optimizer.repair import solve_checked

        judge = create_opmodel(options.check, device, options.l1_small_bytes)
        result = solve_checked(lambda: _solve(model, opmodel, options, stages), opmodel, judge, stages)
    if options.fuse_kernels:
        from optimizer.export.kernels.binding import fused_kernels, savings

        result.fused_kernels = savings(result, fused_kernels(result))
    result.timings = {**stages.seconds(), **result.timings, "opmodel": opmodel.statistics_json()}
    return result


def _solve(
    model: ImportedModel | Graph, opmodel: CachedOpModel, options: Options, stages: Stages
) -> tuple[OptimizedGraph, VerifyReport]:
    """The whole data flow on one screen."""
    problem = prepare(model, opmodel, options, stages)
    check_calls(problem)
    pages = problem.pricer.pages
    with stages.run("baseline"), opmodel.stage("baseline"):
        baseline = dram_baseline(problem, opmodel)
    with stages.run("policy"), opmodel.stage("policy"):
        plan = note_fallbacks(problem, note_overrides(problem, create_policy(options.policy).run(problem)))
        if stages.search_is_over():
            why = stages.stopped_because()
            plan = replace(plan, warnings=(*plan.warnings, f"{why}: this is the best plan found until then"))
    with stages.run("transform"):
        applied = ApplyPlan(problem.graph, pages, plan).apply()
        result = _result(model, applied, plan, opmodel.device, options)
    with stages.run("verify"), opmodel.stage("verify"):
        report = checked(result, opmodel)
    with stages.run("predict"), opmodel.stage("predict"):
        predict(result, opmodel, report.steps)
        warnings = (*_warnings(model, plan), *rewriting_warnings(problem.rewritten))
        result.summary = summarise(result, opmodel, report, baseline, plan.status, warnings, plan.lower_bound_ns)
        result.summary["baselines"].update(plan.baselines)
        result.summary["rewritten"] = [dict(note) for note in problem.rewritten]
        result.summary["fallbacks"] = [{"cause": f.cause, "ops": list(f.ops)} for f in plan.fallbacks]
    result.timings = {"layout_pools": problem.pools.pool_count}
    return result, report


def prepare(
    model: ImportedModel | Graph, opmodel: CachedOpModel, options: Options, stages: Stages | None = None
) -> PolicyInput:
    """Everything a policy needs: the graph with its page layouts, and every op's legal configs."""
    stages = Stages(None) if stages is None else stages
    graph = model if isinstance(model, Graph) else model.graph
    problem = _problem(graph, opmodel, options, stages)
    refused = refused_convolutions(problem)
    if not refused:
        return problem
    graph, notes = runnable(graph, refused, opmodel, options)
    return replace(_problem(graph, opmodel, options, stages), rewritten=tuple(notes))


def runnable(
    graph: Graph, refused: Mapping[str, str], opmodel: CachedOpModel, options: Options
) -> tuple[Graph, list[dict[str, Any]]]:
    """The graph with refused convolutions run in another way, and what was done."""
    free = replace(options, override_output_layout="", override_conv2d_config="", insert_memreconfig="")
    return rewritten(graph, refused, lambda small: _problem(small, opmodel, free, Stages(None)))


def _problem(graph: Graph, opmodel: CachedOpModel, options: Options, stages: Stages) -> PolicyInput:
    """A graph with page layouts and legal configs. The graph itself is not changed."""
    graph = graph.copy()
    graph.prune()
    with stages.run("page-layouts"):
        with_overridden_inputs(graph, options.override_output_layout)
        overrides = parse_overrides(
            graph, options.override_output_layout, options.override_conv2d_config, options.insert_memreconfig
        )
        graph = apply_dtype_overrides(graph, overrides)
        conv_weights = apply_block_weights(graph, block_dtype(options))
        pages = _assign_pages(opmodel, options, overrides).apply(graph)
        if options.math_fidelity is not None:
            set_math_fidelity(graph, options.math_fidelity)
    with stages.run("scalar-dtypes"):
        scalar_types = ScalarDataTypeAnalysis().apply(graph, overrides)
    limit_bytes = opmodel.device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap)
    pricer = OpPricer(graph, pages, opmodel, limit_bytes)
    pools = LegalTensorLayoutAnalysis(opmodel.device, scalar_types, limit_bytes)
    with stages.run("legal-configs"), opmodel.stage("legal-configs"):
        legal_of = legal_analyses(graph, pages, pools, pricer, options, conv_weights)
        problem = PolicyInput(
            graph,
            legal_configs(graph, pricer, overrides, conv_weights, legal_of, stages.poll),
            pools,
            pricer,
            options,
            overrides.memreconfigs,
            stages.say,
            stages.search_is_over,
            stages.interrupted,
        )
        return replace(problem, overridden=decide_overridden(problem, overrides, legal_of), noted=noted(overrides))


def _check_l1_small(device: DeviceSpec, options: Options) -> None:
    """L1_SMALL must leave room for tensors and circular buffers."""
    limit = device.cb_limit_bytes
    if options.l1_small_bytes >= limit:
        message = f"'l1_small_bytes' must be less than the {limit} B of L1 on {device.name}"
        raise OptionError(f"{message}, got {options.l1_small_bytes}", node="options", limit=limit)


def _check_supported(model: ImportedModel | Graph, options: Options) -> None:
    """Ops that TTNN lacks are refused by name, with the importer's reason, unless they may run on the host."""
    graph, reasons = (model, {}) if isinstance(model, Graph) else (model.graph, model.report.reasons)
    lacking = [op for op in graph.run_ops() if opdef(op.op).opaque]
    if lacking and not options.allow_host_ops:
        shown = ", ".join(f"'{op.id}' ({op.op})" for op in lacking[:SHOWN_ERRORS])
        more = f" and {len(lacking) - SHOWN_ERRORS} more" if len(lacking) > SHOWN_ERRORS else ""
        why = reasons.get(lacking[0].name)
        raise UnsupportedOpError(
            f"TTNN cannot run {len(lacking)} op(s) of this graph: {shown}{more}; "
            + (f"'{lacking[0].name}': {why}; " if why else "")
            + "option 'allow_host_ops' runs them on the host, between two transfers",
            node=lacking[0].id,
        )


def check_calls(problem: PolicyInput) -> None:
    """Every op can be said as a TTNN call with its attributes; else UnsupportedOpError, before anything is solved."""
    said: set[Hashable] = set()
    for op in problem.graph.run_ops():
        signature = problem.pricer.signature(op)
        if opdef(op.op).opaque or signature in said:
            continue
        said.add(signature)
        way = problem.legal[op.id].dram[0]
        query = problem.pricer.query(op, problem.pricer.default_operands(op), way.config, way.request)
        try:
            call_text(query, [f"operand_{k}" for k in range(len(op.inputs))])
        except OpModelError as error:
            raise UnsupportedOpError(f"'{op.id}' ({op.op}) has no TTNN call: {error.message}", node=op.id) from error


def _effective(device: DeviceSpec, options: Options) -> Options:
    """The options that hold: of the board given, and below level 2, where nothing is sharded, of policy `dram`."""
    board = board_option(device, options.board)
    policy = options.policy if options.optimization_level == 2 else "dram"
    return replace(options, board=board, policy=policy)


def _assign_pages(opmodel: CachedOpModel, options: Options, overrides: Overrides) -> AssignPageLayouts:
    """The pass with the user's wishes; it asks the OpModel whether an op runs on row-major DRAM operands."""

    def runs_row_major(graph: Graph, op: Op) -> bool:
        operands = [DRAM_ROW_MAJOR] * len(op.inputs)
        pricer = OpPricer(graph, {}, opmodel, opmodel.device.cb_limit_bytes)
        answer = pricer.constraints(op, operands, None, DRAM_ROW_MAJOR.memory)
        return answer.valid and all(t.layout == DRAM_ROW_MAJOR for t in answer.outputs)

    asked = {op_id: o.page_layout for op_id, o in overrides.output_layouts.items() if o.page_layout is not None}
    return AssignPageLayouts(
        runs_row_major=runs_row_major if options.row_major_enabled else None,
        asked=asked,
        can_run_row_major=runs_row_major,
    )


def block_dtype(options: Options) -> DType | None:
    """The block-float type that matmul and conv weights shall have, if any."""
    wanted = options.weights_dtype or options.activations_dtype
    return DType(wanted) if wanted is not None and DType(wanted).is_block_float else None


def set_math_fidelity(graph: Graph, math_fidelity: str) -> None:
    """Give every op that has a math fidelity (matmuls and convs) the user's."""
    for op in graph.run_ops():
        if "math_fidelity" in opdef(op.op).attrs:
            graph.replace_op(op.with_attrs(math_fidelity=math_fidelity))


def checked(result: OptimizedGraph, opmodel: CachedOpModel) -> VerifyReport:
    """The verifier's report; VerificationError if it found anything, InfeasibleError where DRAM is too small."""
    report = verify(result, opmodel)
    if report.peak_dram_bank_bytes > result.device.dram_bank_bytes:
        place, message = report.errors[-1]
        raise InfeasibleError(
            f"'{place}': {message}",
            node=place,
            limit=result.device.dram_bank_bytes * result.device.dram_banks,
            alternatives=DRAM_ALTERNATIVES,
        )
    if not report.ok:
        shown = "; ".join(f"{place}: {message}" for place, message in report.errors[:SHOWN_ERRORS])
        more = len(report.errors) - SHOWN_ERRORS
        raise VerificationError(
            f"the finished plan fails its re-check: {shown}" + (f" (and {more} more)" if more > 0 else ""),
            node=report.errors[0][0],
        )
    return report


def dram_baseline(problem: PolicyInput, opmodel: CachedOpModel) -> Totals:
    """What the same graph takes with everything in DRAM."""
    plan = create_policy("dram").run(problem)
    applied = ApplyPlan(problem.graph, problem.pricer.pages, plan).apply()
    return Predictor(applied.graph, applied.layouts, opmodel).totals(applied.records)


def _result(
    model: ImportedModel | Graph, applied: AppliedPlan, plan: Plan, device: DeviceSpec, options: Options
) -> OptimizedGraph:
    return OptimizedGraph(
        graph=applied.graph,
        layouts=applied.layouts,
        records=applied.records,
        device=device,
        options=options,
        model=_model_record(model),
        chains=plan.chains,
        reservations=placed_reservations(plan, applied),
    )


def _model_record(model: ImportedModel | Graph) -> dict[str, Any]:
    if isinstance(model, Graph):
        return {"name": model.name, "sha256": None}
    report = model.report
    return {
        "name": model.graph.name,
        "sha256": model.sha256,
        "import": report.to_json(),
    }


def _warnings(model: ImportedModel | Graph, plan: Plan) -> tuple[str, ...]:
    imported = () if isinstance(model, Graph) else model.report.warnings
    return (*imported, *plan.warnings)


MUST_FINISH = ("import", "page-layouts", "scalar-dtypes", "legal-configs", "baseline", "policy")
"""Stages that a run cannot do without: past the time limit, none of them is begun."""


@dataclass
class Stages:
    """Announces stages, measures them, and keeps the time limit."""

    progress: Progress | None
    time_limit: float | None = None
    interrupted: Callable[[], bool] = bool
    """Whether the user asked the run to end."""
    _begun: float = field(default_factory=time.monotonic)
    _seconds: dict[str, float] = field(default_factory=dict)
    _current: str = STAGES[0]

    @contextmanager
    def run(self, stage: str) -> Iterator[None]:
        self._current = stage
        if stage in MUST_FINISH:
            self.poll()
        self.say("")
        start = time.perf_counter()
        yield
        self._seconds[stage] = self._seconds.get(stage, 0.0) + time.perf_counter() - start

    def poll(self) -> None:
        """TimeLimitError, in stages that a run cannot do without, once it shall end."""
        if self._is_late(0.0) or self.interrupted():
            raise TimeLimitError(f"{self.stopped_because()} in stage '{self._current}': nothing to return")

    def search_is_over(self) -> bool:
        """Whether the policy shall return what it has, which is still to be applied, verified and predicted."""
        return self._is_late(self._closing_s()) or self.interrupted()

    def stopped_because(self) -> str:
        """Why the run shall end, for people."""
        return INTERRUPTED if self.interrupted() else f"time limit of {self.time_limit:g} s reached"

    def _closing_s(self) -> float:
        """Seconds that the stages after the policy take, by what the plan in DRAM took."""
        return min(CLOSING_PER_BASELINE * self._seconds.get("baseline", 0.0), MOST_CLOSING * (self.time_limit or 0.0))

    def _is_late(self, reserved_s: float) -> bool:
        return self.time_limit is not None and time.monotonic() - self._begun > self.time_limit - reserved_s

    def say(self, detail: str) -> None:
        if self.progress is not None:
            self.progress(ProgressEvent(self._current, STAGES.index(self._current), len(STAGES), detail))

    def seconds(self) -> dict[str, Any]:
        return {"stages_s": {k: round(v, 6) for k, v in self._seconds.items()}}
