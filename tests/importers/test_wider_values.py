"""Ops whose results become f32 in a model that is imported in bf16."""

from __future__ import annotations

from optimizer.importers.passes.exact_values import can_widen, widened
from optimizer.importers.passes.tile_padding import unfilled
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.ir.vocabulary import CAST


def layers() -> Graph:
    b = GraphBuilder("layers")
    v = b.input("x", (1, 1, 64, 64))
    for n in range(3):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (64, 64)), name=f"product{n}")
    return b.finish(v)


def dtypes(graph: Graph) -> dict[str, str]:
    return {op.name: graph.value(op.outputs[0]).dtype.value for op in graph.ops() if op.op != CAST}


def casts(graph: Graph) -> list[str]:
    return [f"{op.inputs[0]} -> {graph.value(op.outputs[0]).dtype.value}" for op in graph.ops() if op.op == CAST]


def test_one_op_reads_and_gives_f32_between_casts() -> None:
    graph = widened(layers(), ["product1"])

    assert dtypes(graph) == {"product0": "bf16", "product1": "f32", "product2": "bf16"}
    assert casts(graph) == ["product0_out -> f32", "product1_out -> bf16"]
    assert [graph.value(f"w{n}").dtype for n in range(3)] == [DType.BF16, DType.F32, DType.BF16]


def test_the_interface_stays_as_it_is() -> None:
    graph = widened(layers(), ["product0", "product1", "product2"])

    assert graph.outputs == layers().outputs
    assert [graph.value(v).dtype for v in (*graph.inputs, *graph.outputs)] == [DType.BF16, DType.BF16]
    assert casts(graph) == ["x -> f32", "product2_out_f32 -> bf16"]


def test_a_weight_that_others_read_in_bf16_is_cast() -> None:
    b = GraphBuilder("shared")
    x, w = b.input("x", (1, 1, 64, 64)), b.parameter("w", (64, 64))
    graph = b.finish(b.op("ttnn.linear", b.op("ttnn.linear", x, w, name="first"), w, name="second"))

    wide = widened(graph, ["first"])

    assert wide.value("w").dtype is DType.BF16
    assert "w -> f32" in casts(wide)


def test_an_op_that_states_bf16_states_nothing_any_more() -> None:
    b = GraphBuilder("stated")
    graph = b.finish(b.op("ttnn.add", b.input("x", (32, 32)), b.input("y", (32, 32)), dtype="bf16", name="sum"))

    assert dtypes(widened(graph, ["sum"])) == {"sum": "f32"}


def test_ops_of_integers_stay_as_they_are() -> None:
    b = GraphBuilder("scores")
    graph = b.finish(b.op("ttnn.argmax", b.input("x", (1, 1, 32, 64)), dim=-1, name="best"))

    assert not can_widen(graph, graph.op("best"))


def test_masks_that_are_cast_are_filled_again() -> None:
    b = GraphBuilder("attention")
    q, k, v = (b.input(name, (1, 2, 40, 32)) for name in "qkv")
    mask = b.op("ttnn.multiply", b.input("m", (1, 1, 40, 40)), scalar=2.0, name="mask")
    filled = b.op("ttnn.fill_implicit_tile_padding", mask, value=-1e9, name="filled")
    graph = b.finish(b.op("ttnn.scaled_dot_product_attention", q, k, v, filled, is_causal=False, name="attention"))
    assert not unfilled(graph, graph.op("attention"))

    wide = widened(graph, ["mask", "filled"])

    assert not any(unfilled(wide, op) for op in wide.ops())
