"""One ONNX node as a test case: imported, interpreted and compared with onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import witness
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
BOOL, I64, I32, F32 = TensorProto.BOOL, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT
KINDS = {
    np.dtype(bool): BOOL,
    np.dtype(np.int64): I64,
    np.dtype(np.int32): I32,
    np.dtype(np.float32): F32,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
    np.dtype(np.uint32): TensorProto.UINT32,
    np.dtype(np.float16): TensorProto.FLOAT16,
}
RNG = np.random.default_rng(7)


def build(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, int] | Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 17,
    domains: Sequence[str] = (),
) -> onnx.ModelProto:
    """A model; inputs are name -> shape (f32) or (shape, type), outputs name -> type (or names of f32 ones)."""
    infos = []
    for name, given in inputs.items():
        typed = len(given) == 2 and isinstance(given[0], tuple)
        shape, kind = given if typed else (given, TensorProto.FLOAT)
        infos.append(helper.make_tensor_value_info(name, kind, list(shape)))
    kinds = outputs if isinstance(outputs, Mapping) else dict.fromkeys(outputs, TensorProto.FLOAT)
    results = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(list(nodes), "small", infos, results, tensors)
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid(d, 1) for d in domains]]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@dataclass(frozen=True)
class Case:
    """One node. Inputs: a shape for a random f32 input, an array for an input with these elements,
    `("const", array)` for an initializer, None for an absent one."""

    op: str
    inputs: tuple[Any, ...]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[int | None, ...] = (F32,)
    """Element type per output; None for one that the node does not name."""
    opset: int = 17
    domain: str = ""
    positive: bool = False
    tolerance: float = 2e-5
    label: str = ""
    returned: tuple[int, ...] | None = None
    """Outputs that the model returns; all of them by default."""

    def __str__(self) -> str:
        return f"{self.op}{'-' + self.label if self.label else ''}-{self.opset}"


def const(*values: Any, dtype: Any = np.int64) -> tuple[str, Array]:
    return ("const", np.asarray(values, dtype=dtype))


def scalar(value: Any, dtype: Any = np.int64) -> tuple[str, Array]:
    return ("const", np.asarray(value, dtype=dtype))


def weight(*shape: int) -> tuple[str, Array]:
    return ("const", RNG.standard_normal(shape).astype(np.float32))


def model_of(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The case as a model, and what to feed it."""
    inputs: dict[str, Any] = {}
    weights: dict[str, Array] = {}
    feeds: dict[str, Array] = {}
    names: list[str] = []
    for index, given in enumerate(case.inputs):
        name = "" if given is None else f"in{index}"
        names.append(name)
        if isinstance(given, tuple) and len(given) == 2 and given[0] == "const":
            weights[name] = np.asarray(given[1])
        elif isinstance(given, tuple):
            data = np.random.default_rng(index).standard_normal(given).astype(np.float32)
            feeds[name] = np.abs(data) + 0.1 if case.positive else data
            inputs[name] = given
        elif given is not None:
            feeds[name] = np.asarray(given)
            inputs[name] = (feeds[name].shape, KINDS[feeds[name].dtype])
    named = ["" if kind is None else f"out{i}" for i, kind in enumerate(case.outputs)]
    outputs = {
        f"out{i}": kind
        for i, kind in enumerate(case.outputs)
        if kind is not None and (case.returned is None or i in case.returned)
    }
    node = helper.make_node(case.op, names, named, name="node", domain=case.domain, **case.attrs)
    domains = [case.domain] if case.domain else []
    proto = build([node], inputs, outputs, weights, case.opset, domains)
    if case.domain:  # shapes of foreign ops come from the file
        for info, array in zip(proto.graph.output, witness.run_onnx(proto, {}, feeds), strict=True):
            info.CopyFrom(helper.make_tensor_value_info(info.name, KINDS[array.dtype], list(array.shape)))
    return proto, feeds


def check(case: Case) -> None:
    """The imported node is no opaque op and gives what onnxruntime gives."""
    proto, feeds = model_of(case)
    result = witness.compare(proto, inputs=feeds)
    assert result.model.report.unsupported == ()
    assert result.error <= case.tolerance
