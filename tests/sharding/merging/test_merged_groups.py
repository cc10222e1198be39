"""Merged groups: chosen together where one step at a time does not get there, never slower, never beyond L1."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.sharding import dfsharding2
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.chains.chain_resolution import resolve_chains
from optimizer.sharding.dfsharding2 import merged_chains
from optimizer.sharding.merging import merged_groups
from optimizer.sharding.merging.concat_chains import set_concat_chain_preferences
from optimizer.sharding.merging.merged_groups import GroupReport, solve_groups
from optimizer.sharding.plan_program import replay_plan
from optimizer.solver.graphs import graph_cpsat
from optimizer.solver.graphs.graph_cpsat import solve_cpsat
from optimizer.solver.graphs.graph_problem import GraphSolution
from tests.samples import examples

pytestmark = pytest.mark.usefixtures("remembered_answers")


def blocks(count: int, width: int, rows: int) -> Graph:
    """Residual blocks: two linears and an addition, a norm between."""
    b = GraphBuilder("blocks")
    x = b.input("x", (1, 1, rows, width))
    for i in range(count):
        y = b.op("ttnn.layer_norm", x, b.parameter(f"g{i}", (width,)), name=f"norm{i}")
        y = b.op("ttnn.linear", y, b.parameter(f"u{i}", (width, 4 * width)), name=f"up{i}", activation="gelu")
        y = b.op("ttnn.linear", y, b.parameter(f"d{i}", (4 * width, width)), name=f"down{i}")
        x = b.op("ttnn.add", x, y, name=f"add{i}")
    return b.finish(x)


def planned(graph: Graph, monkeypatch: pytest.MonkeyPatch, **options: object) -> tuple[PolicyInput, Plan, Plan]:
    """The problem, the plan of the trials alone, and the plan with its groups solved."""
    chosen = Options.from_mapping({"board": "n150", **options})
    model = CachedOpModel(create(chosen.opmodel, DeviceSpec.preset("n150"), chosen.l1_small_bytes))
    problem = prepare(graph, model, chosen)
    resolution = resolve_chains(problem, prepare=set_concat_chain_preferences)
    with monkeypatch.context() as patch:
        patch.setattr(dfsharding2, "solve_groups", lambda _: [])
        alone = merged_chains(problem, resolution)
    return problem, alone, merged_chains(problem, resolution)


def test_a_group_is_faster_than_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, alone, together = planned(blocks(3, 768, 128), monkeypatch)

    before, after = (replay_plan(problem.pricer, p.schedule, p.decisions) for p in (alone, together))
    assert after.time_ns < before.time_ns
    assert after.overflows == ()


def test_what_a_group_changed_stands_in_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, together = planned(blocks(3, 768, 128), monkeypatch)

    tried = [t for d in together.decisions.values() for t in d.reason.get("residency", ()) if t["kind"] == "group"]
    assert tried
    assert all(t["taken"] and t["saved_ns"] > 0 for t in tried)


def test_groups_report_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[GroupReport] = []
    monkeypatch.setattr(dfsharding2, "solve_groups", lambda plan: reports.extend(solve_groups(plan)))
    chosen = Options.from_mapping({"board": "n150"})
    model = CachedOpModel(create(chosen.opmodel, DeviceSpec.preset("n150"), chosen.l1_small_bytes))
    problem = prepare(blocks(2, 768, 128), model, chosen)
    merged_chains(problem, resolve_chains(problem, prepare=set_concat_chain_preferences))

    assert reports
    for report in reports:
        assert report.bound_ns <= (report.after_ns or report.before_ns) <= report.before_ns


def branches(count: int, width: int, rows: int) -> Graph:
    """Branches of one input, added up: the results of all of them wait for the sum."""
    b = GraphBuilder("branches")
    x = b.input("x", (1, 1, rows, width))
    ways = [b.op("ttnn.linear", x, b.parameter(f"w{i}", (width, width)), name=f"up{i}") for i in range(count)]
    total, *rest = [b.op("ttnn.gelu", y, name=f"gelu{i}") for i, y in enumerate(ways)]
    for i, y in enumerate(rest):
        total = b.op("ttnn.add", total, y, name=f"sum{i}")
    return b.finish(b.op("ttnn.add", total, x, name="last"))


@pytest.mark.parametrize(
    ("graph", "cap", "times"), [(blocks(2, 768, 128), 0.95, 0), (branches(3, 1536, 2048), 0.25, 1)]
)
def test_cp_sat_is_asked_where_l1_is_short(
    monkeypatch: pytest.MonkeyPatch, graph: Graph, cap: float, times: int
) -> None:
    asked: list[GraphSolution] = []

    def solve(*args: object, **kwargs: object) -> GraphSolution:
        asked.append(solve_cpsat(*args, **kwargs))  # type: ignore[arg-type]
        return asked[-1]

    monkeypatch.setattr(graph_cpsat, "solve_cpsat", solve)
    problem, alone, together = planned(graph, monkeypatch, tensor_l1_usage_cap=cap)

    before, after = (replay_plan(problem.pricer, p.schedule, p.decisions) for p in (alone, together))
    assert len(asked) == times
    assert after.time_ns < before.time_ns
    assert after.overflows == ()


def test_cp_sat_agrees_where_l1_is_not_short(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _, free = planned(blocks(3, 768, 128), monkeypatch)
    monkeypatch.setattr(merged_groups._Groups, "_fits", lambda *_: False)
    _, _, by_cpsat = planned(blocks(3, 768, 128), monkeypatch)

    times = {replay_plan(problem.pricer, p.schedule, p.decisions).time_ns for p in (free, by_cpsat)}
    assert len(times) == 1


@settings(max_examples=examples(12))
@given(st.integers(1, 3), st.sampled_from([256, 768]), st.sampled_from([128, 512]), st.sampled_from([0.25, 0.5, 0.95]))
def test_never_slower_and_never_beyond_l1(count: int, width: int, rows: int, cap: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        problem, alone, together = planned(blocks(count, width, rows), patch, tensor_l1_usage_cap=cap)

    before, after = (replay_plan(problem.pricer, p.schedule, p.decisions) for p in (alone, together))
    assert after.time_ns <= before.time_ns
    assert len(after.overflows) <= len(before.overflows)
