"""Small models whose plans have between them everything that a plan can have."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from optimizer.export.annotated_json import dumps
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.options import Options
from optimizer.pipeline import optimize_file


@dataclass(frozen=True)
class Sample:
    """A model as a JSON graph, and the options of its plan."""

    name: str
    graph: Callable[[], Graph | bytes]
    """One of our graphs, or the bytes of an ONNX file."""
    options: dict[str, Any] = field(default_factory=dict)

    def model(self) -> bytes:
        made = self.graph()
        return made if isinstance(made, bytes) else model_bytes(made)

    def document(self) -> dict[str, Any]:
        """The plan, as `graph.json` has it."""
        return json.loads(_plan(self.name))  # type: ignore[no-any-return]


def model_bytes(graph: Graph) -> bytes:
    """A graph in the input format."""
    values = {}
    for v in graph.values.values():
        values[v.id] = {"shape": list(v.shape), "dtype": v.dtype.value, "kind": v.kind.value}
        if v.data is not None:
            values[v.id]["data"] = list(v.data)
    ops = [
        {"id": o.id, "op": o.op, "name": o.name, "inputs": o.inputs, "outputs": o.outputs, "attrs": dict(o.attrs)}
        for o in graph.ops()
    ]
    model = {"name": graph.name, "inputs": graph.inputs, "outputs": graph.outputs}
    return json.dumps({"schema": "ttopt.graph/1", "model": model, "values": values, "ops": ops}).encode()


def conv_net() -> Graph:
    """Convolutions with a residual, prepared biases, pooling and a classifier: freed operands, views, weights in L1."""
    b = GraphBuilder("conv_net")
    x = b.input("x", (1, 1, 56 * 56, 64))
    size = {"batch_size": 1, "input_height": 56, "input_width": 56, "in_channels": 64, "out_channels": 64}
    h, kept = x, x
    for n in range(3):
        bias = b.op("ttnn.reshape", b.parameter(f"b{n}", (64,)), shape=(1, 1, 1, 64), name=f"bias{n}")
        wide = {"kernel_size": (3, 3), "padding": (1, 1, 1, 1)}
        weight = b.parameter(f"w{n}", (64, 64, 3, 3))
        y = b.op("ttnn.conv2d", h, weight, bias, **size, **wide, activation="relu" if n < 2 else None, name=f"conv{n}")
        h, kept = (y, y) if n == 0 else (y, kept)
    h = b.op("ttnn.add", h, kept, activations=("relu",), name="residual")
    pool = {"batch_size": 1, "input_height": 56, "input_width": 56, "channels": 64}
    h = b.op("ttnn.max_pool2d", h, **pool, kernel_size=(2, 2), stride=(2, 2), name="pool")
    h = b.op("ttnn.reshape", h, shape=(1, 28, 28, 64), name="square")
    h = b.op("ttnn.mean", h, dim=(1, 2), name="average")
    h = b.op("ttnn.reshape", h, shape=(1, 1, 1, 64), name="flat")
    w, v = b.parameter("fc_w", (64, 128)), b.parameter("fc_v", (64, 128))
    first = b.op("ttnn.linear", h, w, b.parameter("fc_b", (128,)), name="fc")
    return b.finish(first, b.op("ttnn.matmul", h, v, name="side"))


def block() -> Graph:
    """A transformer block with a mask of constants: attention, norms, heads, ops in place, matmul programs."""
    b = GraphBuilder("block")
    rows, width, heads = 256, 512, 8
    x, y = b.input("x", (1, rows, width)), b.input("y", (1, rows, width))
    h = b.op("ttnn.add", x, y, name="embed")
    n = b.op("ttnn.layer_norm", h, b.parameter("g0", (width,)), b.parameter("s0", (width,)), epsilon=1e-6, name="ln0")
    split = []
    for part in "qkv":
        p = b.op("ttnn.linear", n, b.parameter(f"w{part}", (width, width)), name=f"to_{part}")
        p = b.op("ttnn.reshape", p, shape=(1, rows, heads, width // heads), name=f"rows_{part}")
        split.append(b.op("ttnn.permute", p, dims=(0, 2, 1, 3), name=f"heads_{part}"))
    mask = b.constant("mask", (1, 1, 1, rows), tuple(float(k % 2) for k in range(rows)))
    scores = b.op("ttnn.multiply", b.op("ttnn.matmul", split[0], split[1], transpose_b=True, name="qk"), scalar=0.125)
    scores = b.op("ttnn.softmax", b.op("ttnn.add", scores, mask, name="masked"), name="soft")
    a = b.op("ttnn.concatenate_heads", b.op("ttnn.matmul", scores, split[2], name="pv"), name="merge")
    h = b.op("ttnn.add", h, b.op("ttnn.linear", a, b.parameter("wo", (width, width)), name="out"), name="res0")
    n = b.op("ttnn.rms_norm", h, b.parameter("g1", (width,)), name="ln1")
    up = b.op("ttnn.linear", n, b.parameter("w_up", (width, 4 * width)), activation="gelu", name="up")
    down = b.op("ttnn.linear", up, b.parameter("w_down", (4 * width, width)), name="down")
    result = b.op("ttnn.add", h, down, name="res1")
    return b.finish(result, b.op("ttnn.tanh", result, name="squash"))


def on_the_host() -> Graph:
    """An op that TTNN lacks between two that it has, rows gathered by whole-number constants, in L1 on both sides."""
    b = GraphBuilder("on_the_host")
    x = b.input("x", (1, 1, 64, 64))
    graph = b.finish()
    table = b.parameter("table", (128, 64))
    ids = b.constant("ids", (1, 32), tuple(range(32)), DType.U32)
    rows = b.op("ttnn.embedding", ids, table, name="lookup")
    h = b.op("ttnn.gelu", b.op("ttnn.relu", x, name="before"), name="near")
    graph.add_value(Value("z", (1, 1, 32, 64), DType.BF16, ValueKind.ACTIVATION))
    graph.add_op(Op("nonzero", "onnx.NonZero", (h,), ("z",), {"foreign": 1}, "nonzero"))
    h = b.op("ttnn.neg", "z", name="after")
    back = b.op("ttnn.exp", h, name="back")
    h = b.op("ttnn.subtract", b.op("ttnn.multiply", h, back, name="product"), back, name="less")
    summed = b.op("ttnn.reshape", rows, shape=(1, 1, 32, 64), name="four")
    return b.finish(h, summed)


def elementwise() -> Graph:
    """Elementwise ops that the emitted program runs as one kernel, twice the same."""
    b = GraphBuilder("elementwise")
    x, y = b.input("x", (1, 1, 512, 512)), b.input("y", (1, 1, 512, 512))
    for n in range(2):
        x = b.op("ttnn.multiply", b.op("ttnn.gelu", x, name=f"g{n}"), y, name=f"m{n}")
        x = b.op("ttnn.add", b.op("ttnn.exp", x, name=f"e{n}"), y, name=f"s{n}")
    return b.finish(x)


def gated() -> Graph:
    """A gate whose product has no room of its own beside its operands: results written into operands."""
    b = GraphBuilder("gated")
    x = b.input("x", (1, 1, 512, 512))
    p, q = b.op("ttnn.gelu", x, name="p"), b.op("ttnn.exp", x, name="q")
    p = b.op("ttnn.reshape", p, shape=(1, 512, 512), name="flat")
    p = b.op("ttnn.reshape", p, shape=(1, 1, 512, 512), name="back")
    y = b.op("ttnn.silu", b.op("ttnn.multiply", p, q, name="mul"), name="act")
    return b.finish(b.op("ttnn.add", y, x, name="sum"))


def perceptron() -> bytes:
    """An ONNX file: two layers of f32 weights, which the import converts."""
    shapes = {"w1": (256, 512), "w2": (512, 256)}
    weights = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="fc1"),
        helper.make_node("Gelu", ["h"], ["a"], name="act"),
        helper.make_node("MatMul", ["a", "w2"], ["y"], name="fc2"),
    ]
    given, returned = (helper.make_tensor_value_info(v, TensorProto.FLOAT, [128, 256]) for v in ("x", "y"))
    graph = helper.make_graph(nodes, "perceptron", [given], [returned], weights)
    opset = helper.make_opsetid("", 20)
    data: bytes = helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString()
    return data


SAMPLES = {
    s.name: s
    for s in (
        Sample("conv net", conv_net),
        Sample("block", block),
        Sample("block by chains", block, {"policy": "dfsharding", "board": "p150"}),
        Sample("op on the host", on_the_host, {"allow_host_ops": True}),
        Sample("kernels", elementwise, {"fuse_kernels": True}),
        Sample("in place", gated),
        Sample("ONNX file", perceptron),
    )
}


@cache
def _plan(name: str) -> str:
    sample = SAMPLES[name]
    return dumps(optimize_file(sample.model(), Options.from_mapping(sample.options)))
