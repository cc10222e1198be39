"""Small ONNX models written node by node, imported and compared with onnxruntime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, Any]
Model = Callable[..., onnx.ModelProto]
RNG = np.random.default_rng(11)


def f32(*shape: int, scale: float = 1.0) -> Array:
    return (scale * RNG.standard_normal(shape)).astype(np.float32)


class Net:
    """Nodes written one after the other; constants become initializers."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}

    def __call__(self, op: str, *inputs: Any, out: str | None = None, count: int = 1, **attrs: Any) -> Any:
        names = [self._name(i) for i in inputs]
        base = out or f"v{len(self.nodes)}"
        outputs = [base] if count == 1 else [f"{base}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, names, outputs, name=f"{op}_{len(self.nodes)}", **attrs))
        return outputs[0] if count == 1 else outputs

    def _name(self, given: Any) -> str:
        if isinstance(given, str):
            return given
        name = f"w{len(self.weights)}"
        array = np.asarray(given)
        self.weights[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return name


def ints(*values: int) -> Array:
    return np.asarray(values, dtype=np.int64)


def run(
    net: Net,
    inputs: Mapping[str, Any],
    output: str | Sequence[str],
    witness: ModuleType,
    make_model: Model,
    *,
    opset: int = 17,
    tolerance: float = 2e-5,
    feeds: Mapping[str, Array] | None = None,
) -> tuple[Counter[str], Any]:
    """Check the meaning; returns how often each op runs, and the imported model."""
    outputs = [output] if isinstance(output, str) else list(output)
    result = witness.compare(make_model(net.nodes, inputs, outputs, net.weights, opset), inputs=feeds)
    assert result.error <= tolerance
    assert not result.model.report.unsupported
    named = {name for op in result.model.graph.ops() for name in op.origin}
    assert named <= {n.name for n in net.nodes}
    return Counter(op.op.removeprefix("ttnn.") for op in result.model.graph.run_ops()), result.model
