"""A variance written as the difference of two means is computed from centred values."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import onnx
import pytest
from net import Net, f32, run

from optimizer.device import DeviceSpec
from optimizer.importers import load
from optimizer.options import Options
from optimizer.pipeline import optimize

Model = Callable[..., onnx.ModelProto]
SHAPE = {"x": (2, 8, 64)}
EPSILON = np.float32(1e-5)


def variance(net: Net, keep: int = 1, axes: tuple[int, ...] = (-1,), power: bool = False) -> tuple[str, str]:
    """mean(x), mean(x*x) - mean(x)^2"""
    mean = net("ReduceMean", "x", axes=list(axes), keepdims=keep)
    squares = net("ReduceMean", net("Mul", "x", "x"), axes=list(axes), keepdims=keep)
    squared = net("Pow", mean, np.float32(2)) if power else net("Mul", mean, mean)
    return mean, net("Sub", squares, squared, out="variance")


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("root", ["divide", "reciprocal"])
def test_a_norm_written_so_is_found(root: str, power: bool, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    mean, var = variance(net, power=power)
    spread = net("Sqrt", net("Add", var, EPSILON))
    centred = net("Sub", "x", mean)
    y = net("Div", centred, spread) if root == "divide" else net("Mul", centred, net("Reciprocal", spread))
    out = net("Add", net("Mul", y, f32(64)), f32(64))

    ops, model = run(net, SHAPE, out, witness, make_model)

    assert ops == {"layer_norm": 1}
    assert model.report.fused["centred-variance"] == 1
    assert any("1 variance(s) written as mean(x^2) - mean(x)^2" in warning for warning in model.report.warnings)


@pytest.mark.parametrize(("keep", "axes"), [(1, (-1,)), (0, (-1,)), (1, (1, 2)), (0, (1,))])
def test_any_variance_is_centred(keep: int, axes: tuple[int, ...], witness: ModuleType, make_model: Model) -> None:
    net = Net()
    variance(net, keep, axes)
    out = net("Sqrt", net("Abs", "variance"))

    _, model = run(net, SHAPE, out, witness, make_model)

    assert model.report.fused["centred-variance"] == 1
    assert model.graph.value("variance").stands_for is not None


def test_the_variance_survives_bf16(witness: ModuleType) -> None:
    """With a mean of 100 the difference loses everything in bf16, the centred form next to nothing."""

    def bf16(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        bits = x.astype(np.float32).view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)

    x = bf16(100 + np.random.default_rng(0).standard_normal((64, 1024)).astype(np.float32))
    mean = bf16(x.mean(-1, keepdims=True))
    difference = bf16(bf16(bf16(x * x).mean(-1, keepdims=True)) - bf16(mean * mean))
    centred = bf16(bf16(bf16(x - mean) ** 2).mean(-1, keepdims=True))
    exact = x.var(-1, keepdims=True, dtype=np.float64)

    assert np.max(np.abs(centred / exact - 1)) < 0.1
    assert np.max(np.abs(difference / exact - 1)) > 5


def test_other_differences_stay(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    mean = net("ReduceMean", "x", axes=[-1], keepdims=1)
    squares = net("ReduceMean", net("Mul", "x", "x"), axes=[1, 2], keepdims=1)
    out = net("Sub", squares, net("Mul", mean, mean))

    _, model = run(net, SHAPE, out, witness, make_model)

    assert "centred-variance" not in model.report.fused


def test_the_result_names_what_is_not_rewritten(make_model: Model) -> None:
    net = Net()
    _, var = variance(net)
    proto = make_model(net.nodes, SHAPE, [var], net.weights).SerializeToString()

    rewritten, as_written = (
        optimize(load(proto, fuse=fuse), DeviceSpec.preset("n150"), Options(policy="dram")).summary.numeric_risks
        for fuse in (True, False)
    )

    assert rewritten == ()
    assert [risk.kind for risk in as_written] == ["variance-as-difference"]
