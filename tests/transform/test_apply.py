"""A plan written into a graph: where copies go, what they are called, what the caller gets."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import (
    DRAM_ROW_MAJOR,
    DRAM_TILE,
    HOST_ROW_MAJOR,
    L1_TILE,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.page_layouts import AssignPageLayouts
from optimizer.layouts.tiling import sharded_layout
from optimizer.result import Role
from optimizer.sharding.base import OpDecision, Plan
from optimizer.transform.apply import AppliedPlan, ApplyPlan

N150 = DeviceSpec.preset("n150")
SHAPE = (1, 1, 256, 256)
HEIGHT = sharded_layout(SHAPE, TensorMemoryLayout.HEIGHT_SHARDED, (8, 1), N150)
BLOCK = sharded_layout(SHAPE, TensorMemoryLayout.BLOCK_SHARDED, (8, 8), N150)


def decide(output: TensorLayout, *operands: TensorLayout) -> OpDecision:
    return OpDecision(OpCandidate(output, None, output.memory), operands)


def apply(graph: Graph, **decisions: OpDecision) -> AppliedPlan:
    pages = AssignPageLayouts().apply(graph)
    return ApplyPlan(graph, pages, Plan(tuple(decisions), decisions)).apply()


def listing(applied: AppliedPlan) -> list[str]:
    """`role: inputs -> outputs` per op."""
    return [
        f"{applied.records[op.id].role.value}: {', '.join(op.inputs)} -> {', '.join(op.outputs)}"
        for op in applied.graph.ops()
    ]


def two_ops() -> Graph:
    b = GraphBuilder("two")
    h = b.op("ttnn.relu", b.input("x", SHAPE), name="a")
    return b.finish(b.op("ttnn.exp", h, name="b"))


def test_equal_layouts_need_no_copy_and_the_output_keeps_its_name() -> None:
    applied = apply(two_ops(), a=decide(BLOCK, DRAM_TILE), b=decide(BLOCK, BLOCK))
    assert listing(applied) == [
        "compute: x -> a_out",
        "compute: a_out -> b_out_l1",
        "spill: b_out_l1 -> b_out",
    ]
    assert list(applied.graph.outputs) == ["b_out"]
    assert applied.layouts["b_out"] == DRAM_TILE


def test_another_sharding_is_resharded_right_before_its_reader() -> None:
    applied = apply(two_ops(), a=decide(BLOCK, DRAM_TILE), b=decide(DRAM_TILE, HEIGHT))
    assert listing(applied)[1:] == ["reshard: a_out -> a_out_reshard", "compute: a_out_reshard -> b_out"]
    assert applied.layouts["a_out_reshard"] == HEIGHT


def test_dram_values_are_loaded() -> None:
    applied = apply(two_ops(), a=decide(DRAM_TILE, DRAM_TILE), b=decide(DRAM_TILE, L1_TILE))
    assert listing(applied)[1] == "load: a_out -> a_out_load"


def test_one_spill_serves_all_readers_and_the_caller() -> None:
    b = GraphBuilder("fork")
    h = b.op("ttnn.relu", b.input("x", SHAPE), name="a")
    graph = b.finish(b.op("ttnn.exp", h, name="b"), b.op("ttnn.neg", h, name="c"), h)
    applied = apply(graph, a=decide(BLOCK, DRAM_TILE), b=decide(DRAM_TILE, BLOCK), c=decide(DRAM_TILE, DRAM_TILE))
    assert listing(applied) == [
        "compute: x -> a_out_l1",
        "spill: a_out_l1 -> a_out",
        "compute: a_out_l1 -> b_out",
        "compute: a_out -> c_out",
    ]
    assert list(applied.graph.outputs) == ["b_out", "c_out", "a_out"]


def test_the_schedule_is_the_plans() -> None:
    b = GraphBuilder("order")
    x = b.input("x", SHAPE)
    graph = b.finish(b.op("ttnn.relu", x, name="a"), b.op("ttnn.exp", x, name="b"))
    applied = apply(graph, b=decide(DRAM_TILE, DRAM_TILE), a=decide(DRAM_TILE, DRAM_TILE))
    assert [op.id for op in applied.graph.ops()] == ["b", "a"]


def test_a_weight_read_in_two_places_gets_a_host_copy() -> None:
    b = GraphBuilder("tied")
    x, w = b.input("x", (1, 1, 64, 32)), b.parameter("w", (32, 32, 1, 1))
    conv = b.op(
        "ttnn.conv2d", x, w, name="conv", batch_size=1, input_height=8, input_width=8, in_channels=32,
        out_channels=32, kernel_size=(1, 1),
    )  # fmt: skip
    flat = b.op("ttnn.pad", w, name="pad", padding=((0, 0),) * 4)
    graph = b.finish(conv, flat)
    applied = apply(graph, conv=decide(DRAM_TILE, DRAM_TILE, HOST_ROW_MAJOR))
    assert applied.records["pad"].role is Role.HOST
    assert applied.layouts["w"] == HOST_ROW_MAJOR


def scaled(count: int) -> Graph:
    """The same weight multiplied several times."""
    b = GraphBuilder("scaled")
    x, w = b.input("x", SHAPE), b.parameter("w", SHAPE)
    for i in range(count):
        x = b.op("ttnn.multiply", x, w, name=f"m{i}")
    return b.finish(x)


def test_a_weight_lies_in_l1_where_all_its_readers_want_it() -> None:
    wanted = decide(DRAM_TILE, DRAM_TILE, BLOCK)
    applied = apply(scaled(2), m0=wanted, m1=wanted)
    assert applied.layouts["w"] == BLOCK
    assert listing(applied) == ["compute: x, w -> m0_out", "compute: m0_out, w -> m1_out"]


def test_a_weight_wanted_in_l1_and_in_dram_has_one_further_form_in_l1() -> None:
    wanted = decide(DRAM_TILE, DRAM_TILE, BLOCK)
    applied = apply(scaled(3), m0=wanted, m1=decide(DRAM_TILE, DRAM_TILE, DRAM_TILE), m2=wanted)
    assert (applied.layouts["w"], applied.layouts["w_l1"]) == (DRAM_TILE, BLOCK)
    assert listing(applied) == [
        "host: w -> w_l1",
        "compute: x, w_l1 -> m0_out",
        "compute: m0_out, w -> m1_out",
        "compute: m1_out, w_l1 -> m2_out",
    ]


def test_page_layout_conversions_have_their_own_role() -> None:
    b = GraphBuilder("embedding")
    ids, table = b.input("ids", (1, 32), DType.U32), b.parameter("table", (64, 64))
    h = b.op("ttnn.embedding", ids, table, name="look_up")
    graph = b.finish(b.op("ttnn.to_layout", h, name="untilize", layout="row_major"))
    applied = apply(
        graph,
        look_up=decide(DRAM_TILE, DRAM_ROW_MAJOR, DRAM_ROW_MAJOR),
        untilize=decide(DRAM_ROW_MAJOR, DRAM_TILE),
    )
    assert [applied.records[op.id].role for op in applied.graph.ops()] == [Role.COMPUTE, Role.LAYOUT]


def test_views_are_marked() -> None:
    b = GraphBuilder("view")
    graph = b.finish(b.op("ttnn.reshape", b.input("x", SHAPE), name="r", shape=(1, 2, 128, 256)))
    applied = apply(graph, r=decide(DRAM_TILE, DRAM_TILE))
    assert applied.records["r"].role is Role.VIEW


def test_a_plan_must_cover_the_graph() -> None:
    with pytest.raises(StateError, match="does not decide every op"):
        apply(two_ops(), a=decide(DRAM_TILE, DRAM_TILE))
