"""Every rule computes what the graph computed before, on graphs of drawn shapes, in float64."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

from optimizer.errors import VerificationError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.ir.making import check_graph
from optimizer.pipeline.alternatives import applied
from optimizer.result.summary import Rewritten
from optimizer.rewrites.rules import RULES
from optimizer.rewrites.way import Site
from optimizer.values.graph_values import graph_values

Draw = Callable[[np.random.Generator], Graph]


def sites(graph: Graph) -> list[Site]:
    return [site for rule in RULES for op in graph.run_ops() for site in rule(graph, op)]


def outputs(graph: Graph, seed: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    given = {
        v.id: rng.standard_normal(v.shape)
        for v in sorted(graph.values.values(), key=lambda v: v.id)
        if graph.producer(v.id) is None
    }
    return [np.asarray(found) for found in graph_values(graph, given)]


def conv(b: GraphBuilder, x: str, size: tuple[int, int, int], channels: int, results: int, **attrs: Any) -> str:
    kernel, groups = attrs["kernel_size"], attrs.get("groups", 1)
    operands = [x, b.parameter("w", (results, channels // groups, *kernel))]
    if attrs.pop("biased", True):
        operands.append(b.parameter("b", (1, 1, 1, results)))
    batch, height, width = size
    attrs = {"stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), **attrs}
    attrs |= {"batch_size": batch, "input_height": height, "input_width": width}
    return b.op("ttnn.conv2d", *operands, name="conv", in_channels=channels, out_channels=results, **attrs)


def pixel_shuffle(rng: np.random.Generator) -> Graph:
    n, h, w, c, r = (int(rng.integers(low, high)) for low, high in ((1, 3), (3, 6), (3, 6), (1, 5), (2, 4)))
    k, given = int(rng.choice([1, 3, 5])), int(rng.integers(1, 6))
    depth_first, pixels = bool(rng.integers(2)), bool(rng.integers(2))
    b = GraphBuilder("shuffle")
    x = b.input("x", (1, 1, n * h * w, given))
    activation = {"activation": "relu"} if rng.integers(2) else {}
    pad = (k // 2,) * 4
    y = conv(
        b, x, (n, h, w), given, c * r * r, kernel_size=(k, k), padding=pad, biased=bool(rng.integers(2)), **activation
    )
    if depth_first:
        y = b.op("ttnn.permute", b.op("ttnn.reshape", y, shape=(n, h, w, c, r, r)), dims=(0, 3, 1, 4, 2, 5))
    else:
        y = b.op("ttnn.permute", b.op("ttnn.reshape", y, shape=(n, h, w, r, r, c)), dims=(0, 5, 1, 3, 2, 4))
    y = b.op("ttnn.reshape", y, shape=(n, c, h * r, w * r))
    y = b.op("ttnn.tanh", y)
    if pixels:
        y = b.op("ttnn.reshape", b.op("ttnn.permute", y, dims=(0, 2, 3, 1)), shape=(1, 1, n * h * w * r * r, c))
    return b.finish(b.op("ttnn.square", y))


def grouped(rng: np.random.Generator) -> Graph:
    groups, each, h, w = (int(rng.integers(low, high)) for low, high in ((2, 9), (1, 3), (1, 6), (4, 9)))
    made = int(rng.integers(1, 3))
    b = GraphBuilder("groups")
    x = b.input("x", (1, 1, h * w, groups * each))
    size, biased = (1, h, w), bool(rng.integers(2))
    kernel, padding = (1, 3), (0, 0, 1, 1)
    y = conv(
        b, x, size, groups * each, groups * made, kernel_size=kernel, padding=padding, groups=groups, biased=biased
    )
    return b.finish(y)


def strided(rng: np.random.Generator) -> Graph:
    s, h, w, c = (int(rng.integers(low, high)) for low, high in ((2, 4), (2, 5), (2, 5), (1, 5)))
    b = GraphBuilder("patches")
    x = b.input("x", (1, 1, h * s * w * s, c))
    return b.finish(conv(b, x, (1, h * s, w * s), c, 7, kernel_size=(s, s), stride=(s, s)))


def instance_norm(rng: np.random.Generator) -> Graph:
    n, rows, c = int(rng.integers(1, 3)), int(rng.integers(5, 40)), 32 * int(rng.integers(1, 3))
    b = GraphBuilder("norm")
    scales = [b.parameter(name, (c,)) for name in ("w", "b")[: int(rng.choice([0, 2]))]]
    x = b.input("x", (n, 1, rows, c))
    return b.finish(b.op("ttnn.group_norm", x, *scales, num_groups=c, epsilon=1e-5))


def turned(rng: np.random.Generator) -> Graph:
    shape = tuple(int(rng.integers(1, 6)) for _ in range(int(rng.integers(3, 5))))
    cut = int(rng.integers(1, len(shape)))
    kept = int(rng.integers(0, cut))
    dims = (*range(kept), *range(cut, len(shape)), *range(kept, cut))
    b = GraphBuilder("turned")
    x = b.input("x", shape)
    return b.finish(b.op("ttnn.permute", x, dims=dims))


def tokens(rng: np.random.Generator) -> Graph:
    lead = [(32, 1), (3, 40, 1), (64, 2)][int(rng.integers(3))]
    width = 8 * int(rng.integers(1, 4))
    b = GraphBuilder("tokens")
    x, y = b.input("x", (*lead, width)), b.input("y", (*lead, width))
    normed = b.op("ttnn.layer_norm", x, b.parameter("g", (width,)), epsilon=1e-5)
    wide = b.op("ttnn.linear", normed, b.parameter("w", (width, 24)), b.parameter("b", (24,)), activation="gelu")
    back = b.op("ttnn.matmul", wide, b.parameter("v", (24, width)))
    total = b.op("ttnn.add", b.op("ttnn.multiply", back, b.parameter("s", (width,))), y)
    joined = b.op("ttnn.concat", total, wide, dim=len(lead))
    return b.finish(joined, b.op("ttnn.relu", total))


DRAWS: dict[str, tuple[Draw, frozenset[str]]] = {
    "pixel shuffle": (pixel_shuffle, frozenset({"shuffle-rows", "transpose-convolution"})),
    "groups": (grouped, frozenset({"split-groups", "zero-bias"})),
    "patches": (strided, frozenset({"unfold-convolution"})),
    "instance norm": (instance_norm, frozenset({"norm-of-rows", "norm-by-means"})),
    "turned": (turned, frozenset({"transpose-matrix"})),
    "tokens": (tokens, frozenset({"fold-rows"})),
}


@pytest.mark.parametrize("cases", [8, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", DRAWS)
def test_a_rule_changes_no_value(name: str, cases: int) -> None:
    draw, ways = DRAWS[name]
    seen = set()
    for case in range(cases):
        graph = draw(np.random.default_rng(case))
        before = outputs(graph, case)
        for site in sites(graph):
            other = graph.copy()
            if not site.apply(other):
                continue
            seen.add(site.way.name)
            check_graph(other)
            for a, b in zip(outputs(other, case), before, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert seen >= ways - {"zero-bias"}


def test_what_a_result_says_is_done_again_the_same_way() -> None:
    graph = tokens(np.random.default_rng(0))
    note = Rewritten(op=sites(graph)[0].ops[0], way="fold-rows", because="", saved_ns=1)

    again = applied(graph, [note])

    rows = [again.value(op.outputs[0]).shape[2] for op in again.run_ops() if op.op == "ttnn.linear"]
    assert rows == [prod(graph.value("x").shape[:-1])]


def test_an_unknown_way_is_refused() -> None:
    with pytest.raises(VerificationError, match="has no way 'turn-around'"):
        applied(tokens(np.random.default_rng(0)), [Rewritten(op="linear", way="turn-around", because="", saved_ns=1)])
