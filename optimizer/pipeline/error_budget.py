"""An error budget: what each tensor's error does to the outputs, and what the plan's really do, measured and corrected.

error-budget    sensitivities of all tensors, by one pass backwards over the model in float
measured-error  every rounding of the written plan emulated; where the outputs are worse than the budget allows, or
                much better, the sensitivities are corrected by that, and the plan is searched for again; where no plan
                keeps the budget, that in the model's own types is tried, and one in f32
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from optimizer.errors import ExecutionError, OptionError, TimeLimitError
from optimizer.importers.model import ImportLimits, ImportOptions
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline.judging import Judge
from optimizer.pipeline.raising import raised
from optimizer.pipeline.work import Stage, Work
from optimizer.precision.budget import ErrorBudget, pcc_of_error
from optimizer.precision.correction import Trial, next_scale
from optimizer.process import logs
from optimizer.result.summary import Precision
from optimizer.sharding.base import Plan
from optimizer.sharding.whole_graph.budgeted import plan_errors
from optimizer.values.given import model_values

_log = logs.room("pipeline")

MOST_ROUNDS = 4
"""Plans that are searched for within one budget, each with sensitivities corrected by the one before."""
SPARING = 0.6
"""Share of the budget below which a plan's measured error leaves room for a faster one."""


@dataclass(frozen=True)
class BudgetErrors(Stage):
    """Measures what an error of each tensor does to the outputs, if the user gives an error budget."""

    name: ClassVar[str] = "error-budget"
    takes: ClassVar[tuple[str, ...]] = ("problem",)
    gives: ClassVar[tuple[str, ...]] = ("problem", "values", "judged", "unjudged")

    least_pcc: float | None
    policy: str
    seed: int
    max_nodes: int
    max_model_bytes: int

    def apply(self, work: Work) -> None:
        work.values, work.judged, work.unjudged = None, (), None
        if self.least_pcc is None:
            return
        graph = work.problem.graph
        limits = ImportLimits(max_nodes=self.max_nodes, max_bytes=self.max_model_bytes)
        source, options = _read_from(work, ImportOptions(work.options.input_shapes, work.options.dims, limits))
        values = model_values(graph, work.given, source, options, self.seed)
        from optimizer.values.sensitivity import measure  # loads the emitter of programs

        try:
            found = measure(graph, values.arrays, self.seed, work.clock.poll_closing)
        except ExecutionError as error:  # a constant output, or one that is not a number
            work.unjudged = error.message
            return
        work.values, work.judged = values, found.judged
        work.problem = replace(work.problem, budget=ErrorBudget(self.least_pcc, found.of, found.weights))


def _read_from(work: Work, options: ImportOptions) -> tuple[Path | bytes | None, ImportOptions]:
    """Where the model's weights are, and how to import it from there; None: nobody knows."""
    source = work.source
    if isinstance(source, Graph):
        return None, options
    if isinstance(source, Path | bytes):
        return source, options
    return source.source, source.options or options


@dataclass(frozen=True)
class _Tried:
    """A plan whose errors were measured."""

    work: Work
    time_ns: int
    precision: Precision

    @staticmethod
    def of(work: Work, found: Precision) -> _Tried:
        return _Tried(work.fork(), plan_ns(work, work.plan), found)

    @property
    def is_kept(self) -> bool:
        """Whether the budget is."""
        return self.precision.kept


@dataclass(frozen=True)
class MeasureErrors(Stage):
    """Emulates the plan, if there is a budget, and searches again where its error is not what was expected."""

    name: ClassVar[str] = "measured-error"
    takes: ClassVar[tuple[str, ...]] = (
        "result", "problem", "plan", "values", "judged", "origin", "imported", "rewritten",
    )  # fmt: skip
    gives: ClassVar[tuple[str, ...]] = ("result", "problem", "plan", "rewritten", "precision")
    closing: ClassVar[bool] = True

    prepared: tuple[Stage, ...]
    """From the imported graph to the problem."""
    again: tuple[Stage, ...]
    """From the problem to the written plan."""

    def apply(self, work: Work) -> None:
        work.precision = None
        if work.problem.budget is None or work.values is None:
            return
        judge = Judge(work.problem.graph, work.values, work.judged, work.clock)
        tried: list[_Tried] = []
        try:
            for found in self._rounds(work, judge):
                tried.append(found)
            if not any(t.is_kept for t in tried):
                for found in self._in_other_types(work, judge):
                    tried.append(found)
        except TimeLimitError:
            if not any(t.is_kept for t in tried):
                raise
        kept = [t for t in tried if t.is_kept]
        best = min(kept, key=lambda t: t.time_ns) if kept else min(tried, key=lambda t: t.precision.measured_error)
        work.result, work.problem, work.plan = best.work.result, best.work.problem, best.work.plan
        work.rewritten, work.precision = best.work.rewritten, best.precision.model_copy(update={"rounds": len(tried)})
        if not best.is_kept:
            work.plan = replace(work.plan, warnings=(*work.plan.warnings, _missed(work.plan, work.precision)))

    def _rounds(self, work: Work, judge: Judge) -> Iterator[_Tried]:
        """The plan and those that are searched for with sensitivities corrected by the ones before."""
        budget, trials = work.problem.budget, list[Trial]()
        assert budget is not None
        for number in range(1, MOST_ROUNDS + 1):
            found = measured(work, judge)
            _log.info("measured error", round=number, predicted=found.predicted_error, measured=found.measured_error)
            yield _Tried.of(work, found)
            if found.kept and found.measured_error >= SPARING * budget.most_error:
                return
            if number == MOST_ROUNDS or work.clock.search_is_over() or found.predicted_error <= 0.0:
                return
            trials.append(Trial(found.scale, found.predicted_error, found.measured_error))
            scale = next_scale(trials, budget.most_error)
            if scale is None:
                return
            work.problem = replace(work.problem, budget=replace(budget, scale=scale), exact=work.plan.exact)
            before = _ways(work.plan)
            for stage in self.again:
                stage.apply(work)
            if _ways(work.plan) == before:
                return

    def _in_other_types(self, work: Work, judge: Judge) -> Iterator[_Tried]:
        """The plan without a choice of types, and plans with results in f32, until one keeps the budget."""
        exact = exact_work(work, self.again)
        found = measured(exact, judge).model_copy(update={"given_up": True})
        yield _Tried.of(exact, found)
        if found.kept:
            return
        for other, ops in raised(work, exact.plan.errors, self.prepared, self.again):
            other.problem = replace(other.problem, budget=work.problem.budget)
            errors = plan_errors(other.problem, other.plan)
            other.plan = replace(other.plan, exact=other.plan, errors=errors)
            found = measured(other, judge).model_copy(
                update={"given_up": True, "raised": ops, "exact_ns": found.exact_ns}
            )
            yield _Tried.of(other, found)
            if found.kept:
                return


def _missed(plan: Plan, found: Precision) -> str:
    """By how much the nearest plan misses the budget, and by which op most of all."""
    worst = max(plan.errors, key=lambda op_id: plan.errors[op_id], default=None)
    share = 0.0 if worst is None else plan.errors[worst] / max(sum(plan.errors.values()), 1e-30)
    by = f"; {100 * share:.0f} % of the predicted error is that of '{worst}'" if share > 0.0 else ""
    return (
        f"no plan keeps a correlation of {found.least_pcc}, and this one comes nearest: its outputs are at "
        f"{found.measured_pcc:.5f}{by}"
    )


def check_budget(options: Options) -> None:
    """OptionError for what an error budget, if there is one, cannot go with."""
    if options.least_pcc is None:
        return
    if options.policy != "global":
        raise OptionError("an error budget needs policy global", node="least_pcc", alternatives=("policy global",))
    if options.fuse_kernels:
        raise OptionError(
            "kernels of ours are not chosen within an error budget: give one of the two",
            node="least_pcc",
            alternatives=("without fuse_kernels", "without least_pcc"),
        )


def exact_work(work: Work, again: tuple[Stage, ...]) -> Work:
    """The run with the best plan in the graph's own types, written."""
    exact = work.plan.exact
    assert exact is not None
    other = work.fork()
    other.plan = replace(exact, exact=exact, errors=plan_errors(work.problem, exact))
    for stage in again[1:]:
        stage.apply(other)
    return other


def measured(work: Work, judge: Judge) -> Precision:
    """What the plan's program gives beside the model, and what was predicted."""
    values, plan, budget = work.values, work.plan, work.problem.budget
    assert values is not None
    assert budget is not None
    assert plan.exact is not None
    found = judge.measured(work.result, budget.most_error)
    predicted = sum(plan.errors.values())
    return Precision(
        least_pcc=budget.least_pcc,
        predicted_pcc=pcc_of_error(predicted),
        measured_pcc=found.pcc,
        predicted_error=predicted,
        measured_error=found.error,
        kept=found.error <= budget.most_error,
        outputs=found.outputs,
        rounds=1,
        scale=budget.scale,
        weights=values.weights,
        inputs=values.inputs,
        samples=len(found.errors),
        exact_ns=plan_ns(work, plan.exact),
        given_up=False,
        raised=(),
        front=(),
    )


def plan_ns(work: Work, plan: Plan) -> int:
    """Predicted time of a plan."""
    from optimizer.sharding.plan_program import replay_plan

    return replay_plan(work.problem.pricer, plan.schedule, plan.decisions).time_ns


def _ways(plan: Plan) -> dict[str, object]:
    """How every op runs, whatever the plan says of why."""
    return {op_id: (decision.candidate, decision.operands) for op_id, decision in plan.decisions.items()}
