"""Orders of the ops: complete, after their operands, and what they keep alive."""

from __future__ import annotations

from hypothesis import given, settings

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.sharding.whole_graph.orders import least_live_schedule, peak_live_bytes, schedules
from tests.samples import examples
from tests.sharding.whole_graph.test_global_policy import branches, forks, problem_of


def in_order(graph: Graph, schedule: tuple[str, ...]) -> bool:
    seen: set[str] = set()
    for op_id in schedule:
        producers = (graph.producer(v) for v in graph.op(op_id).inputs)
        if any(p is not None and not graph.is_const_eval(p) and p.id not in seen for p in producers):
            return False
        seen.add(op_id)
    return seen == {op.id for op in graph.run_ops()}


@settings(max_examples=examples(30))
@given(forks())
def test_every_order_runs_every_op_after_its_operands(graph: Graph) -> None:
    pricer = problem_of(graph).pricer
    for schedule in (*schedules(pricer), least_live_schedule(pricer)):
        assert in_order(pricer.graph, schedule)


def test_a_sum_of_branches_adds_each_as_soon_as_it_is_there() -> None:
    graph = branches(64, 6)
    pricer = problem_of(graph).pricer
    first, *others = schedules(pricer)
    value = 1024 * 64 * 2
    assert peak_live_bytes(pricer, first) == 7 * value
    assert [peak_live_bytes(pricer, order) for order in others] == [3 * value]


def test_a_chain_has_one_order() -> None:
    b = GraphBuilder("chain")
    x = b.input("x", (1, 1, 64, 64))
    for _ in range(4):
        x = b.op("ttnn.relu", x)
    assert len(schedules(problem_of(b.finish(x)).pricer)) == 1
