"""A program against its own graph in float64: weights of the right size, the graph's values, and what is not right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from optimizer.cli import main
from optimizer.device import DeviceSpec
from optimizer.errors import UnsupportedOpError
from optimizer.execution import RunOptions, whole
from optimizer.execution.comparing import Bounds, bounds_of
from optimizer.execution.running import Outcome
from optimizer.execution.whole import check_whole
from optimizer.importers.onnx_arrays import open_weights
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.values.graph_values import graph_values
from optimizer.values.random_arrays import random_weights


def layered() -> Graph:
    """A table that is chosen from, a norm, and two products whose weights are moved before."""
    b = GraphBuilder("layered")
    table = b.op("ttnn.embedding", b.parameter("rows", (4, 64), DType.U32), b.parameter("table", (50, 256)))
    x = b.op("ttnn.add", b.input("x", (1, 1, 64, 256)), b.op("ttnn.reshape", table, shape=(1, 4, 64, 256)))
    x = b.op("ttnn.rms_norm", x, b.parameter("scale", (256,)), epsilon=1e-5)
    turned = b.op("ttnn.permute", b.parameter("w0", (512, 256)), dims=(1, 0))
    x = b.op("ttnn.linear", x, turned, b.parameter("bias", (512,)), activation="relu")
    return b.finish(b.op("ttnn.matmul", x, b.parameter("w1", (512, 128))))


def test_weights_suit_what_reads_them() -> None:
    graph = layered()
    found = random_weights(graph, 0)
    assert {name: array.shape for name, array in found.items()} == {v.id: v.shape for v in open_weights(graph).values()}
    assert found["w0"].std() == pytest.approx(1 / 16, rel=0.02)
    assert found["w1"].std() == pytest.approx(512**-0.5, rel=0.02)
    assert found["scale"].min() > 0.5
    assert found["bias"].std() == pytest.approx(0.1, rel=0.2)
    assert found["rows"].dtype.kind == "i"
    assert set(np.unique(found["rows"])) <= set(range(50))


def test_weights_are_the_same_for_a_seed() -> None:
    graph = layered()
    first, again, other = (random_weights(graph, seed) for seed in (3, 3, 4))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["w0"], other["w0"])


def test_rounding_is_seen_apart() -> None:
    graph = layered()
    given = {**random_weights(graph, 0), "x": np.random.default_rng(1).standard_normal((1, 1, 64, 256))}
    (exact,), (rounded,) = (graph_values(graph, given, rounding=r) for r in (False, True))
    error = np.linalg.norm(rounded - exact) / np.linalg.norm(exact)
    assert 2**-11 < error < 2**-6


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (1.01, True), (1.03, False), (-1.0, False)])
def test_a_gain_is_not_right(monkeypatch: pytest.MonkeyPatch, factor: float, right: bool) -> None:
    def runs(result: object, weights: object, inputs: object, options: RunOptions, *,
             expected: Mapping[str, np.ndarray], report: object) -> Outcome:  # fmt: skip
        from optimizer.execution.comparing import outputs_compared

        names = list(expected)
        wanted = [expected[n] for n in names]
        return Outcome({"outputs": outputs_compared(names, [factor * w for w in wanted], wanted, options.bounds)})

    monkeypatch.setattr(whole, "run_result", runs)
    result = optimize(layered(), DeviceSpec.preset("n150"), Options(policy="dram"))
    found = check_whole(result, "sim", 0)
    assert found["ok"] is right
    assert found["outputs"][0]["rounding_alone"]["relative_error"] < 2**-6


def test_ops_on_the_host_are_refused_by_name() -> None:
    b = GraphBuilder("hosted")
    graph = b.finish(b.op("ttnn.relu", b.input("x", (1, 1, 64, 64))))
    made = graph.add_value(Value("y", (1, 1, 64, 64), DType.BF16, ValueKind.ACTIVATION)).id
    graph.add_op(Op("elsewhere", "onnx.Elsewhere", tuple(graph.outputs), (made,), {}, "elsewhere"))
    graph.outputs = [made]
    result = optimize(graph, DeviceSpec.preset("n150"), Options(policy="dram", allow_host_ops=True))
    with pytest.raises(UnsupportedOpError, match="'elsewhere'"):
        check_whole(result, "sim", 0)


def test_whole_needs_a_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), "--whole"]) == 2
    assert "--values" in capsys.readouterr().err


def test_on_the_simulator(needs_simulator: None) -> None:
    result = optimize(layered(), DeviceSpec.preset("n150"), Options())
    found = check_whole(result, "sim", 0)
    assert found["ok"], found["outputs"]


@pytest.mark.slow
def test_a_run_within_a_budget_is_held_to_it_alone() -> None:
    """A correlation of 0.99 allows a relative error of 0.14, which the usual limit does not."""
    usual, budget = (optimize(layered(), "n150", Options(least_pcc=least)) for least in (None, 0.98))

    assert bounds_of(usual) == Bounds()
    assert bounds_of(budget) == Bounds(0.98, math.inf)
