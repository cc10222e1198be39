"""Parts of a convolution's groups, batch, image and kernel, put together, give what it gives."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from optimizer.importers.passes.convolution_parts import (
    Both,
    SplitBatch,
    SplitGroups,
    SplitImage,
    SplitKernel,
    ZeroBias,
)
from optimizer.importers.passes.convolution_ways import SplitChannels, UnfoldConvolution, Way
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph, Op
from optimizer.values.graph_values import graph_values

CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "dense": {"size": (1, 9, 13), "kernel": (3, 5), "padding": (1, 2, 0, 3), "channels": 5, "results": 7},
    "grouped": {"size": (2, 9, 11), "kernel": (3, 3), "padding": (1, 1, 1, 1), "groups": 6, "channels": 12},
    "depthwise": {"size": (3, 8, 10), "kernel": (3, 3), "stride": (2, 2), "groups": 30, "channels": 30},
    "depth multiplied": {"size": (1, 8, 10), "kernel": (5, 3), "dilation": (1, 3), "groups": 6, "channels": 6},
    "one-dimensional": {"size": (2, 1, 90), "kernel": (1, 40), "stride": (1, 3), "groups": 2, "channels": 4},
    "dilated": {
        "size": (1, 20, 25),
        "kernel": (4, 6),
        "dilation": (2, 3),
        "stride": (3, 1),
        "groups": 3,
        "channels": 6,
    },
    "stride beyond the kernel": {"size": (1, 20, 33), "kernel": (2, 3), "stride": (5, 7), "groups": 2, "channels": 8},
    "mostly padding": {"size": (1, 1, 6), "kernel": (1, 20), "padding": (0, 0, 19, 19), "groups": 2, "channels": 4},
}
AXES = ("height", "width")
WAYS: dict[str, Any] = {
    "2 groups": partial(SplitGroups, parts=2),
    "each group": partial(SplitGroups, parts=64),
    "2 batches": partial(SplitBatch, parts=2),
    **{f"{n} of {axis}": partial(SplitImage, axis=axis, parts=n) for n in (2, 5) for axis in AXES},
    **{f"{n} of kernel's {axis}": partial(SplitKernel, axis=axis, parts=n) for n in (2, 3) for axis in AXES},
    "groups unfolded": lambda op_id: Both(SplitGroups(op_id, 64), UnfoldConvolution),
    "tiles": lambda op_id: Both(SplitImage(op_id, "height", 2), partial(SplitImage, axis="width", parts=2)),
    "strips with parts of the kernel": lambda op_id: Both(
        SplitImage(op_id, "width", 2), partial(SplitKernel, axis="width", parts=2)
    ),
}


def convolution(
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    channels: int,
    results: int = 60,
    groups: int = 1,
    bias: bool = True,
    **attrs: Any,
) -> Graph:
    batch, height, width = size
    b = GraphBuilder("conv")
    operands = [b.input("x", (1, 1, batch * height * width, channels))]
    operands.append(b.parameter("w", (results, channels // groups, *kernel)))
    if bias:
        operands.append(b.parameter("b", (1, 1, 1, results)))
    attrs |= {"batch_size": batch, "input_height": height, "input_width": width, "kernel_size": kernel}
    attrs |= {"in_channels": channels, "out_channels": results, "groups": groups}
    return b.finish(b.op("ttnn.conv2d", *operands, name="conv", **attrs))


def convolutions(graph: Graph) -> list[Op]:
    return [op for op in graph.ops() if op.op == "ttnn.conv2d"]


def same_result(graph: Graph, way: Way) -> Graph:
    """The graph after a rewrite, which computes in float64 what it did before."""
    rng = np.random.default_rng(7)
    given = {v.id: rng.standard_normal(v.shape) for v in graph.values.values() if graph.producer(v.id) is None}
    other = graph.copy()
    assert way.apply(other) == 1
    assert not other.has_op("conv")
    assert other.outputs == graph.outputs
    (before,), (after,) = graph_values(graph, given), graph_values(other, given)
    assert np.abs(before).max() > 1
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9 * np.abs(before).max())
    return other


@pytest.mark.parametrize("kind", CONVOLUTIONS)
@pytest.mark.parametrize("name", WAYS)
def test_parts_give_the_whole(name: str, kind: str) -> None:
    graph = convolution(**CONVOLUTIONS[kind])
    way = WAYS[name]("conv")
    wanted = 5 if name.startswith("5") else 3 if name.startswith("3") else 2
    if parts_there_are(name, graph) < wanted:
        assert way.apply(graph) == 0
        return

    same_result(graph, way)


def parts_there_are(name: str, graph: Graph) -> int:
    """Into how many parts a convolution could be split at most."""
    a: dict[str, Any] = dict(graph.op("conv").attrs)
    if "group" in name:
        return int(a["groups"])
    if "batch" in name:
        return int(a["batch_size"])
    axis = 0 if "height" in name or name == "tiles" else 1
    kernel = a["kernel_size"][axis]
    if "of kernel" in name:
        return int(kernel)
    size, padding = (a["input_height"], a["input_width"])[axis], a.get("padding", (0,) * 4)[2 * axis : 2 * axis + 2]
    stride, dilation = (a.get(key, (1, 1))[axis] for key in ("stride", "dilation"))
    return int((size + sum(padding) - dilation * (kernel - 1) - 1) // stride + 1)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ["2 groups", "2 batches", "2 of width", "3 of kernel's width", "groups unfolded"])
def test_bias_and_activation_are_kept(name: str, bias: bool, activation: str) -> None:
    graph = convolution(**CONVOLUTIONS["grouped"], bias=bias, activation=activation)

    same_result(graph, WAYS[name]("conv"))


def test_groups_stay_together_until_their_channels_are_whole_tiles() -> None:
    graph = same_result(convolution((1, 4, 4), (3, 3), 160, 160, groups=20), SplitGroups("conv", 3))

    assert [op.attrs["in_channels"] for op in convolutions(graph)] == [64, 64, 32]
    assert [op.attrs["groups"] for op in convolutions(graph)] == [8, 8, 4]


def test_strips_overlap_by_what_windows_share_and_only_the_ends_are_padded() -> None:
    graph = convolution((1, 6, 20), (3, 3), 4, 4, padding=(1, 1, 1, 1))

    parts = convolutions(same_result(graph, SplitImage("conv", "width", 2)))

    assert [op.attrs["input_width"] for op in parts] == [11, 11]
    assert [op.attrs["padding"] for op in parts] == [(1, 1, 1, 0), (1, 1, 0, 1)]


def test_parts_of_a_kernel_that_see_nothing_but_padding_are_left_out() -> None:
    graph = convolution((1, 1, 6), (1, 32), 4, 4, padding=(0, 0, 31, 0))

    other = same_result(graph, SplitKernel("conv", "width", 8))

    assert [op.attrs["kernel_size"] for op in convolutions(other)] == [(1, 4)] * 2
    assert sum(op.op == "ttnn.add" for op in other.ops()) == 1


def test_where_one_part_is_left_the_activation_follows_it() -> None:
    graph = convolution((1, 1, 4), (1, 32), 4, 4, padding=(0, 0, 31, 0), activation="relu")

    other = same_result(graph, SplitKernel("conv", "width", 8))

    assert len(convolutions(other)) == 1
    assert sum(op.op == "ttnn.relu" for op in other.ops()) == 1


def test_the_bias_is_added_once_and_the_activation_comes_last() -> None:
    graph = convolution((1, 1, 40), (1, 9), 4, 4, activation="relu")

    other = same_result(graph, SplitKernel("conv", "width", 3))

    assert sorted(len(op.inputs) for op in convolutions(other)) == [2, 2, 3]
    assert [op.attrs.get("activation") for op in convolutions(other)] == [None] * 3
    sums = [op.attrs.get("activations", ()) for op in other.ops() if op.op == "ttnn.add"]
    assert sorted(sums) == [(), ("relu",)]


def test_a_depthwise_convolution_of_one_row_gets_a_bias_of_zeros() -> None:
    graph = convolution((2, 1, 40), (1, 5), 32, 32, groups=32, bias=False, dilation=(1, 2), activation="silu")

    (op,) = convolutions(same_result(graph, ZeroBias("conv")))

    assert len(op.inputs) == 3


@pytest.mark.parametrize(
    "way",
    [
        ZeroBias("conv"),
        SplitGroups("conv", 2),
        SplitBatch("conv", 2),
        SplitImage("conv", "height", 2),
        SplitKernel("conv", "height", 2),
        SplitKernel("conv", "width", 65),
        Both(SplitGroups("conv", 2), partial(SplitChannels, parts=2)),
    ],
)
def test_ways_that_are_not_open_change_nothing(way: Way) -> None:
    graph = convolution((1, 1, 300), (1, 80), 4)

    assert way.apply(graph) == 0
    assert [op.id for op in graph.ops()] == ["conv"]
