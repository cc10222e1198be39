"""Stacked rows, picked columns and softmax over channels, with the same results and less movement."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from net import RNG, Model, Net, f32, ints, run
from onnx import TensorProto


@pytest.mark.parametrize("width", [64, 20])
def test_rows_are_stacked_side_by_side(width: int, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    rows = [net("Relu", "x"), net("Tanh", "x"), net("Neg", "x")]
    out = net("Concat", *(net("Unsqueeze", r, ints(1)) for r in rows), axis=1)

    ops, _ = run(net, {"x": (5, width)}, out, witness, make_model)

    whole_tiles = width == 64
    assert (ops["concat"], ops["reshape"]) == (1, 1 if whole_tiles else 3)


def test_columns_are_picked_from_the_transposed_matrix(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    picked = [net("Gather", "ids", np.int64(i), axis=1) for i in range(3)]
    out = net("Concat", *(net("Gather", f32(9, 32), p) for p in picked), axis=1)
    feeds = {"ids": RNG.integers(0, 9, (6, 3))}

    ops, model = run(net, {"ids": ((6, 3), TensorProto.INT64)}, out, witness, make_model, feeds=feeds)

    assert model.report.fused["pick-columns"] == 3
    assert (ops["permute"], ops["slice"]) == (1, 3)
    cuts = [op for op in model.graph.ops() if op.op == "ttnn.slice"]
    assert [model.graph.value(c.outputs[0]).shape for c in cuts] == [(1, 6)] * 3


def test_softmax_over_channels_runs_on_rows_of_pixels(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    turned = net("Transpose", net("Reshape", "x", ints(1, 4, 16, 20)), perm=[0, 2, 1, 3])
    out = net("Conv", net("Softmax", turned, axis=1), f32(1, 16, 1, 1))

    _, model = run(net, {"x": (1, 64, 20)}, out, witness, make_model)

    softmax = next(op for op in model.graph.ops() if op.op == "ttnn.softmax")
    assert model.graph.value(softmax.outputs[0]).shape == (1, 1, 80, 16)
    assert softmax.attrs["dim"] == -1
