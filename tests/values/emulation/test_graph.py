"""A whole graph as a device computes it."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.errors import ExecutionError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.memory_config import BufferType, PageLayout, interleaved
from optimizer.opmodel.pricing import op_query
from optimizer.values.emulation.emulated import emulated
from optimizer.values.emulation.graph import emulated_values
from optimizer.values.emulation.kinds import AnyArray
from optimizer.values.graph_values import graph_values


def layers(weights: DType = DType.BF16) -> Graph:
    b = GraphBuilder("layers")
    x = b.input("x", (1, 1, 64, 128))
    x = b.op("ttnn.linear", x, b.parameter("w", (128, 128), weights), b.parameter("b", (1, 128)), activation="gelu")
    return b.finish(b.op("ttnn.softmax", x, dim=-1))


def given() -> dict[str, AnyArray]:
    rng = np.random.default_rng(0)
    return {
        "x": rng.standard_normal((1, 1, 64, 128)),
        "w": rng.standard_normal((128, 128)) / 11,
        "b": rng.standard_normal((1, 128)),
    }


def test_ops_run_one_after_another() -> None:
    seen: dict[str, AnyArray] = {}

    def told(op: Op, results: list[AnyArray]) -> None:
        seen[op.op] = results[0]

    graph = layers()
    (found,) = emulated_values(graph, {}, given(), told)
    (exact,) = graph_values(graph, given())
    assert list(seen) == ["ttnn.linear", "ttnn.softmax"]
    assert np.array_equal(seen["ttnn.softmax"], found)
    assert np.array_equal(found, emulated_values(graph, {}, given())[0])
    assert 0.001 < np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean()) < 0.05


def test_values_have_the_element_types_of_the_graph() -> None:
    (exact,) = graph_values(layers(), given())
    errors = []
    for weights in (DType.BF16, DType.BFP8_B, DType.BFP4_B):
        (found,) = emulated_values(layers(weights), {}, given())
        errors.append(float(((found - exact) ** 2).mean()))
    assert errors[0] < errors[1] < errors[2]


def test_a_missing_array_is_named() -> None:
    with pytest.raises(ExecutionError, match="no array is given for 'w'"):
        emulated_values(layers(), {}, {"x": given()["x"]})


def test_a_graph_of_one_op_gives_what_the_op_gives() -> None:
    b = GraphBuilder("one")
    graph = b.finish(b.op("ttnn.add", b.input("x", (32, 32)), b.input("y", (32, 32))))
    rng = np.random.default_rng(4)
    x, y = (np.round(rng.standard_normal((32, 32)) * 64) / 64 for _ in range(2))
    (found,) = emulated_values(graph, {}, {"x": x, "y": y})
    op = next(graph.ops())
    query = op_query(graph, op, [interleaved(BufferType.DRAM, PageLayout.TILE)] * 2, None, None)
    assert np.array_equal(found, emulated(query, [x, y])[0])
