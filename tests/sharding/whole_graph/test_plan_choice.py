"""Plans of other policies as choices of the whole-graph problem, and what the search makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.ir.graph import Graph
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.registry import create_policy
from optimizer.sharding.whole_graph.global_policy import GlobalPolicy
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.global_search import GlobalSearch
from optimizer.sharding.whole_graph.incumbent import Incumbent
from optimizer.sharding.whole_graph.plan_choice import choice_of_plan
from tests.sharding.whole_graph.test_global_policy import branches, problem_of, residual

pytestmark = pytest.mark.usefixtures("remembered_answers")


def time_of(problem: PolicyInput, plan: Plan) -> int:
    replay = replay_plan(problem.pricer, plan.schedule, plan.decisions)
    assert not replay.overflows
    return replay.time_ns


def tight(graph: Graph, share: float) -> PolicyInput:
    problem = problem_of(graph)
    problem.pricer.l1_limit_bytes = int(share * problem.pricer.l1_limit_bytes)
    return problem


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "dfsharding2", "global"])
@pytest.mark.parametrize("graph", [residual(), branches(1024, 4)], ids=lambda graph: graph.name)
def test_a_plan_is_a_choice_that_costs_what_the_plan_takes(graph: Graph, policy: str) -> None:
    problem = tight(graph, 0.4)
    plan = create_policy(policy).run(problem)
    model = GlobalProblem(problem, plan.schedule, [plan.decisions])
    chosen = choice_of_plan(model, problem.pricer, plan.decisions)
    assert chosen is not None
    again = replace(plan, decisions=model.decisions(chosen, {}))
    assert model.integers.value(chosen) == time_of(problem, again) <= time_of(problem, plan)
    assert [d.candidate.output for d in again.decisions.values()] == [
        plan.decisions[op_id].candidate.output for op_id in again.decisions
    ]


def test_a_layout_that_is_no_option_is_no_choice() -> None:
    problem = tight(residual(), 1.0)
    dram, whole = create_policy("dram").run(problem), create_policy("global").run(problem)
    model = GlobalProblem(problem, dram.schedule, [dram.decisions], open_ops=())
    assert choice_of_plan(model, problem.pricer, whole.decisions) is None


@pytest.mark.slow
def test_a_search_proves_the_plan_that_another_found() -> None:
    """Given the optimum, it finds nothing faster, and still closes the gap as if it had found it itself."""
    problem = tight(branches(1024, 6), 0.2)
    best = GlobalPolicy().run(problem)
    assert best.status == "optimal"
    incumbent = Incumbent(problem)
    assert incumbent.offer_unproven(best) is not None
    search = GlobalSearch(problem, best.schedule, [best.decisions], incumbent)
    search.find()
    assert search.bound_ns < incumbent.time_ns
    search.improve()
    assert search.bound_ns == incumbent.time_ns == time_of(problem, best)
