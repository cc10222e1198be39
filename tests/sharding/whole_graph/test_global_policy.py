"""The whole graph at once: never slower than other policies, bounded from below, within L1, within its time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.registry import create_policy
from tests.plans import planned
from tests.samples import examples

pytestmark = pytest.mark.usefixtures("remembered_answers")


def run(graph: Graph, policy: str = "global", board: str = "n150", **options: object) -> OptimizedGraph:
    chosen = Options.from_mapping({"policy": policy, "board": board, **options})
    return planned(graph, DeviceSpec.preset(board), chosen)


def problem_of(graph: Graph, board: str = "n150") -> PolicyInput:
    options = Options.from_mapping({"board": board})
    device = DeviceSpec.preset(board)
    return prepare(graph, CachedOpModel(create_opmodel(options.opmodel, device, options.l1_small_bytes)), options)


def residual(layers: int = 2, width: int = 1024, rows: int = 512) -> Graph:
    """Blocks whose input is read twice: by the first matmul and by the add at the end."""
    b = GraphBuilder("residual")
    x = b.input("x", (1, 1, rows, width))
    for i in range(layers):
        y = b.op("ttnn.linear", x, b.parameter(f"a{i}", (width, width)), name=f"up{i}", activation="relu")
        y = b.op("ttnn.linear", y, b.parameter(f"b{i}", (width, width)), name=f"down{i}")
        x = b.op("ttnn.add", y, x, name=f"add{i}")
    return b.finish(x)


def branches(width: int, count: int) -> Graph:
    """Values that all live until the end: L1 has to hold them, or not."""
    b = GraphBuilder("branches")
    x = b.input("x", (1, 1, 1024, width))
    values = [b.op("ttnn.linear", x, b.parameter(f"w{i}", (width, width)), name=f"fc{i}") for i in range(count)]
    total = values[-1]
    for i, value in enumerate(values[:-1]):
        total = b.op("ttnn.add", total, value, name=f"sum{i}")
    return b.finish(total)


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_fork_stays_in_l1_where_chains_send_it_to_dram(board: str) -> None:
    whole, chains = run(residual(), board=board), run(residual(), "dfsharding", board)
    assert whole.summary.predicted_time_ns < chains.summary.predicted_time_ns
    assert whole.layouts[whole.graph.op("add0").outputs[0]].is_l1
    assert whole.summary.spills == 0


def test_the_bound_is_reported_with_its_gap() -> None:
    summary = run(residual()).summary
    assert 0 < summary.lower_bound_ns <= summary.predicted_time_ns
    assert summary.gap == pytest.approx(1 - summary.lower_bound_ns / summary.predicted_time_ns)
    assert run(residual(), "dfsharding").summary.gap is None


@pytest.mark.slow
def test_more_than_l1_holds_is_spilled_and_still_verified() -> None:
    """24 values of 4 MiB are more than the 80 MiB of L1 hold beside circular buffers: the first choice does not fit."""
    graph = branches(2048, 8)
    whole, chains = run(graph, tensor_l1_usage_cap=0.4), run(graph, "dfsharding", tensor_l1_usage_cap=0.4)
    assert whole.summary.predicted_time_ns < chains.summary.predicted_time_ns
    assert whole.summary.gap < 0.06


@st.composite
def forks(draw: st.DrawFn) -> Graph:
    """Random DAGs in which any value may be read again much later."""
    b = GraphBuilder("forks")
    rows, width = 32 * draw(st.integers(4, 32)), 32 * draw(st.sampled_from([4, 8, 16, 32]))
    values = [b.input("x", (1, 1, rows, width))]
    for i in range(draw(st.integers(2, 8))):
        kind = draw(st.sampled_from(["relu", "add", "multiply", "linear", "norm"]))
        a = draw(st.sampled_from(values))
        if kind == "relu":
            values.append(b.op("ttnn.relu", a))
        elif kind == "linear":
            values.append(b.op("ttnn.linear", a, b.parameter(f"w{i}", (width, width))))
        elif kind == "norm":
            values.append(b.op("ttnn.layer_norm", a, b.parameter(f"g{i}", (width,))))
        else:
            values.append(b.op(f"ttnn.{kind}", a, draw(st.sampled_from(values))))
    return b.finish(values[-1])


@settings(max_examples=examples(25))
@given(forks(), st.sampled_from(["n150", "p150"]))
@pytest.mark.slow
def test_never_slower_than_chains_and_never_below_its_bound(graph: Graph, board: str) -> None:
    whole, chains = run(graph, "global", board).summary, run(graph, "dfsharding", board).summary
    assert whole.predicted_time_ns <= chains.predicted_time_ns
    assert whole.lower_bound_ns <= whole.predicted_time_ns


@settings(max_examples=examples(15))
@given(forks(), st.sampled_from(["dram", "dfsharding", "global"]))
def test_the_replay_prices_a_plan_as_the_written_program(graph: Graph, policy: str) -> None:
    problem = problem_of(graph)
    plan = create_policy(policy).run(problem)
    replay = replay_plan(problem.pricer, plan.schedule, plan.decisions)
    assert replay.time_ns == run(graph, policy).summary.predicted_time_ns
    assert replay.overflows == ()


def test_a_time_limit_returns_a_verified_plan() -> None:
    graph = residual(4)
    problem = problem_of(graph)
    asked = iter(range(1 << 30))
    hurried = PolicyInput(
        problem.graph, problem.legal, problem.pools, problem.pricer, problem.options,
        time_is_up=lambda: next(asked) > 3,
    )  # fmt: skip
    plan = create_policy("global").run(hurried)
    assert plan.lower_bound_ns is None
    assert replay_plan(problem.pricer, plan.schedule, plan.decisions).overflows == ()


@pytest.mark.slow
def test_forced_reshards_and_overrides_are_kept() -> None:
    plain, forced = run(residual()), run(residual(), insert_memreconfig="down0=0")
    copies = forced.summary.reshards + forced.summary.loads
    assert copies > plain.summary.reshards + plain.summary.loads
    result = run(residual(), override_output_layout="up0=dram")
    assert result.layouts[result.graph.op("up0").outputs[0]].is_dram
    result = run(residual(), override_output_layout="up0=l1:interleaved")
    assert result.layouts[result.graph.op("up0").outputs[0]].describe() == "l1 interleaved tile"


def test_every_op_says_what_else_it_could_give_and_what_was_refused() -> None:
    """Other layouts by the op's own time in them, fastest first."""
    result = run(residual())
    for name in ("up0", "up1", "add0", "add1"):
        reason = result.records[name].reason
        assert reason["options"] >= reason["layouts"] > len(reason["alternatives"]) > 0
        times = [a["time_ns"] for a in reason["alternatives"]]
        assert times == sorted(times)
        given = result.layouts[result.graph.op(name).outputs[0]].describe()
        assert given not in [a["layout"] for a in reason["alternatives"]]
    assert all(result.records[name].reason["excluded"] for name in ("up0", "up1"))


def test_a_reshape_of_shards_that_stay_where_they_are_is_a_view() -> None:
    b = GraphBuilder("views")
    x = b.op("ttnn.linear", b.input("x", (1, 1, 512, 1024)), b.parameter("a", (1024, 1024)), name="fc0")
    y = b.op("ttnn.reshape", x, name="flat", shape=(1, 512, 1024))
    result = run(b.finish(b.op("ttnn.linear", y, b.parameter("b", (1024, 1024)), name="fc1")))
    assert result.records["flat"].role is Role.VIEW
    assert result.layouts["flat_out"].is_sharded
    assert result.summary.reshards == 0


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_a_group_norm_runs_on_block_shards(board: str) -> None:
    b = GraphBuilder("group_norm")
    scale, shift = b.parameter("scale", (128,)), b.parameter("shift", (128,))
    y = b.op("ttnn.group_norm", b.input("x", (1, 1, 1024, 128)), scale, shift, name="norm", num_groups=32)
    result = run(b.finish(b.op("ttnn.silu", y, name="silu")), board=board)
    operand, given = (
        result.layouts[v] for v in (result.graph.op("norm").inputs[0], result.graph.op("norm").outputs[0])
    )
    assert operand == given
    assert given.describe().startswith("l1 block_sharded")
