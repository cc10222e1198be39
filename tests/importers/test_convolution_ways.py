"""Other ways to compute a convolution give what it gives."""

from __future__ import annotations

from typing import Any

import interpreter
import numpy as np
import pytest

from optimizer.importers.passes.convolution_ways import SplitChannels, UnfoldConvolution, Way
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph

RNG = np.random.default_rng(5)
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "long kernel": {"size": (1, 1, 640), "kernel": (1, 256), "stride": (1, 128)},
    "kernel and stride share little": {"size": (1, 1, 90), "kernel": (1, 12), "stride": (1, 8)},
    "they share nothing": {"size": (2, 1, 40), "kernel": (1, 5), "stride": (1, 3), "channels": 4},
    "rest of the width": {"size": (1, 1, 71), "kernel": (1, 16), "stride": (1, 8), "channels": 3},
    "padded image": {"size": (2, 9, 11), "kernel": (3, 3), "stride": (2, 2), "padding": (1, 0, 1, 2), "channels": 5},
    "dilated": {"size": (1, 12, 13), "kernel": (3, 3), "stride": (1, 1), "dilation": (2, 3), "channels": 2},
    "1x1": {"size": (1, 4, 4), "kernel": (1, 1), "stride": (1, 1), "channels": 8},
}


def convolution(
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilation: tuple[int, int] = (1, 1),
    channels: int = 1,
    results: int = 70,
    **attrs: Any,
) -> Graph:
    batch, height, width = size
    b = GraphBuilder("conv")
    x = b.input("x", (1, 1, batch * height * width, channels))
    operands = [x, b.parameter("w", (results, channels, *kernel)), b.parameter("b", (1, 1, 1, results))]
    attrs |= {"batch_size": batch, "input_height": height, "input_width": width, "kernel_size": kernel}
    attrs |= {"stride": stride, "padding": padding, "dilation": dilation}
    return b.finish(b.op("ttnn.conv2d", *operands, name="conv", in_channels=channels, out_channels=results, **attrs))


def same_result(graph: Graph, way: Way) -> Graph:
    """The graph after a rewrite, which computes what it did before."""
    feeds = {
        v.id: RNG.standard_normal(v.shape).astype(np.float32)
        for v in graph.values.values()
        if graph.producer(v.id) is None
    }
    other = graph.copy()
    assert way.apply(other) == 1
    other.sort()
    assert other.outputs == graph.outputs
    (before,), (after,) = interpreter.run(graph, feeds), interpreter.run(other, feeds)
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-3)
    return other


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_windows_times_weights(name: str) -> None:
    graph = same_result(convolution(**CONVOLUTIONS[name]), UnfoldConvolution("conv"))

    assert not any(op.op == "ttnn.conv2d" for op in graph.ops())


@pytest.mark.parametrize("activation", ["relu", "hardswish"])
def test_activations_go_with_the_product_or_behind_it(activation: str) -> None:
    graph = convolution(**CONVOLUTIONS["padded image"], activation=activation)

    other = same_result(graph, UnfoldConvolution("conv"))

    behind = [op.op for op in other.ops() if op.op == f"ttnn.{activation}"]
    assert behind == ([] if activation == "relu" else ["ttnn.hardswish"])


def test_a_long_kernel_takes_as_few_slices_as_stride_and_kernel_allow() -> None:
    graph = same_result(convolution(**CONVOLUTIONS["long kernel"]), UnfoldConvolution("conv"))

    assert sum(op.op == "ttnn.slice" for op in graph.ops()) == 2


@pytest.mark.parametrize(("parts", "widths"), [(2, [64, 6]), (3, [32, 32, 6])])
def test_output_channels_in_parts(parts: int, widths: list[int]) -> None:
    graph = same_result(convolution(**CONVOLUTIONS["padded image"]), SplitChannels("conv", parts))

    assert [op.attrs["out_channels"] for op in graph.ops() if op.op == "ttnn.conv2d"] == widths


def test_ways_that_are_not_open() -> None:
    grouped = convolution(**{**CONVOLUTIONS["padded image"], "channels": 1}, groups=1)
    grouped.replace_op(grouped.op("conv").with_attrs(groups=2))
    long = convolution(**CONVOLUTIONS["long kernel"])

    assert UnfoldConvolution("conv").apply(grouped) == 0
    assert SplitChannels("conv", 2).apply(grouped) == 0
    assert SplitChannels("conv", 8).apply(long) == 0
    assert UnfoldConvolution("conv", most_taps=1).apply(long) == 0
