"""Nothing is all-or-nothing: an op that cannot be sharded costs only itself, and the result says why."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import InfeasibleError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.in_place import in_place_config
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.opmodel.base import OpConstraints, Rejection
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.result import OptimizedGraph
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.fallbacks import MOST_ASKED, note_fallbacks
from optimizer.sharding.overriding import AloneDecision
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.registry import create_policy, policy_names
from tests.plans import planned

pytestmark = pytest.mark.usefixtures("remembered_answers")

SHARDING = [name for name in policy_names() if name != "dram"]


def run(graph: Graph, policy: str) -> OptimizedGraph:
    return planned(graph, DeviceSpec.preset("n150"), Options(policy=policy))


def with_batched_matmul() -> Graph:
    """Large elementwise ops around a matmul whose batched second operand has no program config."""
    b = GraphBuilder("batched")
    x = b.op("ttnn.gelu", b.op("ttnn.relu", b.input("x", (8, 512, 512)), name="r0"), name="g0")
    x = b.op("ttnn.matmul", x, b.input("y", (8, 512, 512)), name="bmm")
    return b.finish(b.op("ttnn.gelu", b.op("ttnn.relu", x, name="r1"), name="g1"))


def refusing_model() -> CachedOpModel:
    device = DeviceSpec.preset("n150")
    return CachedOpModel(create_opmodel("analytical", device, Options().l1_small_bytes))


def wide_chain() -> Graph:
    b = GraphBuilder("wide")
    x = b.input("x", (1, 1, 2048, 1024))
    for i, op in enumerate(("relu", "exp", "gelu", "silu", "relu")):
        x = b.op(f"ttnn.{op}", x, name=f"op{i}")
    return b.finish(x)


def refuse(problem: PolicyInput, model: CachedOpModel, op_id: str, where: str) -> None:
    """Make the OpModel refuse every config of an op whose result is in DRAM, or in L1, in place too."""
    op, legal = problem.graph.op(op_id), problem.legal[op_id]
    operand = problem.graph.value(op.inputs[0])
    pool = problem.pools.pool(operand.shape, operand.dtype, DRAM_TILE.page_layout)
    answer = OpConstraints.rejected(Rejection.OOM_L1, "no room for it")
    for candidate in legal.dram if where == "dram" else (*legal.l1_interleaved, *legal.sharded):
        for layout in (*pool.interleaved, *pool.sharded):
            for config in (candidate.config, in_place_config(op, candidate.config, 0)):
                model.correct(problem.pricer.query(op, (layout,), config, candidate.request), answer)


@pytest.mark.parametrize("policy", SHARDING)
def test_an_op_without_a_sharded_config_costs_only_itself(policy: str) -> None:
    result = run(with_batched_matmul(), policy)
    assert not result.layouts[result.graph.op("bmm").outputs[0]].is_sharded
    assert result.layouts[result.graph.op("r0").outputs[0]].is_l1
    assert result.layouts[result.graph.op("r1").outputs[0]].is_l1
    causes = {op: f.cause for f in result.summary.fallbacks for op in f.ops}
    assert not {"r0", "r1"}.intersection(causes)
    assert causes["bmm"] == "no sharded config of ttnn.matmul exists for these operands"


CAUSES = {
    "dfsharding": "op2: no config accepts the external operand",
    "global": "each of the 64 sharded configs of ttnn.gelu is refused: no room for it",
}


@pytest.mark.parametrize("policy", sorted(CAUSES))
def test_an_op_that_is_refused_in_l1(policy: str) -> None:
    model = refusing_model()
    problem = prepare(wide_chain(), model, Options(policy=policy))
    refuse(problem, model, "op2", "l1")
    plan = note_fallbacks(problem, create_policy(policy).run(problem))
    placed = {op_id: d.candidate.output for op_id, d in plan.decisions.items()}
    assert placed["op2"].is_dram
    assert placed["op0"].is_l1
    assert placed["op3"].is_l1
    causes = {op: f.cause for f in plan.fallbacks for op in f.ops}
    assert set(causes) == {"op2"}
    assert CAUSES[policy] in causes["op2"]


@pytest.mark.parametrize("policy", policy_names())
def test_an_op_that_runs_only_with_its_result_in_l1(policy: str) -> None:
    model = refusing_model()
    problem = prepare(wide_chain(), model, Options(policy=policy))
    refuse(problem, model, "op2", "dram")
    plan = create_policy(policy).run(problem)
    assert plan.decisions["op2"].candidate.output.is_l1
    assert replay_plan(problem.pricer, plan.schedule, plan.decisions).overflows == ()


def test_the_policy_that_shards_nothing_has_no_fallbacks() -> None:
    assert run(with_batched_matmul(), "dram").summary.fallbacks == ()


def test_an_op_that_runs_nowhere_is_named_with_the_limit() -> None:
    b = GraphBuilder("too_large")
    graph = b.finish(b.op("ttnn.relu", b.input("x", (1, 1, 1 << 20, 1 << 16)), name="impossible"))
    with pytest.raises(
        InfeasibleError, match=r"impossible: ttnn\.relu cannot run from DRAM to DRAM, nor to L1"
    ) as caught:
        run(graph, "dram")
    assert caught.value.node == "impossible"
    assert caught.value.limit


@pytest.mark.parametrize("widths", [(1,), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)])
def test_the_reason_of_a_wide_concat_is_found_with_bounded_work(
    widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    given = AloneDecision._gives

    def counted(self: AloneDecision, operands: tuple, candidate: object) -> bool:
        asked.append(len(operands))
        return given(self, operands, candidate)  # type: ignore[arg-type]

    b = GraphBuilder("wide")
    operands = [b.input(f"x{k}", (1, 1, 64, widths[k % len(widths)])) for k in range(200)]
    graph = b.finish(b.op("ttnn.concat", *operands, dim=3, name="all"))
    monkeypatch.setattr(AloneDecision, "_gives", counted)
    run(graph, "dfsharding")
    assert sum(asked) <= 2 * MOST_ASKED
