"""The five limits of chain-by-chain sharding (docs/limits.md): `dfsharding` shows each, `global` overcomes it.

Weights stay in DRAM throughout, so that every gain shown is the placement of activations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.options import Options
from optimizer.pipeline import optimize, prepare
from optimizer.result import OpRecord, OptimizedGraph, Role
from optimizer.sharding.runner_up import RunnerUp
from optimizer.sharding.whole_graph.global_policy import GlobalPolicy
from tests.samples import sampled

pytestmark = pytest.mark.usefixtures("remembered_answers")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "limits.md"


@cache
def both(make: Callable[[], Graph], **options: object) -> tuple[OptimizedGraph, OptimizedGraph]:
    """The plans of `dfsharding` and of `global`, both verified."""
    results = []
    for policy in ("dfsharding", "global"):
        chosen = Options.from_mapping({"policy": policy, "weights_in_l1": False, **options})
        results.append(optimize(make(), DeviceSpec.preset("n150"), chosen))
    return results[0], results[1]


def time_ns(result: OptimizedGraph, *ops: str) -> int:
    """Predicted time of the plan, or of some of its ops with the copies made for them."""
    if not ops:
        return int(result.summary.predicted_time_ns)
    return sum(r.predicted.time_ns for op_id in ops for r in parts(result, op_id) if r.predicted is not None)


def parts(result: OptimizedGraph, op_id: str) -> Iterator[OpRecord]:
    """Records of an op and of the copies it reads."""
    yield result.records[op_id]
    for v in result.graph.op(op_id).inputs:
        producer = result.graph.producer(v)
        if producer is not None and result.records[producer.id].role in (Role.LOAD, Role.RESHARD):
            yield result.records[producer.id]


def reads(result: OptimizedGraph, op_id: str, operand: int) -> TensorLayout:
    return result.layouts[result.graph.op(op_id).inputs[operand]]


def gives(result: OptimizedGraph, op_id: str) -> TensorLayout:
    return result.layouts[result.graph.op(op_id).outputs[0]]


def spilled(result: OptimizedGraph) -> list[str]:
    """Ops whose result is written from L1 to DRAM, the graph's own result aside."""
    found = []
    for op_id, record in result.records.items():
        if record.role is Role.SPILL and result.graph.op(op_id).outputs[0] not in result.graph.outputs:
            producer = result.graph.producer(result.graph.op(op_id).inputs[0])
            assert producer is not None
            found.append(producer.id)
    return found


def feed_forward() -> Graph:
    b = GraphBuilder("feed_forward")
    x = b.op("ttnn.linear", b.input("x", (1, 1, 256, 2048)), b.parameter("w0", (2048, 1024)), name="down")
    x = b.op("ttnn.layer_norm", x, b.parameter("g", (1024,)), name="norm")
    x = b.op("ttnn.linear", x, b.parameter("w1", (1024, 4096)), name="up", activation="gelu")
    return b.finish(b.op("ttnn.linear", x, b.parameter("w2", (4096, 1024)), name="out"))


@pytest.mark.slow
def test_1_reshards_are_inserted_only_where_an_edge_fails() -> None:
    """All of the chain fits together in block sharding, so no reshard is ever considered. Two that nothing forces pay:
    into and out of the width sharding in which `up` reads its weights once."""
    chains, whole = both(feed_forward)
    assert [c.state for c in chains.chains] == ["completed"]
    assert chains.summary.reshards == 0
    assert {gives(chains, op).memory_layout.value for op in ("down", "norm", "up", "out")} == {"block_sharded"}
    assert whole.summary.reshards == 2
    assert gives(whole, "norm").memory_layout.value == "block_sharded"
    assert gives(whole, "up").memory_layout.value == "width_sharded"
    assert time_ns(whole, "up", "out") < 0.85 * time_ns(chains, "up", "out")
    assert time_ns(whole) < 0.9 * time_ns(chains)


def gated() -> Graph:
    b = GraphBuilder("gated")
    x = b.input("x", (1, 1, 512, 1024))
    up = b.op("ttnn.linear", x, b.parameter("w0", (1024, 2048)), name="up")
    gate = b.op("ttnn.linear", x, b.parameter("w1", (1024, 2048)), name="gate")
    y = b.op("ttnn.multiply", b.op("ttnn.silu", gate, name="silu"), up, name="product")
    return b.finish(b.op("ttnn.linear", y, b.parameter("w2", (2048, 1024)), name="down"))


@pytest.mark.slow
def test_2_only_the_first_operand_stays_in_l1() -> None:
    """Both factors of a gated product are computed on the board; the second one makes the way through DRAM."""
    chains, whole = both(gated)
    assert spilled(chains) == ["up"]
    assert reads(chains, "product", 0).is_l1
    assert reads(chains, "product", 1).is_dram
    assert spilled(whole) == []
    assert reads(whole, "product", 0) == reads(whole, "product", 1) == gives(whole, "up") == gives(whole, "silu")
    assert time_ns(whole, "product") < 0.5 * time_ns(chains, "product")
    assert time_ns(whole) < 0.95 * time_ns(chains)


def bottleneck() -> Graph:
    """Linears of 1024 around one pair that passes 48 MiB on, which sharded leave no room for efficient blocks."""
    b = GraphBuilder("bottleneck")
    x = b.input("x", (1, 1, 512, 1024))
    for i in range(2):
        x = b.op("ttnn.linear", x, b.parameter(f"w{i}", (1024, 1024)), name=f"before{i}")
    x = b.op("ttnn.linear", x, b.parameter("wide", (1024, 49152)), name="widen")
    x = b.op("ttnn.linear", x, b.parameter("tall", (49152, 1024)), name="shrink")
    for i in range(2):
        x = b.op("ttnn.linear", x, b.parameter(f"v{i}", (1024, 1024)), name=f"after{i}")
    return b.finish(x)


SMALL = [f"{where}{i}" for where in ("before", "after") for i in range(2)]


@pytest.mark.slow
def test_3_one_bad_edge_costs_more_than_itself() -> None:
    """One edge makes the chain slower than DRAM. Cut there, what `widen` gives makes the way through DRAM. With a
    choice per op it stays in L1, interleaved, and the ops around it take what suits them."""
    chains, whole = both(bottleneck)
    assert [(c.state, len(c.ops)) for c in chains.chains] == [("failed", 6), ("completed", 3), ("completed", 3)]
    assert str(chains.chains[0].reason).endswith("cut before 'shrink'")
    assert spilled(chains) == ["widen"]
    assert spilled(whole) == []
    assert gives(whole, "widen").is_l1
    assert time_ns(whole, *SMALL) < 0.7 * time_ns(chains, *SMALL)
    assert time_ns(whole) < 0.85 * time_ns(chains)


def long_way_round() -> Graph:
    """`kept` waits in L1, or in DRAM, while the branch through `up` and `down` takes the room it likes."""
    b = GraphBuilder("pressure")
    x = b.input("x", (1, 1, 2048, 2048))
    kept = b.op("ttnn.linear", x, b.parameter("wk", (2048, 2048)), name="kept")
    y = b.op("ttnn.relu", x, name="start")
    y = b.op("ttnn.linear", y, b.parameter("w0", (2048, 8192)), name="up", activation="gelu")
    y = b.op("ttnn.linear", y, b.parameter("w1", (8192, 2048)), name="down")
    return b.finish(b.op("ttnn.add", y, kept, name="join"))


@pytest.mark.slow
def test_4_chains_do_not_see_each_other() -> None:
    """Each chain is solved on an L1 of its own and for its own cores: what another needs there, nobody weighs."""
    chains, whole = both(long_way_round)
    assert spilled(chains) == ["kept"]
    assert spilled(whole) == []
    assert reads(whole, "join", 1) == gives(whole, "kept")
    assert time_ns(whole) < 0.95 * time_ns(chains)


@pytest.mark.slow
def test_4_with_less_l1_the_trade_between_branches_changes() -> None:
    """With 65 % of L1 `start` goes to DRAM and `kept` is computed after the other branch; chains find neither."""
    roomy = both(long_way_round)[1]
    chains, tight = both(long_way_round, tensor_l1_usage_cap=0.65)
    assert (roomy.summary.status, tight.summary.status) == ("optimal", "optimal")
    assert gives(roomy, "start").is_l1
    assert gives(tight, "start").is_dram
    order = [op.id for op in tight.graph.ops()]
    assert order.index("down") < order.index("kept")
    assert spilled(tight) == []
    assert spilled(chains) == ["kept"]
    assert tight.summary.l1_peak_bytes <= tight.summary.l1_limit_bytes < roomy.summary.l1_peak_bytes
    assert time_ns(roomy) < time_ns(tight) < 0.92 * time_ns(chains)


def diamond() -> Graph:
    b = GraphBuilder("diamond")
    x = b.input("x", (1, 1, 1024, 1024))
    top = b.op("ttnn.linear", x, b.parameter("w", (1024, 1024)), name="top")
    left = b.op("ttnn.linear", top, b.parameter("w0", (1024, 1024)), name="left")
    right = b.op("ttnn.exp", top, name="right")
    join = b.op("ttnn.multiply", left, right, name="join")
    return b.finish(b.op("ttnn.layer_norm", join, b.parameter("g", (1024,)), name="norm"))


@pytest.mark.slow
def test_5_propagation_along_chains_cannot_settle_a_diamond() -> None:
    """What `top` gives has to suit both branches, and what they give has to suit `join`: constraints around a cycle,
    which no propagation along chains carries. Fork and join are cut; one branch does not even pay by itself."""
    chains, whole = both(diamond)
    assert [(c.ops, c.state) for c in chains.chains] == [
        (("top",), "completed"),
        (("right",), "failed"),
        (("left", "join", "norm"), "completed"),
    ]
    assert spilled(chains) == ["top"]
    assert gives(chains, "right").is_dram
    assert spilled(whole) == []
    assert len({gives(whole, op) for op in ("top", "left", "right", "join")}) == 1
    assert time_ns(whole) < 0.8 * time_ns(chains)


@pytest.fixture(scope="module")
def around_the_diamond() -> RunnerUp:
    """The alternatives of `top` in the plan of `global`."""
    options, device = Options.from_mapping({"policy": "global", "weights_in_l1": False}), DeviceSpec.preset("n150")
    problem = prepare(diamond(), CachedOpModel(create_opmodel("analytical", device, options.l1_small_bytes)), options)
    plan = GlobalPolicy().run(problem)
    return RunnerUp(problem, plan.schedule, plan.decisions, "top")


def test_5_the_outcome_is_explained_by_what_every_other_choice_would_cost(around_the_diamond: RunnerUp) -> None:
    """Not sets that were emptied in some order, but the time of the whole plan per alternative, or what it lacks."""
    record = around_the_diamond.record()
    assert record["chosen"]["total_time_ns"] == around_the_diamond.plan_ns
    assert record["runner_up"]["delta_ns"] > 0
    for other in record["alternatives"]:
        assert (other["total_time_ns"] is None) == (other["why_not"] is not None)
    assert set(record["opened"]) == {"top", "left", "right", "join"}


ROWS = list(enumerate([feed_forward, gated, bottleneck, long_way_round, diamond]))
COLUMNS = (("dram", "core_usage"), *((p, o) for p in ("dfsharding", "dfsharding2") for o in ("core_usage", "time")),
           ("global", "core_usage"))  # fmt: skip


@pytest.mark.parametrize(("row", "make"), sampled(ROWS, [], [ROWS[0], ROWS[4]]))
def test_the_page_states_these_times(row: int, make: Callable[[], Graph]) -> None:
    table = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    stated = [cell.strip() for cell in table[row].split("|")[3:9]]

    known = dict(zip((COLUMNS[1], COLUMNS[5]), both(make), strict=True))
    times = []
    for policy, objective in COLUMNS:
        chosen = {"policy": policy, "chain_objective": objective, "weights_in_l1": False}
        if (policy, objective) not in known:
            known[policy, objective] = optimize(make(), DeviceSpec.preset("n150"), Options.from_mapping(chosen))
        times.append(time_ns(known[policy, objective]))

    assert stated == [f"{ns / 1000:.1f}" for ns in times]
