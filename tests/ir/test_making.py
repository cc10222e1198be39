"""Ops made and checked by their rows: what a pass may get wrong is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from optimizer.errors import DTypeError, GraphError, InputError, ShapeError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.ir.making import check_graph, make_op


@pytest.fixture
def graph() -> Graph:
    """A product whose weight is turned first."""
    b = GraphBuilder("g")
    x, w = b.input("x", (32, 64)), b.parameter("w", (96, 64))
    return b.finish(b.op("ttnn.matmul", x, b.op("ttnn.permute", w, dims=(1, 0), name="turned"), name="product"))


def test_kinds_follow_the_operands(graph: Graph) -> None:
    check_graph(graph)

    assert graph.value("turned_out").kind is ValueKind.PARAMETER
    assert graph.value("product_out").kind is ValueKind.ACTIVATION


def test_results_that_are_named_keep_their_description(graph: Graph) -> None:
    wide = graph.add_value(replace(graph.value("product_out"), id="wide", shape=(1, 1)))

    made = make_op(graph, Op("again", "ttnn.relu", ("product_out",), ("wide",)))

    assert made.outputs == ("wide",)
    assert graph.value("wide") == wide
    with pytest.raises(ShapeError, match=r"ttnn.relu gives \[\[32, 96\]\], stated \[\[1, 1\]\]"):
        check_graph(graph)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"dtype": DType.F32}, DTypeError, "'product_out' is f32, ttnn.matmul gives bf16"),
        ({"kind": ValueKind.PARAMETER}, GraphError, "'product_out' is of kind parameter, ttnn.matmul gives activation"),
        ({"shape": (96, 32)}, ShapeError, "ttnn.matmul gives"),
    ],
)
def test_a_wrong_result_is_found(graph: Graph, changes: dict[str, object], error: type[InputError], words: str) -> None:
    graph.set_value(replace(graph.value("product_out"), **changes))  # type: ignore[arg-type]

    with pytest.raises(error, match=words):
        check_graph(graph)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (Op("product", "ttnn.matmul", ("x",), ("product_out",)), "takes 2 to 2 operands, not 1"),
        (Op("product", "ttnn.matmul", ("x", "gone"), ("product_out",)), "reads 'gone', which nothing computes"),
        (Op("product", "ttnn.matmul", ("x", "turned_out"), ("product_out",), {"dim": 1}), "dim"),
    ],
)
def test_a_wrong_op_is_found(graph: Graph, op: Op, words: str) -> None:
    graph.add_value(replace(graph.value("product_out"), id="gone"))
    graph.replace_op(op)

    with pytest.raises(InputError, match=words):
        check_graph(graph)
