"""An error budget: what each tensor's error does to the outputs, and what the plan's really do, measured and corrected.

error-budget    sensitivities of all tensors, by one pass backwards over the model in float
measured-error  every rounding of the written plan emulated; where the outputs are worse than the budget allows, or
                much better, the sensitivities are corrected by that, and the plan is searched for again
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import floor, inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from optimizer import logs
from optimizer.errors import InfeasibleError, OptionError, TimeLimitError
from optimizer.importers.model import ImportLimits, ImportOptions
from optimizer.options import LEAST_PCC, Options
from optimizer.pipeline.work import Stage, Work
from optimizer.precision.budget import LEFT_TO_BUDGET, ErrorBudget, error_of_pcc, pcc_of_error
from optimizer.precision.correction import Trial, next_scale
from optimizer.sharding.base import Plan
from optimizer.summary import MeasuredOutput, Precision
from optimizer.values.compare import compare
from optimizer.values.given import ModelValues, model_values
from optimizer.values.reference.kinds import Array

if TYPE_CHECKING:
    from optimizer.values.graph_values import Seen

_log = logs.room("pipeline")

Outputs = list[list[Array]]
"""Per sample, all outputs."""

MOST_ROUNDS = 4
"""Plans that are searched for within one budget, each with sensitivities corrected by the one before."""
SPARING = 0.6
"""Share of the budget below which a plan's measured error leaves room for a faster one."""


@dataclass(frozen=True)
class BudgetErrors(Stage):
    """Measures what an error of each tensor does to the outputs, if the user gives an error budget."""

    name: ClassVar[str] = "error-budget"
    takes: ClassVar[tuple[str, ...]] = ("problem",)
    gives: ClassVar[tuple[str, ...]] = ("problem", "values")

    least_pcc: float | None
    policy: str
    seed: int
    max_nodes: int
    max_model_bytes: int

    def apply(self, work: Work) -> None:
        work.values = None
        if self.least_pcc is None:
            return
        graph = work.problem.graph
        source = work.source if isinstance(work.source, Path) else None
        limits = ImportLimits(max_nodes=self.max_nodes, max_bytes=self.max_model_bytes)
        options = ImportOptions(work.options.input_shapes, work.options.dims, limits)
        values = model_values(graph, work.given, source, options, self.seed)
        from optimizer.values.sensitivity import measure  # loads the emitter of programs

        found = measure(graph, values.arrays, self.seed, work.clock.poll_closing)
        work.values = values
        work.problem = replace(work.problem, budget=ErrorBudget(self.least_pcc, found.of, found.weights))


@dataclass(frozen=True)
class MeasureErrors(Stage):
    """Emulates the plan, if there is a budget, and searches again where its error is not what was expected."""

    name: ClassVar[str] = "measured-error"
    takes: ClassVar[tuple[str, ...]] = ("result", "problem", "plan", "values", "origin")
    gives: ClassVar[tuple[str, ...]] = ("result", "problem", "plan", "precision")
    closing: ClassVar[bool] = True

    again: tuple[Stage, ...]
    """From the problem to the written plan."""

    def apply(self, work: Work) -> None:
        work.precision = None
        budget, values = work.problem.budget, work.values
        if budget is None or values is None:
            return
        wanted = exact_outputs(work, values)
        kept: tuple[int, Work, Precision] | None = None
        trials: list[Trial] = []
        for number in range(1, MOST_ROUNDS + 1):
            try:
                found = measured(work, values, wanted, number)
            except TimeLimitError:
                if kept is None:
                    raise
                break
            _log.info("measured error", round=number, predicted=found.predicted_error, measured=found.measured_error)
            if found.measured_error <= budget.most_error:
                time_ns = plan_ns(work, work.plan)
                if kept is None or time_ns < kept[0]:
                    kept = (time_ns, work.fork(), found)
                if found.measured_error >= SPARING * budget.most_error:
                    break
            usable = isfinite(found.measured_error) and found.predicted_error > 0.0
            if number == MOST_ROUNDS or work.clock.search_is_over() or not usable:
                break
            trials.append(Trial(found.scale, found.predicted_error, found.measured_error))
            scale = next_scale(trials, budget.most_error)
            if scale is None:
                break
            work.problem = replace(work.problem, budget=replace(budget, scale=scale), exact=work.plan.exact)
            before = _ways(work.plan)
            for stage in self.again:
                stage.apply(work)
            if _ways(work.plan) == before:
                break
        if kept is None:
            kept = self._exact(work, budget, values, wanted)
        work.result, work.problem, work.plan = kept[1].result, kept[1].problem, kept[1].plan
        work.precision = kept[2]

    def _exact(
        self, work: Work, budget: ErrorBudget, values: ModelValues, wanted: Outputs
    ) -> tuple[int, Work, Precision]:
        """The plan without other element types and fidelities, where none with them met the budget."""
        other = exact_work(work, self.again)
        found = measured(other, values, wanted, MOST_ROUNDS)
        if found.measured_error > budget.most_error:
            reached = floor(1e4 * found.measured_pcc) / 1e4
            lower = [f"a least_pcc of at most {reached:.4f}"] if reached >= LEAST_PCC else []
            raise InfeasibleError(
                f"{budget.least_pcc} cannot be met: with every tensor in bf16 and the fidelities of the ops' "
                f"own rules the outputs reach {found.measured_pcc:.6f}",
                node="least_pcc",
                alternatives=(*lower, "no least_pcc, activations_dtype f32"),
            )
        return plan_ns(other, other.plan), other, replace(found, given_up=True)


def check_budget(options: Options) -> None:
    """OptionError for what an error budget, if there is one, cannot go with."""
    if options.least_pcc is None:
        return
    if options.policy != "global":
        raise OptionError("an error budget needs policy global", node="least_pcc", alternatives=("policy global",))
    for name, open_ in LEFT_TO_BUDGET.items():
        if getattr(options, name) != open_:
            raise OptionError(
                f"an error budget decides what '{name}' fixes: give one of the two",
                node="least_pcc",
                alternatives=(f"without {name}", "without least_pcc"),
            )


def exact_work(work: Work, again: tuple[Stage, ...]) -> Work:
    """The run with the best plan in the graph's own types, written."""
    assert work.plan.exact is not None
    other = work.fork()
    other.plan = replace(work.plan.exact, exact=work.plan.exact)
    for stage in again[1:]:
        stage.apply(other)
    return other


def exact_outputs(work: Work, values: ModelValues) -> Outputs:
    """What the model gives for every sample, in float64."""
    from optimizer.values.graph_values import graph_values  # loads the emitter of programs

    return [graph_values(work.problem.graph, arrays, _polled(work)) for arrays in values.samples]


def _polled(work: Work) -> Seen:
    """Looks at the time after every op: TimeLimitError once the search is over."""
    return lambda _op, _results: work.clock.poll_closing()


def measured(work: Work, values: ModelValues, wanted: Outputs, rounds: int) -> Precision:
    """What the plan's program gives, every rounding emulated, beside the model in float64: the worst of all samples."""
    budget, plan = work.problem.budget, work.plan
    assert budget is not None
    assert plan.exact is not None
    samples = [_sample(work, *pair) for pair in zip(values.samples, wanted, strict=True)]
    outputs = tuple(min(row, key=_known_pcc) for row in zip(*samples, strict=True))
    worst = min(map(_known_pcc, outputs), default=1.0)
    predicted = sum(plan.errors.values())
    return Precision(
        least_pcc=budget.least_pcc,
        predicted_pcc=pcc_of_error(predicted),
        measured_pcc=worst,
        predicted_error=predicted,
        measured_error=error_of_pcc(worst) if worst > 0.0 else inf,
        outputs=outputs,
        rounds=rounds,
        scale=budget.scale,
        weights=values.weights,
        inputs=values.inputs,
        samples=len(samples),
        exact_ns=plan_ns(work, plan.exact),
        given_up=False,
        front=(),
    )


def _sample(work: Work, arrays: Mapping[str, Array], wanted: list[Array]) -> list[MeasuredOutput]:
    """Of one sample, every output that has a correlation."""
    from optimizer.values.emulation.graph import emulated_result  # loads the emitter of programs

    outputs, emulated = [], emulated_result(work.result, arrays, _polled(work))
    for name, one, other in zip(work.problem.graph.outputs, emulated, wanted, strict=True):
        if other.dtype.kind == "f" and other.size:
            agreement = compare(one, other)
            outputs.append(MeasuredOutput(name, agreement.as_pcc(), agreement.relative_error, agreement.ratio))
    return outputs


def _known_pcc(output: MeasuredOutput) -> float:
    """A correlation that is no number is none."""
    return output.pcc if isfinite(output.pcc) else 0.0


def plan_ns(work: Work, plan: Plan) -> int:
    """Predicted time of a plan."""
    from optimizer.sharding.plan_program import replay_plan

    return replay_plan(work.problem.pricer, plan.schedule, plan.decisions).time_ns


def _ways(plan: Plan) -> dict[str, object]:
    """How every op runs, whatever the plan says of why."""
    return {op_id: (decision.candidate, decision.operands) for op_id, decision in plan.decisions.items()}
