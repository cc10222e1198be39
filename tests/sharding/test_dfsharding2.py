"""DFSharding 2.0: every kind of merge on a tiny graph, every kind of refusal with its reason, and what always holds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.errors import InfeasibleError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.options import Options
from optimizer.pipeline import optimize, prepare
from optimizer.result import OptimizedGraph
from optimizer.sharding import dfsharding2
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.chains.chain_resolution import resolve_chains
from optimizer.sharding.merging import merged_groups
from optimizer.sharding.merging.concat_chains import set_concat_chain_preferences
from optimizer.sharding.merging.plan_state import PlanState
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.registry import create_policy
from tests.plans import planned
from tests.samples import examples, sampled

pytestmark = pytest.mark.usefixtures("remembered_answers")

ROWS, WIDTH = 512, 1024


def problem_of(graph: Graph, board: str = "n150", **options: object) -> PolicyInput:
    chosen = Options.from_mapping({"board": board, **options})
    model = create_opmodel(chosen.opmodel, DeviceSpec.preset(board), chosen.l1_small_bytes)
    return prepare(graph, CachedOpModel(model), chosen)


def plan_of(graph: Graph, policy: str = "dfsharding2", board: str = "n150", **options: object) -> Plan:
    return create_policy(policy).run(problem_of(graph, board, **options))


def run(graph: Graph, policy: str = "dfsharding2", board: str = "n150", **options: object) -> OptimizedGraph:
    chosen = Options.from_mapping({"policy": policy, "board": board, **options})
    return planned(graph, DeviceSpec.preset(board), chosen)


def spills(plan: Plan) -> dict[str, str]:
    """Last op of every completed chain -> where its result goes."""
    return {c.ops[-1]: c.spill_location for c in plan.chains if c.state == "completed"}


def held(plan: Plan, value: str) -> list[tuple[str, str]]:
    """First and last op while a value is reserved."""
    return [(plan.schedule[r.start], plan.schedule[r.end]) for r in plan.reservations if r.value == value]


def tried(plan: Plan, op_id: str) -> list[dict[str, Any]]:
    return list(plan.decisions[op_id].reason.get("residency", ()))


def linear(b: GraphBuilder, x: str, name: str, width: int = WIDTH) -> str:
    return b.op("ttnn.linear", x, b.parameter(f"w_{name}", (WIDTH, width)), name=name)


# -- merges ----------------------------------------------------------------------------------------------
def joined(join: str = "ttnn.add", merged_operand: int = 0) -> Graph:
    """Chains a0-a1 and b0, both read by one op; with operand 1 the second goes on through the join."""
    b = GraphBuilder("joined")
    a = b.op("ttnn.gelu", linear(b, b.input("x", (1, 1, ROWS, WIDTH)), "a0"), name="a1")
    c = linear(b, b.input("y", (1, 1, ROWS, WIDTH)), "b0")
    operands = (a, c) if merged_operand == 0 else (c, a)
    return b.finish(b.op("ttnn.relu", b.op(join, *operands, name="join"), name="tail"))


def test_simple_merge_into_the_middle_of_a_chain_on_operand_1() -> None:
    plan = plan_of(joined(merged_operand=1))
    assert [c.ops for c in plan.chains] == [("a0", "a1"), ("b0", "join", "tail")]
    assert spills(plan) == {"a1": "none", "tail": "dram"}
    assert held(plan, "a1_out") == [("a1", "join")]
    assert [(t["kind"], t["taken"]) for t in tried(plan, "a1")] == [("merge", True)]
    assert plan.decisions["join"].operands[1] == plan.decisions["a1"].candidate.output


def test_three_way_merge_at_the_first_op_of_a_chain() -> None:
    plan = plan_of(joined())
    assert [c.ops for c in plan.chains] == [("a0", "a1"), ("b0",), ("join", "tail")]
    assert spills(plan) == {"a1": "none", "b0": "none", "tail": "dram"}
    assert held(plan, "a1_out") == [("a1", "join")]
    assert held(plan, "b0_out") == [("b0", "join")]
    trial = tried(plan, "a1")[0]
    assert (trial["kind"], trial["ops"], trial["taken"]) == ("3-way merge", ["a1", "b0"], True)
    assert trial["saved_ns"] > 0


def test_merges_are_not_limited_to_one_per_chain() -> None:
    """A chain of adds, each of which reads another chain's result as operand 1."""
    b = GraphBuilder("comb")
    sides = [
        b.op("ttnn.gelu", linear(b, b.input(f"y{i}", (1, 1, ROWS, WIDTH)), f"s{i}"), name=f"g{i}") for i in range(3)
    ]
    x = linear(b, b.input("x", (1, 1, ROWS, WIDTH)), "main")
    for i, side in enumerate(sides):
        x = b.op("ttnn.add", x, side, name=f"add{i}")
    plan = plan_of(b.finish(x))
    assert ("main", "add0", "add1", "add2") in [c.ops for c in plan.chains]
    assert [spills(plan)[f"g{i}"] for i in range(3)] == ["none"] * 3
    assert [held(plan, f"g{i}_out") for i in range(3)] == [[(f"g{i}", f"add{i}")] for i in range(3)]


def test_chains_that_do_not_pay_alone_pay_when_merged() -> None:
    """A lone gelu loses by its load and its spill; between two chains it has neither."""
    b = GraphBuilder("between")
    v = linear(b, b.input("x", (1, 1, ROWS, WIDTH)), "fc")
    r, g = b.op("ttnn.relu", v, name="relu"), b.op("ttnn.gelu", v, name="gelu")
    graph = b.finish(b.op("ttnn.add", r, g, name="sum"))
    alone, merged = plan_of(graph, "dfsharding"), plan_of(graph)
    state = {policy: {c.ops: c.state for c in plan.chains} for policy, plan in (("1", alone), ("2", merged))}
    assert state["1"]["gelu",] == "failed"
    assert state["2"]["gelu",] == "completed"
    assert spills(merged)["gelu"] == "none"


def test_the_end_of_a_chain_writes_to_dram_itself_where_that_is_faster() -> None:
    b = GraphBuilder("pair")
    h = b.op("ttnn.linear", b.input("x", (1, 1, 256, 512)), b.parameter("w", (512, 512)), name="fc")
    plan = plan_of(b.finish(b.op("ttnn.relu", h, name="act")))
    assert plan.decisions["act"].operands[0].is_l1
    assert plan.decisions["act"].candidate.output.is_dram
    assert spills(plan) == {"act": "dram"}


def test_a_graph_too_large_for_groups_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (dfsharding2, merged_groups):
        monkeypatch.setattr(module, "MOST_OPS", 3)
    plan = plan_of(joined())
    assert [w for w in plan.warnings if w.startswith("more than 3 ops")]
    assert not [t for op in plan.schedule for t in tried(plan, op) if t["kind"] == "group"]


# -- forks, reshapes, concats ----------------------------------------------------------------------------
def test_a_fork_stays_sharded_until_its_last_reader() -> None:
    b = GraphBuilder("fork")
    x = linear(b, b.input("x", (1, 1, ROWS, WIDTH)), "fc")
    y = linear(b, b.op("ttnn.relu", x, name="up"), "down")
    plan = plan_of(b.finish(b.op("ttnn.add", y, x, name="sum")))
    assert spills(plan)["fc"] == "none"
    assert plan.decisions["fc"].candidate.output.is_sharded
    assert held(plan, "fc_out") == [("fc", "sum")]
    assert tried(plan, "fc")[0]["kind"] == "fork"


def test_a_fork_ends_in_the_fastest_of_its_ways() -> None:
    """Kept sharded at first; once the rest is settled, L1 interleaved is faster for two matmuls, and DRAM is not."""
    b = GraphBuilder("narrow")
    x = b.op("ttnn.linear", b.input("x", (1, 1, ROWS, WIDTH)), b.parameter("w", (WIDTH, 64)), name="narrow")
    x = b.op("ttnn.relu", x, name="act")
    wide = [b.op("ttnn.linear", x, b.parameter(f"w{i}", (64, WIDTH)), name=f"up{i}") for i in range(2)]
    plan = plan_of(b.finish(b.op("ttnn.add", *wide, name="sum")))
    assert plan.decisions["act"].candidate.output.describe() == "l1 interleaved tile"
    assert spills(plan)["act"] == "l1_interleaved"
    assert [t["kind"] for t in tried(plan, "act") if t["taken"]] == ["fork", "group"]


def test_a_reshape_between_a_chain_and_interleaved_readers_costs_nothing() -> None:
    b = GraphBuilder("reshape")
    x = linear(b, b.input("x", (1, 1, ROWS, WIDTH)), "fc")
    r = b.op("ttnn.reshape", x, shape=(1, 4, ROWS // 4, WIDTH), name="shape")
    plan = plan_of(b.finish(b.op("ttnn.transpose", r, dim0=-2, dim1=-1, name="turn")))
    assert spills(plan)["fc"] != "dram"
    assert plan.decisions["shape"].candidate.output.describe() == "l1 interleaved tile"
    assert [(t["kind"], t["taken"]) for t in tried(plan, "shape")] == [("reshape", True)]
    assert held(plan, "shape_out") == [("shape", "turn")]


@pytest.mark.parametrize("dim", [-1, -2])
def test_all_operands_of_a_concat_stay_in_l1(dim: int) -> None:
    b = GraphBuilder("concat")
    x = b.input("x", (1, 1, ROWS, WIDTH))
    parts = [b.op("ttnn.relu", linear(b, x, f"fc{i}"), name=f"relu{i}") for i in range(3)]
    plan = plan_of(b.finish(b.op("ttnn.gelu", b.op("ttnn.concat", *parts, dim=dim, name="cat"), name="tail")))
    assert all(layout.is_l1 for layout in plan.decisions["cat"].operands)
    assert {spills(plan)[f"relu{i}"] for i in range(3)} <= {"none", "l1_interleaved"}
    assert [held(plan, f"relu{i}_out") for i in range(3)] == [[(f"relu{i}", "cat")] for i in range(3)]
    taken = [t for t in tried(plan, "cat") if t["taken"] and t["kind"] == "concat"]
    assert taken[0]["ops"] == ["relu0", "relu1", "relu2", "cat"]


def test_preferences_name_the_sharding_that_a_concat_needs() -> None:
    b = GraphBuilder("preference")
    x = b.input("x", (1, 1, ROWS, WIDTH))
    parts = [b.op("ttnn.relu", linear(b, x, f"fc{i}"), name=f"relu{i}") for i in range(2)]
    graph = b.finish(b.op("ttnn.gelu", b.op("ttnn.concat", *parts, dim=-1, name="cat"), name="tail"))
    resolution = resolve_chains(problem_of(graph), prepare=set_concat_chain_preferences)
    wanted = {chain.ops[-1]: chain.preferred for chain in resolution.chains}
    assert wanted["relu0"] is wanted["relu1"] is wanted["tail"] is TensorMemoryLayout.HEIGHT_SHARDED
    assert wanted["cat"] is None
    for resolver in resolution.preferred.values():
        last = list(resolver.decisions().values())[-1]
        assert last.candidate.output.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED


# -- refusals --------------------------------------------------------------------------------------------
def because(plan: Plan, op_id: str, cause: str) -> list[str]:
    return [t["because"] for t in tried(plan, op_id) if t.get("cause") == cause]


def attention_in_the_window() -> Graph:
    """Chain a0-a1, then attention and its heads, which are in no chain, then the op that reads both."""
    b = GraphBuilder("window")
    x = b.input("x", (1, 1024, 1024))
    q, k, v = (b.input(name, (1, 8, 1024, 128)) for name in "qkv")
    a = b.op("ttnn.gelu", linear(b, x, "a0"), name="a1")
    z = b.op("ttnn.scaled_dot_product_attention", q, k, v, name="attention", is_causal=False)
    return b.finish(b.op("ttnn.add", b.op("ttnn.concatenate_heads", z, name="heads"), a, name="join"))


def test_an_op_outside_every_chain_forbids_what_it_has_no_room_beside() -> None:
    wide, tight = (plan_of(attention_in_the_window(), tensor_l1_usage_cap=cap) for cap in (0.95, 0.1))
    assert spills(wide)["a1"] == "none"
    assert held(wide, "a1_out") == [("a1", "join")]
    assert spills(tight)["a1"] == "dram"
    assert "heads" not in {op_id for chain in tight.chains for op_id in chain.ops}
    assert because(tight, "a1", "l1")[0].startswith("heads: needs 131072 B of L1 beside 32768 B held by 'a1_out'")
    assert any("because L1 is taken, the first at heads" in w for w in tight.warnings)


def test_a_join_that_refuses_its_operand_is_named() -> None:
    """The readers of a row-major result cannot take its shards."""
    graph = attention_in_the_window()
    plan = plan_of(graph, tensor_l1_usage_cap=0.1)
    assert because(plan, "attention", "l1")[0].startswith("heads: does not run with 'attention_out' as l1 interleaved")


@pytest.mark.slow
def test_bytes_that_add_up_may_clash_by_the_holes_between_them() -> None:
    b = GraphBuilder("holes")
    x = b.op("ttnn.linear", b.input("x", (1, 1, 4096, 2048)), b.parameter("w0", (2048, 2048)), name="fc0")
    for i, (wide, result) in enumerate([(2048, 4096), (4096, 3072), (3072, 1024)], start=1):
        x = b.op("ttnn.linear", x, b.parameter(f"w{i}", (wide, result)), name=f"fc{i}")
    graph = b.finish(x)
    plan = plan_of(graph, tensor_l1_usage_cap=1.0)
    reasons = [text for op in plan.schedule for text in because(plan, op, "l1")]
    assert any("the bytes add up, but with the holes between them" in text for text in reasons)
    assert replay_plan(problem_of(graph, tensor_l1_usage_cap=1.0).pricer, plan.schedule, plan.decisions).overflows == ()


def test_where_merging_gains_nothing_the_plan_is_that_of_dfsharding_and_says_why() -> None:
    b = GraphBuilder("too small to shard")
    graph = b.finish(b.op("ttnn.relu", b.op("ttnn.gelu", b.input("x", (1, 1, 64, 64)))))
    merged, isolated = (plan_of(graph, policy) for policy in ("dfsharding2", "dfsharding"))
    assert {op: d.candidate for op, d in merged.decisions.items()} == {
        op: d.candidate for op, d in isolated.decisions.items()
    }
    assert any("merging chains gains nothing" in w for w in merged.warnings)


@pytest.mark.parametrize("policy", sampled(("dfsharding", "dfsharding2"), ["dfsharding"], []))
@pytest.mark.slow
def test_copies_that_the_user_demands_late_do_not_overrun_l1(policy: str) -> None:
    """What a late demanded copy is made from stays in L1 until then, under dfsharding too."""
    b = GraphBuilder("late")
    x = b.input("x", (1, 1, WIDTH, WIDTH))
    values = [linear(b, x, f"fc{i}") for i in range(12)]
    total = values[0]
    for i, value in enumerate(values[1:]):
        total = b.op("ttnn.add", total, value, name=f"sum{i}")
    late = [b.op("ttnn.matmul", value, total, name=f"late{i}") for i, value in enumerate(values)]
    for i, value in enumerate(late[1:]):
        late[0] = b.op("ttnn.add", late[0], value, name=f"last{i}")
    graph, copies = b.finish(late[0]), ",".join(f"late{i}=0" for i in range(12))
    result = run(graph, policy, insert_memreconfig=copies, tensor_l1_usage_cap=0.3)
    assert result.summary.l1_peak_bytes <= result.summary.l1_limit_bytes


# -- what always holds -----------------------------------------------------------------------------------
@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Random DAGs with forks, concats, reshapes and ops that take no shards."""
    b = GraphBuilder("network")
    rows, width = 32 * draw(st.integers(4, 32)), 32 * draw(st.sampled_from([4, 8, 16, 32]))
    values = [b.input("x", (1, 1, rows, width))]
    for i in range(draw(st.integers(2, 9))):
        kind = draw(st.sampled_from(["relu", "add", "linear", "norm", "concat", "reshape"]))
        a = draw(st.sampled_from(values))
        if kind == "relu":
            values.append(b.op("ttnn.relu", a))
        elif kind == "linear":
            values.append(b.op("ttnn.linear", a, b.parameter(f"w{i}", (width, width))))
        elif kind == "norm":
            values.append(b.op("ttnn.layer_norm", a, b.parameter(f"g{i}", (width,))))
        elif kind == "add":
            values.append(b.op("ttnn.add", a, draw(st.sampled_from(values))))
        elif kind == "concat":
            joined = b.op("ttnn.concat", a, draw(st.sampled_from(values)), dim=-1)
            values.append(b.op("ttnn.linear", joined, b.parameter(f"c{i}", (2 * width, width))))
        else:
            values.append(
                b.op("ttnn.reshape", b.op("ttnn.reshape", a, shape=(1, rows, width)), shape=(1, 1, rows, width))
            )
    return b.finish(values[-1])


@settings(max_examples=examples(30))
@given(networks(), st.sampled_from(["n150", "p150"]), st.sampled_from([0.1, 0.3, 0.95]))
@pytest.mark.slow
def test_never_slower_than_dfsharding_and_never_beyond_l1(graph: Graph, board: str, cap: float) -> None:
    try:
        problem = problem_of(graph, board, tensor_l1_usage_cap=cap)
        isolated = create_policy("dfsharding").run(problem)
    except InfeasibleError:
        return  # so little L1 that an op does not even run from DRAM
    merged = create_policy("dfsharding2").run(problem)
    replays = [replay_plan(problem.pricer, p.schedule, p.decisions) for p in (isolated, merged)]
    assert replays[1].overflows == ()
    assert replays[1].time_ns <= replays[0].time_ns
    run(graph, "dfsharding2", board, tensor_l1_usage_cap=cap)  # raises unless it verifies


@settings(max_examples=examples(20))
@given(networks(), st.sampled_from(["n150", "p150"]), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_the_running_replay_says_what_the_whole_one_says(graph: Graph, board: str, order: random.Random) -> None:
    """After any changes, and after taking some back."""
    problem = problem_of(graph, board)
    plans = [create_policy(policy).run(problem) for policy in ("dram", "dfsharding", "dfsharding2")]
    state = PlanState(problem, plans[0].schedule, plans[0].decisions)
    for _ in range(12):
        op_id = order.choice(state.schedule)
        before = state.time_ns
        applied = state.apply({op_id: order.choice(plans).decisions[op_id]})
        assert state.time_ns == before - applied.saved_ns
        if order.random() < 0.4:
            state.undo(applied)
            assert state.time_ns == before
        whole = replay_plan(problem.pricer, state.schedule, state.decisions)
        assert whole.time_ns == state.time_ns


def test_the_same_input_gives_the_same_plan() -> None:
    options, device = Options(policy="dfsharding2"), DeviceSpec.preset("n150")
    first, second = (optimize(attention_in_the_window(), device, options).to_json() for _ in range(2))
    assert {**first, "timings": None} == {**second, "timings": None}
