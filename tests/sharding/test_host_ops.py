"""Ops on the host: their operands and results lie in DRAM, and every policy pays the same for moving them."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph, Op
from optimizer.options import Options
from optimizer.result import OptimizedGraph, Role
from tests.plans import planned

pytestmark = pytest.mark.usefixtures("remembered_answers")

POLICIES = ("dram", "dfsharding", "dfsharding2", "global")
SHAPE = (1, 1, 256, 768)


def products_around_a_host_op(weight: bool = False) -> Graph:
    """Four products with ReLU in a chain; the second ReLU's result goes through an op that TTNN lacks."""
    b = GraphBuilder("chain")
    x = b.input("x", SHAPE)
    scale = b.parameter("scale", SHAPE)
    for k in range(4):
        x = b.op("ttnn.matmul", x, b.parameter(f"w{k}", (768, 768)), name=f"mm{k}")
        x = b.op("ttnn.relu", x, name=f"relu{k}")
        if k == 1:
            x = b.op("ttnn.multiply", x, scale, name="mystery") if weight else b.op("ttnn.exp", x, name="mystery")
    graph = b.finish(b.op("ttnn.add", x, scale, name="last"))
    op = graph.op("mystery")
    graph.replace_op(Op(op.id, "onnx.Mystery", op.inputs, op.outputs, {}, op.name))
    return graph


def laid_out(graph: Graph, policy: str, board: str = "n150") -> OptimizedGraph:
    return planned(graph, DeviceSpec.preset(board), Options(policy=policy, allow_host_ops=True))


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_every_policy_is_compared_with_what_the_others_take(board: str) -> None:
    graph = products_around_a_host_op()
    times = {policy: laid_out(graph, policy, board).summary.predicted_time_ns for policy in POLICIES}

    found = laid_out(graph, "global", board).summary
    baselines = found.baselines.to_json()

    assert {name: baselines[f"{name}_ns"] for name in POLICIES[:3]} == {n: times[n] for n in POLICIES[:3]}
    assert times["global"] == min(times.values())
    assert times["global"] < times["dram"]
    assert (found.status, found.lower_bound_ns, found.gap) == ("optimal", times["global"], 0.0)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_op_on_the_host_reads_and_writes_dram_through_transfers(policy: str) -> None:
    result = laid_out(products_around_a_host_op(), policy)
    op = result.graph.op("mystery")

    (fetched,) = [result.graph.producer(v) for v in op.inputs]
    (sent,) = list(result.graph.consumers(op.outputs[0]))

    assert fetched is not None
    assert (fetched.op, sent.op) == ("ttnn.from_device", "ttnn.to_device")
    assert result.layouts[fetched.inputs[0]].is_dram
    assert result.layouts[sent.outputs[0]].is_dram
    moved = [r.predicted for r in result.records.values() if r.role is Role.TRANSFER]
    assert [(p.bound, p.time_ns > 50_000) for p in moved if p is not None] == [("pcie", True)] * 2


def test_a_weight_that_an_op_on_the_host_shares_with_the_device_is_not_moved_in_every_run() -> None:
    result = laid_out(products_around_a_host_op(weight=True), "dram")
    op = result.graph.op("mystery")

    assert all(result.layouts[v].is_host for v in op.inputs)
    assert result.layouts["scale"].is_dram
    assert [r.role for r in result.records.values()].count(Role.TRANSFER) == 2
