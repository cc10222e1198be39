"""Policy global with our kernels as options: what they cost, what is proven with them, what plans gain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest

from optimizer.device import DeviceSpec
from optimizer.fusion.offers import KernelOffer, Sources, Wanted, WantedOperand, WantedPlaces
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import overwritten_operand
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.pipeline.plan_kernels import plan_kernels
from optimizer.result import OptimizedGraph
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph import kernel_options
from optimizer.sharding.whole_graph.global_policy import GlobalPolicy
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.plan_choice import choice_of_plan
from optimizer.solver.graphs.elimination import eliminate
from optimizer.solver.graphs.graph_problem import FORBIDDEN
from tests.plans import planned
from tests.samples import sampled
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
@pytest.mark.slow
def test_a_plan_with_kernels_is_never_slower(graph: Callable[[], Graph]) -> None:
    apart, fused = run(graph()), run(graph(), fuse_kernels=True)
    assert fused.summary.predicted_time_ns <= apart.summary.predicted_time_ns


@pytest.mark.slow
def test_kernels_that_pay_are_told_with_what_they_save() -> None:
    result = run(waves(), fuse_kernels=True)
    assert [set(region["ops"]) >= {f"sin{n}", f"square{n}", f"cos{n}"} for n, region in enumerate(result.fused_kernels)]
    by_ops = sum(r.predicted.time_ns for r in result.records.values() if r.predicted is not None)
    saved = sum(region["saved_ns"] for region in result.fused_kernels)
    assert result.summary.predicted_time_ns == by_ops - saved
    assert result.summary.time_by_class_ns["fused"] == sum(r["predicted_ns"] for r in result.fused_kernels)


def test_what_is_proven_is_proven_of_plans_with_kernels() -> None:
    apart, fused = run(waves()).summary, run(waves(), fuse_kernels=True).summary
    assert apart.status == fused.status == "optimal"
    assert fused.lower_bound_ns is not None
    assert apart.lower_bound_ns is not None
    assert fused.lower_bound_ns < apart.lower_bound_ns


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
    """One kernel, of a group at the home that takes its ops longest, that takes so much time."""

    def __init__(self, group: tuple[str, ...], time_ns: int) -> None:
        self._group, self._time_ns = group, time_ns
        self.home: TensorLayout | None = None

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        return (self._group,)

    def offers(
        self,
        group: tuple[str, ...],
        homes: Sequence[TensorLayout],
        sources: Sources,
        of_use: Callable[[Wanted], bool],
    ) -> tuple[KernelOffer, ...]:
        assert len(sources) == len(group)
        self.home = next(layout for layout in homes[::-1] if layout.num_shard_cores >= 16)
        wanted = tuple(WantedPlaces((WantedOperand(self.home),), self.home) for _ in group)
        assert of_use(wanted)
        return (KernelOffer(wanted, self._time_ns, 0),)

    def saved_ns(self, plan: Plan) -> int:
        raise AssertionError(f"the problem does not ask what {plan} saves")


GROUP = ("sin0", "square0", "cos0")


def with_kernel(time_ns: int) -> tuple[PolicyInput, Plan, GlobalProblem, Paying]:
    problem = problem_of(waves(1))
    plan = GlobalPolicy().run(problem)
    kernels = Paying(GROUP, time_ns)
    return problem, plan, GlobalProblem(problem, plan.schedule, [plan.decisions], kernels=kernels), kernels


def test_a_choice_is_worth_its_plan_less_what_its_kernels_save() -> None:
    problem, _, model, _ = with_kernel(1)
    (node,) = model.kernels
    best = eliminate(model.integers).chosen
    assert best is not None
    assert best[-1] == 1
    plan = Plan(model.schedule, model.decisions(best, {}))
    assert model.integers.value(best) - model.added_ns == time_of(problem, plan) - model.promised_ns(best)
    spent = sum(
        model.ways[model.schedule.index(op_id)][best[model.schedule.index(op_id)]].option.time_ns for op_id in GROUP
    )
    assert model.promised_ns(best) == spent - node.offers[0].time_ns


def test_without_a_kernel_a_choice_is_worth_its_plan() -> None:
    problem, plan, model, _ = with_kernel(1)
    chosen = choice_of_plan(model, problem.pricer, plan.decisions)
    assert chosen is not None
    alone = (*chosen[:-1], 0)
    assert model.integers.value(alone) - model.added_ns == time_of(problem, plan)


def test_a_kernel_forbids_ways_of_its_ops_that_do_not_lie_right() -> None:
    _, _, model, kernels = with_kernel(1)
    for pair in model.integers.pairs:
        if pair.a == len(model.integers.costs) - 1:
            for way, cost in zip(model.ways[pair.b], pair.matrix[1], strict=True):
                option = way.option
                right = option.operands[0] == option.candidate.output == kernels.home
                in_place = overwritten_operand(option.candidate.config) is not None
                assert bool(cost < FORBIDDEN) == (right and not in_place)


def test_a_kernel_that_takes_longer_than_its_ops_is_no_option() -> None:
    _, _, model, _ = with_kernel(10**9)
    assert model.kernels == ()


def test_kernels_beyond_the_most_are_taken_off_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_options, "MOST_OFFERS", 1)
    problem = problem_of(waves(1))
    plan = GlobalPolicy().run(problem)
    few = GlobalProblem(problem, plan.schedule, [plan.decisions], kernels=plan_kernels(problem))
    monkeypatch.undo()
    many = GlobalProblem(problem, plan.schedule, [plan.decisions], kernels=plan_kernels(problem))
    assert many.left_out_ns == 0 < few.left_out_ns
    bounds = [eliminate(m.integers).lower_bound - m.added_ns - m.left_out_ns for m in (few, many)]
    assert bounds[0] <= bounds[1]


def time_of(problem: PolicyInput, plan: Plan) -> int:
    outcome = replay_plan(problem.pricer, plan.schedule, plan.decisions)
    assert not outcome.overflows
    return outcome.time_ns


def test_what_the_policy_is_told_is_what_the_finished_plan_saves() -> None:
    problem = problem_of(waves())
    apart = replace(problem, options=replace(problem.options, in_place_ops=False))  # what is in place is in no kernel
    plan = GlobalPolicy().run(apart)
    told = plan_kernels(problem).saved_ns(plan)
    result = run(waves(), fuse_kernels=True)
    saved = sum(region["saved_ns"] for region in result.fused_kernels)
    assert told > 0
    assert result.summary.predicted_time_ns <= time_of(problem, plan) - told
    assert saved > 0


def test_groups_that_one_kernel_could_run_do_not_depend_on_layouts() -> None:
    groups = plan_kernels(problem_of(waves(1))).groups
    assert any({"sin0", "square0", "cos0"} <= set(group) for group in groups)


# -- every plan ------------------------------------------------------------------------------------------------
Shape = tuple[int, ...]


def a_single_op(b: GraphBuilder, shape: Shape) -> str:
    return b.op("ttnn.add", b.input("x", shape), b.parameter("row", shape[-1:]))


def two_functions(b: GraphBuilder, shape: Shape) -> str:
    return b.op("ttnn.cos", b.op("ttnn.sin", b.input("x", shape)))


def with_a_row(b: GraphBuilder, shape: Shape) -> str:
    return b.op("ttnn.cos", b.op("ttnn.add", b.input("x", shape), b.parameter("row", shape[-1:])))


def with_another(b: GraphBuilder, shape: Shape) -> str:
    return b.op("ttnn.cos", b.op("ttnn.add", b.input("x", shape), b.input("y", shape)))


def with_a_product(b: GraphBuilder, shape: Shape) -> str:
    return b.op("ttnn.sin", b.op("ttnn.linear", b.input("x", shape), b.parameter("w", (shape[-1], shape[-1]))))


def with_a_softmax(b: GraphBuilder, shape: Shape) -> str:
    return b.op("ttnn.softmax", b.op("ttnn.multiply", b.input("x", shape), scalar=0.5), dim=-1)


SMALL, LARGER = (1, 1, 32, 32), (1, 1, 32, 64)
KINDS = (a_single_op, two_functions, with_a_row, with_a_product, with_a_softmax)
CASES = [*product(KINDS, (SMALL, LARGER)), (with_another, SMALL)]
QUICK = [(ops, SMALL) for ops in (a_single_op, two_functions, with_a_product)]
SLOW = [(a_single_op, LARGER), (with_a_softmax, SMALL)]


@pytest.mark.parametrize(("ops", "shape"), sampled(CASES, QUICK, SLOW))
@pytest.mark.slow
def test_no_plan_is_faster_than_the_optimal_one(ops: Callable[[GraphBuilder, Shape], str], shape: Shape) -> None:
    """Each is written as a program, and its kernels are found there, which the options know nothing of."""
    b = GraphBuilder("small")
    problem = problem_of(b.finish(ops(b, shape)))
    kernels = plan_kernels(problem)
    plan = GlobalPolicy().run(replace(problem, kernels=kernels))
    model = GlobalProblem(problem, plan.schedule, [plan.decisions])
    times = []
    for options in product(*(model.table.options[op_id] for op_id in model.schedule)):
        chosen = [OpDecision(option.candidate, option.operands) for option in options]
        other = Plan(model.schedule, dict(zip(model.schedule, chosen, strict=True)))
        outcome = replay_plan(problem.pricer, other.schedule, other.decisions)
        if not outcome.overflows:
            times.append(outcome.time_ns - kernels.saved_ns(other))
    assert plan.status == "optimal"
    assert plan.lower_bound_ns == min(times) == time_of(problem, plan) - kernels.saved_ns(plan)


class Generous:
    """Kernels that save what no option says."""

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        return ()

    def offers(self, *asked: object) -> tuple[KernelOffer, ...]:
        raise AssertionError(f"there is no group, but {asked} is asked for")

    def saved_ns(self, plan: Plan) -> int:
        return len(plan.schedule)


def test_no_bound_is_stated_where_kernels_go_below_it() -> None:
    problem = problem_of(waves(1))
    plan = GlobalPolicy().run(replace(problem, kernels=Generous()))
    assert (plan.status, plan.lower_bound_ns) == ("feasible", None)


def test_a_kernel_spares_no_copy_that_is_needed_nowhere() -> None:
    """Sources are the graph's input, in DRAM, which the first op can read there; a kernel of one op spares one copy."""
    problem = problem_of(waves(1))
    plan = GlobalPolicy().run(problem)
    model = GlobalProblem(problem, plan.schedule, [plan.decisions], kernels=plan_kernels(problem))
    operands = [
        operand
        for node in model.kernels
        for offer in node.offers
        if sum(places is not None for places in offer.wanted) > 1
        for places in offer.wanted
        if places is not None
        for operand in places.operands
    ]
    assert any(operand.copied for operand in operands)
    assert not any(operand.copied and operand.source.is_dram for operand in operands if operand.source is not None)
