"""GridSample: which forms TTNN has, and why the others stay ops of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from onnx import helper

from optimizer.device import DeviceSpec
from optimizer.importers import load
from optimizer.options import Options
from optimizer.pipeline import optimize

Model = Callable[..., onnx.ModelProto]


def model_of(make_model: Model, image: tuple[int, ...], points: tuple[int, ...], **attrs: Any) -> bytes:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], name="it", **attrs)
    given = {"x": image, "grid": (*points, len(image) - 2)}
    return bytes(make_model([node], given, ["y"], opset=20).SerializeToString())


@pytest.mark.parametrize(
    ("image", "attrs", "why"),
    [
        ((1, 32, 8, 8), {"mode": "nearest"}, "not by mode 'nearest'"),
        ((1, 32, 8, 8), {"mode": "cubic"}, "not by mode 'cubic'"),
        ((1, 32, 8, 8), {"padding_mode": "border"}, "not padding_mode 'border'"),
        ((1, 32, 4, 8, 8), {}, "no volumes"),
    ],
)
def test_forms_that_ttnn_lacks(image: tuple[int, ...], attrs: dict[str, Any], why: str, make_model: Model) -> None:
    imported = load(model_of(make_model, image, (1, *(5,) * (len(image) - 2)), **attrs))

    assert any("GridSample 'it'" in warning and why in warning for warning in imported.report.warnings)


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize("channels", [64, 24])
def test_a_plan_samples_rows_on_the_board(channels: int, board: str, make_model: Model) -> None:
    model = load(model_of(make_model, (2, channels, 16, 12), (2, 9, 7)))

    result = optimize(model, DeviceSpec.preset(board), Options())

    sampled = next(op for op in result.graph.ops() if op.op == "ttnn.grid_sample")
    image = result.graph.value(sampled.inputs[0])
    assert image.shape == (2, 16, 12, 64 if channels == 64 else 32), "whole tiles of channels, last"
    assert not any(result.layouts[v].is_tile for v in (*sampled.inputs, *sampled.outputs))
    assert result.graph.value(result.graph.outputs[0]).shape == (2, channels, 9, 7)


@pytest.mark.parametrize(("scale", "why"), [(0.6, "give sizes"), (0.5, ""), (1.75, "")])
def test_aligned_corners_need_a_whole_number_of_elements(scale: float, why: str, make_model: Model) -> None:
    """ONNX divides by what the scale gives, onnxruntime by the whole number below it."""
    scales = helper.make_tensor("s", onnx.TensorProto.FLOAT, [4], [1.0, 1.0, scale, scale])
    attrs = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    nodes = [
        helper.make_node("Constant", [], ["s"], value=scales),
        helper.make_node("Resize", ["x", "", "s"], ["y"], **attrs),
    ]

    imported = load(bytes(make_model(nodes, {"x": (1, 2, 4, 4)}, ["y"], opset=17).SerializeToString()))

    assert bool(why) == any("Resize" in warning and "give sizes" in warning for warning in imported.report.warnings)
