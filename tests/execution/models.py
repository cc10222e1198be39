"""A small decoder as an ONNX file, its weights in bf16, beside the file, or in Constants."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, INNER, LENGTH = 320, 128, 4, 256, 64
KINDS = {"bf16": TensorProto.BFLOAT16, "external": TensorProto.FLOAT, "constants": TensorProto.FLOAT16}
"""How a model holds its weights -> their element type."""
_NUMPY = {TensorProto.BFLOAT16: ml_dtypes.bfloat16, TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}


class Decoder:
    """Builds the model: embedding, layers of attention and a gated MLP with RMS norms, a head."""

    def __init__(self, held: str) -> None:
        self.held = held
        self.kind = KINDS[held]
        self.random = np.random.default_rng(3)
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[TensorProto] = []

    def build(self, layers: int) -> onnx.ModelProto:
        x = self.node("Gather", [self.weight("embed", (VOCABULARY, WIDTH)), "ids"], "embedded")
        mask = self.tensor("mask", np.triu(np.full((LENGTH, LENGTH), -1e4), 1)[None, None])
        for layer in range(layers):
            x = self.attention(x, mask, f"l{layer}")
            x = self.mlp(x, f"l{layer}")
        y = self.linear(self.norm(x, "last"), "head", WIDTH, VOCABULARY)
        self.node("Identity", [y], "logits")
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, LENGTH])
        logits = helper.make_tensor_value_info("logits", self.kind, [1, LENGTH, VOCABULARY])
        graph = helper.make_graph(self.nodes, "decoder", [ids], [logits], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)

    def tensor(self, name: str, array: Any) -> str:
        array = np.asarray(array)
        if array.dtype.kind == "f":
            array = array.astype(_NUMPY[self.kind])
        tensor = numpy_helper.from_array(array, name)
        if self.held == "constants":
            self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            self.tensors.append(tensor)
        return name

    def weight(self, name: str, shape: tuple[int, int]) -> str:
        return self.tensor(name, self.random.standard_normal(shape) / np.sqrt(shape[0] if name != "embed" else 1))

    def node(self, op: str, inputs: Sequence[str], name: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"/{name}/{op}", **attributes))
        return name

    def norm(self, x: str, name: str) -> str:
        mean = self.node("ReduceMean", [self.node("Mul", [x, x], f"{name}_square")], f"{name}_mean", axes=[-1])
        safe = self.node("Add", [mean, self.tensor(f"{name}_epsilon", np.float32(1e-5))], f"{name}_safe")
        unit = self.node("Div", [x, self.node("Sqrt", [safe], f"{name}_root")], f"{name}_unit")
        scale = self.tensor(f"{name}_scale", 1 + 0.1 * self.random.standard_normal(WIDTH))
        return self.node("Mul", [unit, scale], f"{name}_normed")

    def linear(self, x: str, name: str, rows: int, columns: int) -> str:
        return self.node("MatMul", [x, self.weight(f"{name}.weight", (rows, columns))], name)

    def attention(self, x: str, mask: str, name: str) -> str:
        normed, size = self.norm(x, f"{name}_1"), WIDTH // HEADS

        def heads(part: str, order: list[int]) -> str:
            shape = self.tensor(f"{name}_{part}_shape", np.array([1, LENGTH, HEADS, size], np.int64))
            rows = self.node(
                "Reshape", [self.linear(normed, f"{name}_{part}", WIDTH, WIDTH), shape], f"{name}_{part}_4d"
            )
            return self.node("Transpose", [rows], f"{name}_{part}_heads", perm=order)

        q, k, v = heads("q", [0, 2, 1, 3]), heads("k", [0, 2, 3, 1]), heads("v", [0, 2, 1, 3])
        scale = self.tensor(f"{name}_factor", np.float32(size**-0.5))
        scores = self.node("Mul", [self.node("MatMul", [q, k], f"{name}_qk"), scale], f"{name}_scores")
        masked = self.node("Add", [scores, mask], f"{name}_masked")
        chosen = self.node("Softmax", [masked], f"{name}_softmax", axis=-1)
        mixed = self.node("MatMul", [chosen, v], f"{name}_mixed")
        shape = self.tensor(f"{name}_shape", np.array([1, LENGTH, WIDTH], np.int64))
        rows = self.node(
            "Reshape", [self.node("Transpose", [mixed], f"{name}_t", perm=[0, 2, 1, 3]), shape], f"{name}_r"
        )
        return self.node("Add", [x, self.linear(rows, f"{name}_o", WIDTH, WIDTH)], f"{name}_attended")

    def mlp(self, x: str, name: str) -> str:
        normed = self.norm(x, f"{name}_2")
        gate = self.linear(normed, f"{name}_gate", WIDTH, INNER)
        silu = self.node("Mul", [gate, self.node("Sigmoid", [gate], f"{name}_sigmoid")], f"{name}_silu")
        gated = self.node("Mul", [silu, self.linear(normed, f"{name}_up", WIDTH, INNER)], f"{name}_gated")
        return self.node("Add", [x, self.linear(gated, f"{name}_down", INNER, WIDTH)], f"{name}_out")


def decoder(folder: Path, held: str, layers: int = 2) -> Path:
    """Write the model; `external` puts every weight into a file beside it."""
    path = folder / f"{held}.onnx"
    model = Decoder(held).build(layers)
    if held == "external":
        onnx.save(model, path, save_as_external_data=True, location=f"{held}.bin", size_threshold=0)
    else:
        onnx.save(model, path)
    return path
