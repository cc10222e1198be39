"""Policy global with kernels of ours: never slower than without, and groups laid where kernels pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.pipeline.plan_kernels import PlanKernels
from optimizer.result import OptimizedGraph
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph.global_policy import GlobalPolicy
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.kernel_choice import KernelChoice
from tests.plans import planned
from tests.sharding.whole_graph.test_global_policy import problem_of, residual

pytestmark = pytest.mark.usefixtures("remembered_answers")


def waves(count: int = 2) -> Graph:
    """Elementwise ops that TTNN has no fused form of, between products."""
    b = GraphBuilder("waves")
    v = b.input("x", (1, 1, 512, 512))
    for n in range(count):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (512, 512)), name=f"product{n}")
        for name in ("sin", "square", "cos"):
            v = b.op(f"ttnn.{name}", v, name=f"{name}{n}")
    return b.finish(v)


def run(graph: Graph, **options: object) -> OptimizedGraph:
    return planned(graph, DeviceSpec.preset("n150"), Options.from_mapping({"policy": "global", **options}))


@pytest.mark.parametrize("graph", [waves, residual])
def test_a_plan_with_kernels_is_never_slower(graph: Callable[[], Graph]) -> None:
    apart, fused = run(graph()), run(graph(), fuse_kernels=True)
    assert fused.summary.predicted_time_ns <= apart.summary.predicted_time_ns


def test_kernels_that_pay_are_told_with_what_they_save() -> None:
    result = run(waves(), fuse_kernels=True)
    assert [set(region["ops"]) >= {f"sin{n}", f"square{n}", f"cos{n}"} for n, region in enumerate(result.fused_kernels)]
    by_ops = sum(r.predicted.time_ns for r in result.records.values() if r.predicted is not None)
    saved = sum(region["saved_ns"] for region in result.fused_kernels)
    assert result.summary.predicted_time_ns == by_ops - saved
    assert result.summary.time_by_class_ns["fused"] == sum(r["predicted_ns"] for r in result.fused_kernels)


def test_a_bound_that_was_proven_without_kernels_is_not_stated_for_a_plan_with_them() -> None:
    summary = run(waves(), fuse_kernels=True).summary
    assert (summary.status, summary.lower_bound_ns, summary.gap) == ("feasible", None, None)


def test_without_the_option_plans_are_the_same_bytes() -> None:
    first, second = (optimize(waves(1), "n150", Options(policy="global")).to_json() for _ in range(2))
    assert {**first, "timings": 0} == {**second, "timings": 0}
    assert "refused_kernels" not in first
    assert first["fused_kernels"] == []


def test_with_it_they_are_deterministic() -> None:
    options = Options(policy="global", fuse_kernels=True)
    first, second = (optimize(waves(1), "n150", options).to_json() for _ in range(2))
    assert {**first, "timings": 0} == {**second, "timings": 0}


class Paying:
    """Kernels that save so much for a group at one layout that the plan should go there."""

    def __init__(self, problem: PolicyInput, group: tuple[str, ...], saved_ns: int) -> None:
        self._problem, self._group, self._saved_ns = problem, group, saved_ns
        self.asked = 0

    def groups(self) -> tuple[tuple[str, ...], ...]:
        return (self._group,)

    def saved_ns(self, plan: Plan) -> int:
        self.asked += 1
        layouts = {plan.decisions[op_id].candidate.output for op_id in self._group}
        alike = len(layouts) == 1 and (layout := layouts.pop()).is_sharded and layout.num_shard_cores == 16
        return self._saved_ns if alike else 0


@pytest.mark.parametrize(("saved_ns", "moves"), [(10**6, True), (1, False)])
def test_a_group_goes_where_its_kernel_saves_more_than_the_way_there_takes(saved_ns: int, moves: bool) -> None:
    problem = problem_of(waves(1))
    plan = GlobalPolicy().run(problem)
    kernels = Paying(problem, ("sin0", "square0", "cos0"), saved_ns)
    model = GlobalProblem(problem, plan.schedule, [plan.decisions])
    start_ns = time_of(problem, plan) - kernels.saved_ns(plan)
    found, total_ns = KernelChoice(problem, kernels, model).improved(plan, start_ns)
    assert total_ns == time_of(problem, found) - kernels.saved_ns(found)
    assert (kernels.saved_ns(found) > kernels.saved_ns(plan)) is moves
    assert total_ns < start_ns if moves else found is plan


def time_of(problem: PolicyInput, plan: Plan) -> int:
    outcome = replay_plan(problem.pricer, plan.schedule, plan.decisions)
    assert not outcome.overflows
    return outcome.time_ns


def test_what_the_policy_is_told_is_what_the_finished_plan_saves() -> None:
    problem = problem_of(waves())
    apart = replace(problem, options=replace(problem.options, in_place_ops=False))  # what is in place is in no kernel
    plan = GlobalPolicy().run(apart)
    told = PlanKernels(problem).saved_ns(plan)
    result = run(waves(), fuse_kernels=True)
    saved = sum(region["saved_ns"] for region in result.fused_kernels)
    assert told > 0
    assert result.summary.predicted_time_ns <= time_of(problem, plan) - told
    assert saved > 0


def test_groups_that_one_kernel_could_run_do_not_depend_on_layouts() -> None:
    groups = PlanKernels(problem_of(waves(1))).groups()
    assert any({"sin0", "square0", "cos0"} <= set(group) for group in groups)
