"""Factors around products with weights are multiplied into the weights, with the same results."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from net import Model, Net, f32, ints, run

X = {"x": (2, 6, 64)}


def product(net: Net, x: str, width: int = 64, *, bias: bool = True) -> str:
    rows = net("MatMul", x, f32(64, width, scale=0.1))
    return net("Add", rows, f32(width)) if bias else rows


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("factor", ["number", "row"])
def test_factor_after_a_product(factor: str, bias: bool, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = net("Mul", product(net, "x", bias=bias), np.float32(0.3) if factor == "number" else f32(64))

    ops, _ = run(net, X, out, witness, make_model)

    assert ops == {"linear" if bias else "matmul": 1}


@pytest.mark.parametrize("factor", ["number", "row"])
def test_factor_before_a_product(factor: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    scaled = net("Mul", net("Relu", "x"), np.float32(0.3) if factor == "number" else f32(1, 1, 64))
    out = product(net, scaled)

    ops, _ = run(net, X, out, witness, make_model)

    assert ops == {"relu": 1, "linear": 1}


def test_factor_of_transposed_weights(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    flat = net("Gemm", "x", f32(32, 64), f32(32), transB=1)
    out = net("Mul", flat, f32(32))

    ops, _ = run(net, {"x": (6, 64)}, out, witness, make_model)

    assert ops == {"linear": 1}


def test_what_else_is_read_stays(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    rows = product(net, "x")
    out = net("Add", net("Mul", rows, np.float32(0.3)), rows)
    column = net("Mul", "x", f32(2, 6, 1))

    ops, _ = run(net, X, [out, product(net, column)], witness, make_model)

    assert ops["multiply"] == 2


@pytest.mark.parametrize("between", [True, False])
def test_quick_gelu_between_products_is_the_silu_of_one(between: bool, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    x = product(net, "x", 128) if between else net("Reshape", "x", ints(2, 3, 128))
    gated = net("Mul", x, net("Sigmoid", net("Mul", x, np.float32(1.702))))
    out = net("MatMul", gated, f32(128, 64, scale=0.1)) if between else gated

    ops, model = run(net, X, out, witness, make_model)

    assert model.report.fused["quick-gelu"] == 1
    assert ops == ({"linear": 1, "matmul": 1} if between else {"reshape": 1, "multiply": 2})
