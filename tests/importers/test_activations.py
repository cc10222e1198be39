"""What ONNX activations become, up to the TTNN call: exact forms, parameters kept, nothing fused that kernels compute
otherwise. Their meaning is compared with onnxruntime in `meaning/test_meaning_*.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
import pytest
from net import Net, f32

from optimizer.device import DeviceSpec
from optimizer.export.ttnn_py import render, ttnn_program
from optimizer.importers import load
from optimizer.ir.activations import FUSED_ACTIVATIONS
from optimizer.ir.graph import Op
from optimizer.opmodel.ttnn_calls.text import activation_text
from optimizer.options import Options
from optimizer.pipeline import optimize

Model = Callable[..., onnx.ModelProto]


def after(source: str, activation: str, make_model: Model, opset: int = 20, **attrs: Any) -> tuple[list[Op], str]:
    """The ops of an activation behind a convolution, a product or a sum, and the emitted program."""
    net = Net()
    shape = (1, 32, 8, 8) if source == "Conv" else (1, 64, 64)
    operands = {"Conv": [f32(32, 32, 3, 3)], "MatMul": [f32(64, 64)], "Add": ["x"]}[source]
    pads = {"pads": [1, 1, 1, 1]} if source == "Conv" else {}
    net(activation, net(source, "x", *operands, **pads), out="y", **attrs)
    proto = make_model(net.nodes, {"x": shape}, ["y"], net.weights, opset=opset)
    result = optimize(load(proto.SerializeToString()), DeviceSpec.preset("n150"), Options(policy="dram"))
    return list(result.graph.ops()), render(ttnn_program(result))


@pytest.mark.parametrize("source", ["Conv", "MatMul", "Add"])
@pytest.mark.parametrize(
    ("activation", "attrs", "op", "said"),
    [
        ("LeakyRelu", {"alpha": 0.25}, "ttnn.leaky_relu", ", 0.25,"),
        ("Elu", {"alpha": 0.3}, "ttnn.elu", "alpha=0.3"),
        ("Celu", {"alpha": 0.5}, "ttnn.celu", "alpha=0.5"),
        ("ThresholdedRelu", {"alpha": 1.5}, "ttnn.threshold", ", 1.5, 0.0,"),
        ("Shrink", {"lambd": 0.75}, "ttnn.hardshrink", "lambd=0.75"),
        ("Shrink", {"lambd": 0.75, "bias": 0.75}, "ttnn.softshrink", "lambd=0.75"),
        ("HardSwish", {}, "ttnn.hardswish", "ttnn.hardswish("),
        ("HardSigmoid", {"alpha": 1 / 6}, "ttnn.hardsigmoid", "ttnn.hardsigmoid("),
        ("Mish", {}, "ttnn.mish", "ttnn.mish("),
        ("Softplus", {}, "ttnn.softplus", "ttnn.softplus("),
    ],
)
def test_activations_with_parameters_or_wrong_in_kernels_are_ops_of_their_own(
    source: str, activation: str, attrs: dict[str, Any], op: str, said: str, make_model: Model
) -> None:
    ops, program = after(source, activation, make_model, **attrs)

    assert op in [o.op for o in ops]
    assert not any(o.attrs.get("activation") or o.attrs.get("activations") for o in ops)
    assert said in program


@pytest.mark.parametrize("source", ["Conv", "MatMul", "Add"])
@pytest.mark.parametrize(
    ("approximate", "name", "passed"),
    [("none", "gelu", "ttnn.UnaryOpType.GELU, 0.0"), ("tanh", "gelu_tanh", "ttnn.UnaryOpType.GELU_TANH)")],
)
def test_both_forms_of_gelu_are_fused_as_what_they_are(
    source: str, approximate: str, name: str, passed: str, make_model: Model
) -> None:
    ops, program = after(source, "Gelu", make_model, approximate=approximate)

    fused = [o.attrs.get("activation") or (*o.attrs.get("activations", ()), None)[0] for o in ops]
    assert [a for a in fused if a] == [name]
    assert passed in program or f'activation="{name}"' in program
    assert "UnaryOpType.GELU)" not in program


def test_gelu_in_its_tanh_form_is_ttnns_variant(make_model: Model) -> None:
    net = Net()
    net("Gelu", "x", approximate="tanh", out="y")
    model = load(make_model(net.nodes, {"x": (1, 32, 64)}, ["y"], {}, opset=20).SerializeToString())

    program = render(ttnn_program(optimize(model, DeviceSpec.preset("n150"), Options(policy="dram"))))

    assert "ttnn.gelu(x, variant=ttnn.GeluVariant.Tanh, memory_config=" in program
    assert model.report.warnings == ()


def test_the_accurate_form_of_gelu_is_asked_for_wherever_it_is_fused() -> None:
    assert activation_text("gelu") == "ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 0.0)"
    assert activation_text("gelu_tanh") == "ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU_TANH)"
    assert "hardswish" not in FUSED_ACTIVATIONS
