"""Compare an imported graph, run by the numpy interpreter, with onnxruntime on random data."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from optimizer.importers import ImportedModel, load
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.values.graph_values import graph_values

Array = np.ndarray[Any, Any]
JUDGED_ELEMENTS = 1 << 20
"""Of all values of a graph."""


def _sibling(name: str) -> Any:
    """A module beside this one; tests run with import-mode importlib, where they are no package."""
    key = f"importer_tests_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[key] = module
        spec.loader.exec_module(module)
    return sys.modules[key]


interpreter = _sibling("interpreter")
BF16_MAX = 3.38e38
"""Infinities of the file are finite in the graph."""
MOST_UNLIKE = 5e-3
"""Of the largest magnitude: room for the clipped infinities and for tanh GELUs."""


@dataclass(frozen=True)
class Witness:
    model: ImportedModel
    expected: list[Array]
    found: list[Array]
    others: list[tuple[str, Array, Array]]
    """Every further computed value that stands for a tensor of the model: its id, the tensor held so, and its own."""

    @property
    def unlike(self) -> list[tuple[str, float]]:
        """Values that are not what they stand for, with the largest difference relative to the tensor's magnitude."""
        found = []
        for value_id, want, got in self.others:
            want, got = (np.clip(np.nan_to_num(x.astype(np.float64)), -BF16_MAX, BF16_MAX) for x in (want, got))
            error = float(np.max(np.abs(want - got))) / max(float(np.max(np.abs(want))), 1e-6)
            found += [(value_id, error)] if error > MOST_UNLIKE else []
        return found

    @property
    def error(self) -> float:
        """Largest difference of any output element, relative to the largest magnitude of that output."""
        errors = []
        for want, got in zip(self.expected, self.found, strict=True):
            scale = max(float(np.max(np.abs(want.astype(np.float64)))), 1e-6)
            errors.append(float(np.max(np.abs(want.astype(np.float64) - got.reshape(want.shape)))) / scale)
        return max(errors)


def to_float32(proto: onnx.ModelProto) -> onnx.ModelProto:
    """bf16 becomes f32 everywhere: onnxruntime's CPU kernels lack bf16."""
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    bf16, f32 = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    for info in [*copy.graph.input, *copy.graph.output, *copy.graph.value_info]:
        if info.type.tensor_type.elem_type == bf16:
            info.type.tensor_type.elem_type = f32
    tensors = list(copy.graph.initializer)
    for node in copy.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == bf16:
                attribute.i = f32
            if attribute.HasField("t"):
                tensors.append(attribute.t)
    for tensor in tensors:
        if tensor.data_type == bf16 and tensor.data_location == onnx.TensorProto.EXTERNAL:
            tensor.data_type = f32
        elif tensor.data_type == bf16:
            name = tensor.name
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float32), name))
    return copy


def random_weights(graph: onnx.GraphProto, rng: np.random.Generator) -> dict[str, Array]:
    """Data for every external initializer, scaled so that activations neither vanish nor overflow."""
    readers: dict[str, list[tuple[onnx.NodeProto, int]]] = {}
    shapes = {t.name: list(t.dims) for t in graph.initializer}
    for node in graph.node:
        for index, name in enumerate(node.input):
            readers.setdefault(name, []).append((node, index))
    made: dict[str, Array] = {}
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            made[tensor.name] = _random(tensor, readers.get(tensor.name, []), shapes, rng)
    return made


def _random(
    tensor: onnx.TensorProto, readers: list[tuple[onnx.NodeProto, int]], shapes: Mapping[str, list[int]],
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    dims = list(tensor.dims)
    if tensor.data_type == onnx.TensorProto.BOOL:
        return np.broadcast_to(np.tri(*dims[-2:], dtype=bool), dims).copy() if len(dims) > 1 else np.ones(dims, bool)
    if tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        bound = min([d for node, _ in readers for d in shapes.get(node.input[0], [])] or [16])
        index = rng.integers(0, min(bound, 16), dims).astype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
        if any(n.op_type == "GatherND" for n, _ in readers) and dims[-1] > 1:
            index[..., 0] = 0  # the leading dim is often a batch of one
        return index
    noise = rng.standard_normal(dims, dtype=np.float32)
    norms = ("LayerNormalization", "BatchNormalization", "InstanceNormalization", "Mul")
    if any((n.op_type in norms and i == 1) or (n.op_type == "BatchNormalization" and i == 4) for n, i in readers):
        return np.abs(1 + 0.1 * noise)
    if len(dims) < 2:
        return 0.1 * noise
    fan = prod(dims[1:]) if len(dims) > 2 else max(dims[0] if not _transposed(readers) else dims[1], 1)
    if any(n.op_type == "Gather" for n, _ in readers):
        return 0.1 * noise
    gain = 2.0 if any(n.op_type == "Conv" for n, _ in readers) else 1.0  # keeps the signal alive through ReLUs
    return noise * sqrt(gain / max(fan, 1))


def _transposed(readers: list[tuple[onnx.NodeProto, int]]) -> bool:
    return any(a.name == "transB" and a.i for n, _ in readers if n.op_type == "Gemm" for a in n.attribute)


def random_inputs(
    graph: onnx.GraphProto, rng: np.random.Generator, shapes: Mapping[str, tuple[int, ...]] | None = None
) -> dict[str, Array]:
    """Data for every graph input: masks see a prefix, integers index whatever they select from."""
    tables = {t.name: list(t.dims) for t in graph.initializer}
    known = set(tables)
    feeds: dict[str, Array] = {}
    for info in graph.input:
        if info.name in known:
            continue
        dims = (shapes or {}).get(info.name) or tuple(d.dim_value for d in info.type.tensor_type.shape.dim)
        kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
        if "mask" in info.name:
            data = np.ones(dims, dtype=kind)
            data[..., -max(1, dims[-1] // 4) :] = 0
        elif np.issubdtype(kind, np.integer):
            rows = [tables[n.input[0]][0] for n in graph.node
                    if n.op_type == "Gather" and n.input[0] in tables and info.name == n.input[1]]  # fmt: skip
            data = rng.integers(0, min([*rows, 100]), dims).astype(kind)
        elif kind == np.bool_:
            data = rng.random(dims) > 0.5
        else:
            data = rng.standard_normal(dims).astype(kind)
        feeds[info.name] = data
    return feeds


def compare(
    proto: onnx.ModelProto,
    *,
    seed: int = 0,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    inputs: Mapping[str, Array] | None = None,
    fuse: bool = True,
) -> Witness:
    """Import a model, run it and the original on the same random data; every value is what it stands for."""
    rng = np.random.default_rng(seed)
    imported = load(proto.SerializeToString(), activations_dtype=DType.F32, input_shapes=shapes, fuse=fuse)
    original = to_float32(proto)
    weights = random_weights(original.graph, rng)
    feeds = {**random_inputs(original.graph, rng, shapes), **(inputs or {})}
    graph = imported.graph
    standing = [v for v in graph.values.values() if graph.producer(v.id) and v.stands_for and not graph.is_output(v.id)]
    returned = len(original.graph.output)
    watched = _watch(original, [v.stands_for.name for v in standing if v.stands_for])
    answers = run_onnx(original, weights, feeds)
    expected, tensors = answers[:returned], dict(zip(watched, answers, strict=True))
    data = {t.name: numpy_helper.to_array(t) for t in original.graph.initializer if t.name not in weights}
    data |= {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in original.graph.node
             if n.op_type == "Constant" and n.attribute[0].HasField("t")}  # fmt: skip
    graph.outputs = (*graph.outputs, *(v.id for v in standing))
    arrays = {**data, **weights, **feeds}
    found = interpreter.run(graph, arrays)
    graph.outputs = graph.outputs[:returned]
    if sum(prod(v.shape) for v in graph.values.values()) <= JUDGED_ELEMENTS:
        _judge_references(graph, arrays, found[:returned])
    others = []
    for value, got in zip(standing, found[returned:], strict=True):
        held = value.stands_for
        assert held is not None
        want = tensors[held.name].reshape(held.shape).transpose(held.dims).reshape(value.shape)
        others.append((value.id, want, got))
    result = Witness(imported, expected, found[:returned], others)
    unlike = result.unlike
    assert not unlike, f"values that are not what they stand for: {unlike}"
    return result


def _watch(proto: onnx.ModelProto, names: list[str]) -> list[str]:
    """Let a model return these tensors too; names of all it returns, in order."""
    known = [info.name for info in proto.graph.output]
    for name in dict.fromkeys(names):
        if name not in known:
            proto.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
    return [info.name for info in proto.graph.output]


def _judge_references(graph: Graph, arrays: Mapping[str, Array], found: list[Array]) -> None:
    """The references of `optimizer.values`, which judge devices, against the interpreter.

    In f64 they may round a tie of f32 to the other side.
    """
    step = 1.0 if any(op.op in ("ttnn.round", "ttnn.floor", "ttnn.ceil", "ttnn.trunc") for op in graph.ops()) else 0.0
    for got, want in zip(graph_values(graph, arrays), found, strict=True):
        scale = max(float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0)), 1e-6)
        np.testing.assert_allclose(got / scale, want.astype(np.float64) / scale, atol=2e-4 + step / scale)


def run_onnx(proto: onnx.ModelProto, weights: Mapping[str, Array], feeds: Mapping[str, Array]) -> list[Array]:
    """onnxruntime's outputs; weights are fed as inputs, so that they are never copied or written anywhere."""
    model = onnx.ModelProto.FromString(proto.SerializeToString())
    kept = [t for t in model.graph.initializer if t.name not in weights]
    promoted = [t for t in model.graph.initializer if t.name in weights]
    have = {i.name for i in model.graph.input}
    for tensor in promoted:
        if tensor.name not in have:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            model.graph.input.append(info)
    kept = [onnx.TensorProto.FromString(t.SerializeToString()) for t in kept]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    del model.graph.value_info[:]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    # its optimizer breaks some valid graphs, and the plain kernels are the better witness
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    fed = {k: v for k, v in {**weights, **feeds}.items() if k in wanted}
    return [np.asarray(r) for r in session.run(None, fed)]
