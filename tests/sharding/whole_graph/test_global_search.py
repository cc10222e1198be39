"""The search of policy global where L1 is short: honest bounds, clean plans, stopping at any time, no chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.export.annotated_json import dumps
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline import ProgressEvent, optimize
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.dram import DramPolicy
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph.global_policy import GlobalPolicy
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.solver.graphs.elimination import eliminate
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem
from tests.sharding.whole_graph.test_global_policy import branches, problem_of, residual, run


def fork() -> Graph:
    b = GraphBuilder("fork")
    x = b.input("x", (1, 1, 32, 32))
    y = b.op("ttnn.relu", x)
    return b.finish(b.op("ttnn.add", y, x))


def pair() -> Graph:
    b = GraphBuilder("pair")
    y = b.op("ttnn.linear", b.input("x", (1, 1, 32, 32)), b.parameter("w", (32, 32)))
    return b.finish(b.op("ttnn.relu", y))


def view() -> Graph:
    b = GraphBuilder("view")
    y = b.op("ttnn.relu", b.input("x", (1, 1, 32, 32)))
    return b.finish(b.op("ttnn.exp", b.op("ttnn.reshape", y, shape=(1, 32, 32))))


def choices(problem: GraphProblem) -> Iterator[tuple[int, ...]]:
    """Every choice that no pair forbids, capacity aside."""
    earlier: list[list[tuple[int, list[list[bool]]]]] = [[] for _ in problem.costs]
    for pair in problem.pairs:
        allowed = (pair.matrix if pair.a > pair.b else pair.matrix.T) < FORBIDDEN
        earlier[max(pair.a, pair.b)].append((min(pair.a, pair.b), allowed.tolist()))

    def extend(prefix: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(prefix) == len(problem.costs):
            yield prefix
            return
        for i in range(problem.sizes[len(prefix)]):
            if all(allowed[i][prefix[u]] for u, allowed in earlier[len(prefix)]):
                yield from extend((*prefix, i))

    return extend(())


def fastest(problem: PolicyInput, schedule: tuple[str, ...]) -> int:
    """Least time of all plans over the options that the allocator takes within the limit."""
    model = GlobalProblem(problem, schedule, [DramPolicy().run(problem).decisions])
    replays = (replay_plan(problem.pricer, schedule, model.decisions(chosen, {})) for chosen in choices(model.integers))
    return min(replay.time_ns for replay in replays if not replay.overflows)


@pytest.mark.parametrize("make", [fork, pair, view])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_no_plan_over_the_options_is_faster_than_the_bound(make: Callable[[], Graph], share: float) -> None:
    """L1 between what DRAM needs and what the best plan wants, so that its capacity decides."""
    problem = problem_of(make())
    dram = DramPolicy().run(problem)
    model = GlobalProblem(problem, dram.schedule, [dram.decisions])
    least = max(own_bytes(problem, dram, op_id) for op_id in dram.schedule)
    wanted = int(model.integers.loads(eliminate(model.integers).chosen or ()).max())
    problem.pricer.l1_limit_bytes = int(least + share * (wanted - least))
    plan = GlobalPolicy().run(problem)
    best = fastest(problem, plan.schedule)
    found = replay_plan(problem.pricer, plan.schedule, plan.decisions)
    assert not found.overflows
    assert 0 < (plan.lower_bound_ns or 0) <= best <= found.time_ns
    assert (plan.status == "optimal") == (plan.lower_bound_ns == found.time_ns)


def own_bytes(problem: PolicyInput, plan: Plan, op_id: str) -> int:
    decision = plan.decisions[op_id]
    candidate = decision.candidate
    op = problem.graph.op(op_id)
    return problem.pricer.constraints(op, decision.operands, candidate.config, candidate.request).peak_bytes


@pytest.mark.slow
def test_an_order_in_which_less_lives_is_found() -> None:
    """Depth first, all branches live at once; the sum may take each as soon as it is there."""
    graph = branches(1024, 8)
    options = {"tensor_l1_usage_cap": 0.25, "weights_in_l1": False}
    whole, chains = run(graph, **options), run(graph, "dfsharding2", **options)
    assert whole.summary.predicted_time_ns < chains.summary.predicted_time_ns
    assert whole.summary.gap < 0.03
    assert whole.summary.spills <= 1


@pytest.mark.slow
def test_a_run_can_end_at_any_moment() -> None:
    """Whenever the time is up, there is a plan that fits, no slower than DRAM, and a bound if one is claimed."""
    problem = problem_of(residual(2, 512, 256))
    problem.pricer.l1_limit_bytes //= 3
    asked = 0

    def count() -> bool:
        nonlocal asked
        asked += 1
        return False

    full = time_of(problem, GlobalPolicy().run(replace(problem, time_is_up=count)))
    slowest = time_of(problem, DramPolicy().run(problem))
    for limit in sorted({*range(0, asked, max(1, asked // 12)), asked - 1}):
        polls = iter(range(1 << 30))
        plan = GlobalPolicy().run(replace(problem, time_is_up=lambda polls=polls, limit=limit: next(polls) >= limit))
        assert full <= time_of(problem, plan) <= slowest
        assert plan.lower_bound_ns is None or plan.lower_bound_ns <= full


def time_of(problem: PolicyInput, plan: Plan) -> int:
    replay = replay_plan(problem.pricer, plan.schedule, plan.decisions)
    assert not replay.overflows
    return replay.time_ns


def test_an_interrupted_run_says_so() -> None:
    events = 0

    def interrupted() -> bool:
        return events > 3

    def count(event: ProgressEvent) -> None:
        nonlocal events
        events += event.stage == "policy"

    result = optimize(residual(2, 512, 256), DeviceSpec.preset("n150"), Options(policy="global"), count, interrupted)
    assert "interrupted: this is the best plan found until then" in result.summary.warnings
    assert result.summary.status in ("feasible", "optimal")


def test_the_same_plan_in_every_run() -> None:
    graph = branches(512, 5)
    texts = set()
    for _ in range(3):
        result = optimize(graph, DeviceSpec.preset("n150"), Options(policy="global", tensor_l1_usage_cap=0.2))
        result.timings = {}
        texts.add(dumps(result))
    assert len(texts) == 1


def test_chains_and_reservations_tell_what_stays_in_l1() -> None:
    result = run(residual(2, 512, 256))
    graph, position = result.graph, {op.id: n for n, op in enumerate(result.graph.ops())}
    for chain in result.chains:
        assert chain.state == "completed"
        for before, after in zip(chain.ops, chain.ops[1:], strict=False):
            passed = set(graph.op(before).outputs)
            assert any(v in passed and result.layouts[v].is_l1 for v in graph.op(after).inputs)
        assert {result.records[op_id].chain for op_id in chain.ops} == {chain.id}
    held = {r.value: r for r in result.reservations}
    produced = [op for op in graph.ops() if not op.op.endswith("to_memory_config")]
    in_l1 = {v for op in produced for v in op.outputs if result.layouts[v].is_l1}
    assert in_l1 <= set(held)
    for v in in_l1:
        readers = [position[op.id] for op in graph.consumers(v)]
        assert held[v].start == position[graph.producer(v).id]  # type: ignore[union-attr]
        assert held[v].end >= max(readers)
        assert held[v].bytes > 0
    weights = [v for v in graph.values if graph.producer(v) is None and result.layouts[v].is_l1]
    assert weights
    for v in weights:
        assert held[v].start == 0


def test_the_other_policies_are_its_baselines() -> None:
    graph = residual(2, 512, 256)
    baselines = run(graph).summary.baselines.to_json()
    for policy in ("dram", "dfsharding", "dfsharding2"):
        assert baselines[f"{policy}_ns"] == run(graph, policy).summary.predicted_time_ns
