"""Inputs that the caller feeds channels-last."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer import Options, optimize
from optimizer.errors import ShapeError
from optimizer.execution.arrays import as_the_model_has_it
from optimizer.importers.model import ImportOptions
from optimizer.importers.passes.fed_inputs import advice, fed_channels_last, feed_channels_last
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import ForeignTensor, Graph
from optimizer.values.given import GivenValues, model_values


def image(*, returned: bool = False, also_read: bool = False, dims: tuple[int, ...] = (0, 2, 3, 1)) -> Graph:
    """An image [2, 3, 8, 16] turned around, then as rows of a product."""
    b = GraphBuilder("image")
    x = b.input("x", (2, 3, 8, 16))
    turned = b.op("ttnn.permute", x, dims=dims, name="turned")
    rows = b.op("ttnn.reshape", turned, shape=(1, 1, 256, 3), name="rows")
    y = b.op("ttnn.linear", rows, b.parameter("w", (3, 64)), name="y")
    more = [turned] if returned else []
    more += [b.op("ttnn.relu", x, name="kept")] if also_read else []
    return b.finish(y, *more)


def test_an_input_that_is_only_turned_is_fed_so() -> None:
    graph = image()
    assert feed_channels_last(graph) == ("x",)
    assert graph.value("x").shape == (2, 8, 16, 3)
    assert graph.value("x").stands_for == ForeignTensor("x", (2, 3, 8, 16), (0, 2, 3, 1))
    assert [op.id for op in graph.ops()] == ["rows", "y"]
    assert fed_channels_last(graph) == ("x",)


@pytest.mark.parametrize("graph", [image(returned=True), image(also_read=True), image(dims=(0, 3, 2, 1))])
def test_an_input_that_is_read_otherwise_is_left_alone(graph: Graph) -> None:
    assert feed_channels_last(graph) == ()
    assert graph.value("x").shape == (2, 3, 8, 16)


def test_indices_have_no_channels() -> None:
    b = GraphBuilder("ids")
    ids = b.op("ttnn.permute", b.input("ids", (1, 4, 32), DType.U32), dims=(0, 2, 1))
    graph = b.finish(b.op("ttnn.embedding", ids, b.parameter("table", (64, 64))))
    assert feed_channels_last(graph) == ()


def test_what_is_fed_is_turned_back_for_the_model() -> None:
    graph = image()
    x = np.arange(768.0).reshape(2, 3, 8, 16)
    feed_channels_last(graph)
    assert np.array_equal(as_the_model_has_it(graph.value("x"), x.transpose(0, 2, 3, 1)), x)


def test_a_plan_says_which_inputs_are_fed_so() -> None:
    result = optimize(image(), "n150", Options(channels_last_inputs=True))
    assert result.graph.value("x").shape == (2, 8, 16, 3)
    assert not any(op.op == "ttnn.permute" for op in result.graph.ops())
    assert not any("channels-last" in warning for warning in result.summary.warnings)


def test_a_model_without_images_is_warned_of() -> None:
    result = optimize(image(also_read=True), "n150", Options(channels_last_inputs=True))
    assert any("no input is fed channels-last" in warning for warning in result.summary.warnings)


def test_a_costly_permute_is_told_of() -> None:
    assert advice(image(), image(), {"turned": 5, "rows": 5, "y": 90}) == [
        "5% of the time is the permute of input 'x' to channels-last: channels_last_inputs leaves that to the caller"
    ]
    assert advice(image(), image(), {"turned": 4, "y": 96}) == []
    assert advice(image(also_read=True), image(also_read=True), {"turned": 50, "y": 50}) == []


def test_calibration_has_to_be_in_the_order_of_the_program() -> None:
    graph = image()
    x = np.zeros((2, 3, 8, 16), np.float32)
    feed_channels_last(graph)
    with pytest.raises(ShapeError, match=r"\[2, 3, 8, 16\], not \[2, 8, 16, 3\]"):
        model_values(graph, GivenValues(inputs={"x": x}), None, ImportOptions(), 0)
