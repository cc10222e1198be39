"""Policy global within an error budget: what is offered, what is proven, how the budget is dealt out."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.precision.budget import ErrorBudget
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph import option_fronts
from optimizer.sharding.whole_graph.error_choice import ErrorChoice
from optimizer.sharding.whole_graph.global_options import OptionTable
from optimizer.sharding.whole_graph.global_policy import GlobalPolicy
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.option_fronts import OpOption, worthwhile
from optimizer.sharding.whole_graph.plan_choice import choice_of_plan
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem
from tests.sharding.whole_graph.test_global_policy import problem_of
from tests.solver.graph_samples import brute_force

pytestmark = pytest.mark.usefixtures("remembered_answers")


def layers(count: int = 3, size: int = 512) -> Graph:
    b = GraphBuilder("layers")
    v = b.input("x", (1, 1, 64, size))
    for n in range(count):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (size, size)), name=f"product{n}")
    return b.finish(b.op("ttnn.relu", v, name="last"))


def within(least_pcc: float, graph: Graph) -> PolicyInput:
    problem = problem_of(graph)
    return replace(problem, budget=ErrorBudget(least_pcc, dict.fromkeys(graph.values, 1.0)))


def time_ns(problem: PolicyInput, plan: Plan) -> int:
    return replay_plan(problem.pricer, plan.schedule, plan.decisions).time_ns


@pytest.mark.slow
def test_a_looser_budget_is_never_slower_and_is_kept() -> None:
    graph = layers()
    plans = [GlobalPolicy().run(within(pcc, graph)) for pcc in (0.9999, 0.9)]

    times = [time_ns(within(0.9, graph), plan) for plan in plans]
    assert all(later <= earlier for earlier, later in pairwise(times))
    assert times[-1] < times[0]
    for plan, pcc in zip(plans, (0.9999, 0.9), strict=True):
        assert plan.exact is not None
        assert sum(plan.errors.values()) <= max(ErrorBudget(pcc).most_error, sum(_exact_errors(graph, pcc)))


def _exact_errors(graph: Graph, pcc: float) -> list[float]:
    from optimizer.sharding.whole_graph.budgeted import plan_errors

    problem = within(pcc, graph)
    plan = GlobalPolicy().run(replace(problem, budget=None))
    return list(plan_errors(problem, plan).values())


@pytest.mark.slow
def test_weights_in_blocks_are_what_a_memory_bound_product_takes() -> None:
    plan = GlobalPolicy().run(within(0.95, layers()))

    taken = [decision.operands[1].dtype for op, decision in plan.decisions.items() if op.startswith("product")]
    assert DType.BFP4_B in taken or DType.BFP8_B in taken
    assert all("precision" in d.reason for d in plan.decisions.values() if d.candidate.precision is not None)


def test_the_output_stays_in_the_graphs_type() -> None:
    graph = layers(1)
    plan = GlobalPolicy().run(within(0.6, graph))

    assert plan.decisions["last"].candidate.output.dtype is None


@pytest.mark.slow
def test_no_choice_within_the_budget_is_faster_than_the_bound() -> None:
    """By brute force over a problem of few options, memory and budget included."""
    problem = within(0.95, layers(1, 128))
    schedule = tuple(op.id for op in problem.graph.run_ops())
    integers = GlobalProblem(problem, schedule, []).integers
    small = _fewer(integers, 40)

    best = brute_force(small)
    plan = GlobalPolicy().run(problem)

    assert best.value < FORBIDDEN
    assert plan.lower_bound_ns is not None
    assert plan.lower_bound_ns <= best.value
    assert plan.status == "optimal"


def _fewer(problem: GraphProblem, most: int) -> GraphProblem:
    """The problem with the first options of each node, so that all combinations can be tried."""
    keep = [min(most, size) for size in problem.sizes]
    costs = tuple(row[:n] for row, n in zip(problem.costs, keep, strict=True))
    pairs = tuple(replace(p, matrix=p.matrix[: keep[p.a], : keep[p.b]]) for p in problem.pairs)
    usages = tuple(rows[:n] for rows, n in zip(problem.usages, keep, strict=True))
    return GraphProblem(costs, pairs, usages, problem.capacity)


@pytest.mark.slow
def test_a_budget_that_is_dealt_out_again_is_kept_and_never_slower() -> None:
    problem = within(0.99, layers())
    plan = GlobalPolicy().run(replace(problem, budget=None))
    model = GlobalProblem(problem, plan.schedule, [plan.decisions])
    chosen = choice_of_plan(model, problem.pricer, plan.decisions)
    assert chosen is not None
    assert problem.budget is not None

    found = ErrorChoice(model, problem.budget).filled(chosen)

    assert found is not None
    assert model.within_budget(found)
    assert model.integers.value(found) < model.integers.value(chosen)


def test_the_exact_plan_is_a_choice_where_other_ways_stand_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are in L1; of ways that take up to twice as long, those that read them from DRAM are left."""
    b = GraphBuilder("scaled")
    v, w = b.input("x", (1, 1, 256, 512)), b.parameter("w", (1, 1, 1, 512))
    for n in range(4):
        v = b.op("ttnn.multiply", v, w, name=f"scale{n}")
    problem = within(0.99, b.finish(v))
    plan = GlobalPolicy().run(replace(problem, budget=None))
    assert any(d.operands[1].is_l1 for d in plan.decisions.values())
    monkeypatch.setattr(option_fronts, "ALMOST", 1.0)

    model = GlobalProblem(problem, plan.schedule, [plan.decisions])
    chosen = choice_of_plan(model, problem.pricer, plan.decisions)

    assert chosen is not None
    assert [d.candidate.output for d in model.decisions(chosen, {}).values()] == [
        d.candidate.output for d in plan.decisions.values()
    ]


@pytest.mark.slow
def test_a_budget_of_nothing_cannot_be_dealt_out() -> None:
    problem = within(0.99, layers())
    plan = GlobalPolicy().run(replace(problem, budget=None))
    model = GlobalProblem(problem, plan.schedule, [plan.decisions])
    nothing = ErrorBudget(0.99, dict.fromkeys(problem.graph.values, 1e9))

    assert ErrorChoice(model, nothing).filled([0] * len(model.integers.costs)) is None


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        ([9, 9, 9, 9], [0]),
        ([9, 9, 5, 5], [0, 2]),
        ([9, 7, 5, 3], [0, 1, 2, 3]),
        ([9, 9, 9, 1], [0, 3]),
    ],
)
def test_of_a_ladder_only_the_rungs_that_save_time_are_offered(times: list[int], kept: list[int]) -> None:
    problem = problem_of(layers(1))
    schedule = tuple(op.id for op in problem.graph.run_ops())
    option = OptionTable(problem, schedule, []).options["product0"][0]
    rungs = [((option.operands[0],) * (n + 1), option.candidate) for n in range(len(times))]

    def ask(way: object) -> OpOption:
        return replace(option, time_ns=times[rungs.index(way)])  # type: ignore[arg-type]

    assert worthwhile(rungs, ask) == [rungs[n] for n in kept]


def test_without_a_budget_nothing_is_stated() -> None:
    plan = GlobalPolicy().run(problem_of(layers(1)))

    assert all(_plain(decision) for decision in plan.decisions.values())
    assert plan.exact is None


def _plain(decision: OpDecision) -> bool:
    return decision.candidate.precision is None and all(layout.dtype is None for layout in decision.operands)
