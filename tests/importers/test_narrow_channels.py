"""Cuts and joins of channels within tiles, left to the convolutions around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from optimizer.importers.passes.narrow_channels import convolve_parts, cut_convolutions, split_joined
from optimizer.importers.passes.rewriting import Pass
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.values.graph_values import graph_values

SIZE = 6
ROWS = SIZE * SIZE


def convolved(
    b: GraphBuilder, x: str, channels: int, results: int, kernel: int = 1, dynamic: bool = False, **more: Any
) -> str:
    given = b.input if dynamic else b.parameter
    weight = given("w", (results, channels // more.get("groups", 1), kernel, kernel))
    bias = b.parameter("b", (1, 1, 1, results))
    sizes = {"batch_size": 1, "input_height": SIZE, "input_width": SIZE, "kernel_size": (kernel, kernel)}
    padding = (kernel // 2,) * 4
    attrs = {**sizes, "padding": padding, "in_channels": channels, "out_channels": results, "activation": "silu"}
    return b.op("ttnn.conv2d", x, weight, bias, **{**attrs, **more})


def sliced(ranges: Sequence[tuple[int, int]], results: int = 48, returned: bool = False, **more: Any) -> Graph:
    b = GraphBuilder("sliced")
    y = convolved(b, b.input("x", (1, 1, ROWS, 32)), 32, results, 3, **more)
    parts = [b.op("ttnn.slice", y, begins=(0, 0, 0, first), ends=(1, 1, ROWS, end)) for first, end in ranges]
    return b.finish(*parts, *([y] if returned else []))


def joined(sizes: Sequence[int], kernel: int = 1, returned: bool = False, **more: Any) -> Graph:
    b = GraphBuilder("joined")
    parts = [b.input(f"x{n}", (1, 1, ROWS, size)) for n, size in enumerate(sizes)]
    y = b.op("ttnn.concat", *parts, dim=3)
    return b.finish(convolved(b, y, sum(sizes), 24, kernel, **more), *([y] if returned else []))


def heads(sizes: tuple[int, ...] = (20, 12), second: tuple[int, ...] = (20, 12), along: int = 2) -> Graph:
    b = GraphBuilder("heads")
    rows = [[b.input(f"x{n}{m}", (1, 1, 16, size)) for m, size in enumerate((20, 12))] for n in range(2)]
    rows[1] = [b.input(f"y{m}", (1, 1, 16, size)) for m, size in enumerate(second)]
    y = b.op("ttnn.concat", *(b.op("ttnn.concat", *row, dim=3) for row in rows), dim=along)
    return b.finish(*b.ops("ttnn.split", y, sizes=sizes, dim=3))


def same_values(graph: Graph, made: Pass) -> Graph:
    """The graph after the pass, which has to change it and to give what it gave."""
    rng = np.random.default_rng(0)
    given = {v.id: rng.standard_normal(v.shape) for v in graph.values.values() if graph.producer(v.id) is None}
    after = graph.copy()
    assert made.apply(after) == 1
    for one, other in zip(graph_values(graph, given), graph_values(after, given), strict=True):
        assert np.allclose(one, other)
    return after


def ops(graph: Graph) -> list[str]:
    return [op.op.removeprefix("ttnn.") for op in graph.run_ops()]


@pytest.mark.parametrize("ranges", [[(0, 16), (16, 48)], [(16, 32)], [(8, 16), (0, 8)]], ids=str)
def test_slices_of_a_convolution_are_convolutions(ranges: list[tuple[int, int]]) -> None:
    assert ops(same_values(sliced(ranges), cut_convolutions)) == ["conv2d"] * len(ranges)


@pytest.mark.parametrize(
    "graph",
    [
        sliced([(0, 16), (32, 48)]),
        sliced([(0, 40), (8, 48)]),
        sliced([(0, 16), (16, 48)], returned=True),
        sliced([(0, 16), (16, 48)], groups=2),
        sliced([(0, 16), (16, 48)], dynamic=True),
        sliced([(n, n + 4) for n in range(0, 40, 4)]),
    ],
    ids=["whole tiles", "twice the work", "read whole", "groups", "weights of the graph", "many parts"],
)
def test_other_slices_stay(graph: Graph) -> None:
    assert cut_convolutions.apply(graph) == 0


def test_slices_of_rows_stay() -> None:
    b = GraphBuilder("rows")
    y = convolved(b, b.input("x", (1, 1, ROWS, 32)), 32, 32)
    graph = b.finish(b.op("ttnn.slice", y, begins=(0, 0, 0, 16), ends=(1, 1, 8, 32)))
    assert cut_convolutions.apply(graph) == 0


@pytest.mark.parametrize("sizes", [(16, 16, 16), (64, 80), (33, 31, 1, 7)], ids=str)
def test_a_convolution_of_parts_side_by_side_is_a_sum(sizes: tuple[int, ...]) -> None:
    after = ops(same_values(joined(sizes), convolve_parts))
    assert after.count("conv2d") == len(sizes)
    assert "concat" not in after


@pytest.mark.parametrize(
    "graph",
    [
        joined((32, 64)), joined((16, 16), 3), joined((16, 16), returned=True), joined((16, 16), groups=2),
        joined((16, 16), dynamic=True), joined((8,) * 5),
    ],
    ids=["whole tiles", "wide kernel", "read whole", "groups", "weights of the graph", "many parts"],
)  # fmt: skip
def test_other_joins_stay(graph: Graph) -> None:
    assert convolve_parts.apply(graph) == 0


def test_what_is_split_as_it_was_joined_is_never_joined() -> None:
    assert ops(same_values(heads(), split_joined)) == ["concat", "concat"]


@pytest.mark.parametrize("graph", [heads((12, 20)), heads(second=(12, 20)), heads((40, 24), along=3)], ids=str)
def test_what_is_split_otherwise_stays(graph: Graph) -> None:
    assert split_joined.apply(graph) == 0
