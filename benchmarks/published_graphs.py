"""Networks of published sizes that no fixture has: BERT-Large, Stable Diffusion's UNet, a decode step of Whisper."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from optimizer import load
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph


# -- BERT-Large -------------------------------------------------------------------------------------------------
def bert_large(batch: int, tokens: int = 384, layers: int = 24, hidden: int = 1024, heads: int = 16) -> Graph:
    """BERT-Large from the embeddings' sum to the start and end of an answer."""
    b = GraphBuilder("bert_large")
    x = b.input("x", (batch, 1, tokens, hidden))
    for i in range(layers):
        qkv = b.op("ttnn.linear", x, *_weights(b, f"qkv{i}", hidden, 3 * hidden), name=f"qkv{i}")
        flat = b.op("ttnn.reshape", qkv, shape=(batch, tokens, 3 * hidden), name=f"flat{i}")
        q, k, v = b.ops("ttnn.split_query_key_value_and_split_heads", flat, num_heads=heads, name=f"heads{i}")
        a = b.op("ttnn.scaled_dot_product_attention", q, k, v, name=f"attention{i}")
        a = b.op("ttnn.reshape", b.op("ttnn.concatenate_heads", a, name=f"joined{i}"), shape=(batch, 1, tokens, hidden))
        a = b.op("ttnn.linear", a, *_weights(b, f"out{i}", hidden, hidden), name=f"out{i}")
        x = _normed(b, b.op("ttnn.add", x, a, name=f"attended{i}"), f"norm_a{i}", hidden)
        m = b.op("ttnn.linear", x, *_weights(b, f"up{i}", hidden, 4 * hidden), activation="gelu", name=f"up{i}")
        m = b.op("ttnn.linear", m, *_weights(b, f"down{i}", 4 * hidden, hidden), name=f"down{i}")
        x = _normed(b, b.op("ttnn.add", x, m, name=f"fed{i}"), f"norm_b{i}", hidden)
    return b.finish(b.op("ttnn.linear", x, *_weights(b, "answer", hidden, 2), name="answer"))


def _weights(b: GraphBuilder, name: str, rows: int, columns: int) -> tuple[str, str]:
    return b.parameter(f"w_{name}", (rows, columns)), b.parameter(f"b_{name}", (1, columns))


def _normed(b: GraphBuilder, x: str, name: str, width: int) -> str:
    return b.op("ttnn.layer_norm", x, b.parameter(f"g_{name}", (width,)), b.parameter(f"s_{name}", (width,)), name=name)


# -- Stable Diffusion -------------------------------------------------------------------------------------------
class _Onnx:
    """An ONNX graph in the making; weights have no elements."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attrs: object) -> str:
        name = f"n{len(self.nodes)}"
        results = [name] if outputs == 1 else [f"{name}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), results, name=name, **attrs))
        return results[0]

    def weight(self, *shape: int) -> str:
        tensor = TensorProto(name=f"w{len(self.tensors)}", data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "not_shipped.bin"), ("offset", "0"), ("length", str(4 * prod(shape)))):
            tensor.external_data.add(key=key, value=value)
        self.tensors.append(tensor)
        return str(tensor.name)

    def constant(self, values: list[int]) -> str:
        self.tensors.append(numpy_helper.from_array(np.array(values, np.int64), f"c{len(self.tensors)}"))
        return str(self.tensors[-1].name)

    def linear(self, x: str, rows: int, columns: int, bias: bool = True) -> str:
        product = self.op("MatMul", x, self.weight(rows, columns))
        return self.op("Add", product, self.weight(columns)) if bias else product

    def conv(self, x: str, channels: int, out: int, kernel: int = 3, stride: int = 1) -> str:
        pads, weight = [kernel // 2] * 4, self.weight(out, channels, kernel, kernel)
        return self.op("Conv", x, weight, self.weight(out), pads=pads, strides=[stride] * 2)

    def group_norm(self, x: str, channels: int) -> str:
        return self.op("GroupNormalization", x, self.weight(channels), self.weight(channels), num_groups=32)

    def layer_norm(self, x: str, width: int) -> str:
        return self.op("LayerNormalization", x, self.weight(width), self.weight(width), axis=-1)

    def silu(self, x: str) -> str:
        return self.op("Mul", x, self.op("Sigmoid", x))

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(list(shape)))

    def graph(self, inputs: dict[str, tuple[int, ...]], output: str) -> Graph:
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
        made = helper.make_graph(
            self.nodes, "unet", given, [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)], self.tensors
        )
        return load(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)).graph


class _Unet(_Onnx):
    """The blocks of `UNet2DConditionModel` of diffusers."""

    heads, context = 8, 768

    def __init__(self, batch: int) -> None:
        super().__init__()
        self.batch = batch
        step = self.silu(self.linear("time", 320, 1280))
        self.step = self.silu(self.linear(step, 1280, 1280))

    def resnet(self, x: str, channels: int, out: int) -> str:
        h = self.conv(self.silu(self.group_norm(x, channels)), channels, out)
        h = self.op("Add", h, self.reshaped(self.linear(self.step, 1280, out), self.batch, out, 1, 1))
        h = self.conv(self.silu(self.group_norm(h, out)), out, out)
        return self.op("Add", h, x if channels == out else self.conv(x, channels, out, kernel=1))

    def transformer(self, x: str, c: int, side: int) -> str:
        h = self.conv(self.group_norm(x, c), c, c, kernel=1)
        h = self.op("Transpose", self.reshaped(h, self.batch, c, side * side), perm=[0, 2, 1])
        h = self.op("Add", h, self.attention(self.layer_norm(h, c), None, c, side * side, side * side))
        h = self.op("Add", h, self.attention(self.layer_norm(h, c), "context", c, side * side, 77))
        both = self.linear(self.layer_norm(h, c), c, 8 * c)
        self.op("Split", both, outputs=2, axis=-1, num_outputs=2)
        value, gate = self.nodes[-1].output
        fed = self.op("Mul", value, self.op("Gelu", gate))
        h = self.op("Add", h, self.linear(fed, 4 * c, c))
        h = self.reshaped(self.op("Transpose", h, perm=[0, 2, 1]), self.batch, c, side, side)
        return self.op("Add", x, self.conv(h, c, c, kernel=1))

    def attention(self, x: str, other: str | None, c: int, queries: int, keys: int) -> str:
        def cut(v: str, width: int, tokens: int, perm: list[int]) -> str:
            product = self.linear(v, width, c, bias=False)
            return self.op(
                "Transpose", self.reshaped(product, self.batch, tokens, self.heads, c // self.heads), perm=perm
            )

        source, width = (x, c) if other is None else (other, self.context)
        q, k = cut(x, c, queries, [0, 2, 1, 3]), cut(source, width, keys, [0, 2, 3, 1])
        v = cut(source, width, keys, [0, 2, 1, 3])
        self.tensors.append(numpy_helper.from_array(np.float32((c // self.heads) ** -0.5), f"c{len(self.tensors)}"))
        scores = self.op("Mul", self.op("MatMul", q, k), self.tensors[-1].name)
        a = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        a = self.reshaped(self.op("Transpose", a, perm=[0, 2, 1, 3]), self.batch, queries, c)
        return self.linear(a, c, c)

    def doubled(self, x: str, channels: int) -> str:
        self.tensors.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), f"c{len(self.tensors)}"))
        sizes = self.tensors[-1].name
        up = self.op(
            "Resize", x, "", sizes, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
        )
        return self.conv(up, channels, channels)


def sd_unet(batch: int = 2, side: int = 64, widths: tuple[int, ...] = (320, 640, 1280, 1280)) -> Graph:
    """One denoising step of Stable Diffusion 1.4: both halves of the guidance in one batch."""
    b = _Unet(batch)
    x = b.conv("latents", 4, widths[0])
    kept, channels, at = [(x, widths[0])], widths[0], side
    for level, width in enumerate(widths):
        last = level == len(widths) - 1
        for _ in range(2):
            x, channels = b.resnet(x, channels, width), width
            x = x if last else b.transformer(x, width, at)
            kept.append((x, width))
        if not last:
            x, at = b.conv(x, width, width, stride=2), at // 2
            kept.append((x, width))
    x = b.resnet(b.transformer(b.resnet(x, channels, channels), channels, at), channels, channels)
    for level, width in reversed(list(enumerate(widths))):
        for _ in range(3):
            other, more = kept.pop()
            x = b.resnet(b.op("Concat", x, other, axis=1), channels + more, width)
            channels = width
            x = x if level == len(widths) - 1 else b.transformer(x, width, at)
        if level:
            x, at = b.doubled(x, width), at * 2
    out = b.conv(b.silu(b.group_norm(x, channels)), channels, 4)
    inputs = {"latents": (batch, 4, side, side), "time": (batch, 320), "context": (batch, 77, b.context)}
    return b.graph(inputs, out)


# -- Whisper ----------------------------------------------------------------------------------------------------
def whisper_decode(layers: int = 2, hidden: int = 1280, heads: int = 20, cached: int = 448, heard: int = 1500) -> Graph:
    """One decode step of distil-large-v3 for one user; keys and values of what was heard are cached too."""
    b, vocabulary = GraphBuilder("whisper_decode"), 51866
    width = hidden // heads
    heard = -(-heard // 32) * 32

    def attended(x: str, i: int, kind: str, past: int) -> str:
        h = _normed(b, x, f"norm_{kind}{i}", hidden)
        columns = 3 * hidden if kind == "self" else hidden
        q = b.op("ttnn.linear", h, *_weights(b, f"q_{kind}{i}", hidden, columns), name=f"q_{kind}{i}")
        if kind == "self":
            q = b.op("ttnn.slice", q, name=f"cut{i}", begins=(0, 0, 0, 0), ends=(1, 1, 1, hidden))
        q = b.op("ttnn.reshape", q, shape=(1, 1, heads, width), name=f"heads_{kind}{i}")
        k, v = (b.input(f"{name}_{kind}{i}", (1, heads, past, width)) for name in "kv")
        a = b.op("ttnn.scaled_dot_product_attention_decode", q, k, v, cur_pos=(past - 1,), name=f"{kind}{i}")
        a = b.op("ttnn.reshape", a, shape=(1, 1, 1, hidden), name=f"joined_{kind}{i}")
        a = b.op("ttnn.linear", a, *_weights(b, f"out_{kind}{i}", hidden, hidden), name=f"out_{kind}{i}")
        return b.op("ttnn.add", x, a, name=f"after_{kind}{i}")

    x = b.input("x", (1, 1, 1, hidden))
    for i in range(layers):
        x = attended(attended(x, i, "self", cached), i, "cross", heard)
        h = _normed(b, x, f"norm{i}", hidden)
        m = b.op("ttnn.linear", h, *_weights(b, f"up{i}", hidden, 4 * hidden), activation="gelu", name=f"up{i}")
        m = b.op("ttnn.linear", m, *_weights(b, f"down{i}", 4 * hidden, hidden), name=f"down{i}")
        x = b.op("ttnn.add", x, m, name=f"fed{i}")
    x = _normed(b, x, "norm", hidden)
    return b.finish(b.op("ttnn.linear", x, b.parameter("head", (hidden, vocabulary)), name="head"))
