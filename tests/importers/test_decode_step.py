"""One token through an attention block with a key/value cache, as exporters write it."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import onnx
from onnx import helper
from op_case import build

HEADS, PAIRS, SIZE, PAST, WIDTH = 4, 2, 64, 95, 128
"""Query heads, key/value heads, elements of a head, cached tokens, elements of a token."""


def _rotated(name: str) -> list[onnx.NodeProto]:
    """x*cos + rotate_half(x)*sin"""
    return [
        helper.make_node("Slice", [name, "zero", "half", "last"], [f"{name}_low"]),
        helper.make_node("Slice", [name, "half", "whole", "last"], [f"{name}_high"]),
        helper.make_node("Neg", [f"{name}_high"], [f"{name}_neg"]),
        helper.make_node("Concat", [f"{name}_neg", f"{name}_low"], [f"{name}_turned"], axis=-1),
        helper.make_node("Mul", [name, "cos"], [f"{name}_cos"]),
        helper.make_node("Mul", [f"{name}_turned", "sin"], [f"{name}_sin"]),
        helper.make_node("Add", [f"{name}_cos", f"{name}_sin"], [f"{name}_rotated"]),
    ]


def _projected(name: str) -> list[onnx.NodeProto]:
    """[1, 1, WIDTH] to [1, heads, 1, SIZE]"""
    return [
        helper.make_node("MatMul", ["x", f"w_{name}"], [f"{name}_flat"]),
        helper.make_node("Reshape", [f"{name}_flat", f"heads_{name}"], [f"{name}_split"]),
        helper.make_node("Transpose", [f"{name}_split"], [name], perm=[0, 2, 1, 3]),
    ]


def _repeated(name: str) -> list[onnx.NodeProto]:
    """Each key/value head for all query heads that share it."""
    return [
        helper.make_node("Unsqueeze", [name, "two"], [f"{name}_one"]),
        helper.make_node("Expand", [f"{name}_one", "shared"], [f"{name}_shared"]),
        helper.make_node("Reshape", [f"{name}_shared", "joined"], [f"{name}_all"]),
    ]


def decode_step() -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    nodes = [
        *(node for name in "qkv" for node in _projected(name)),
        *_rotated("q"),
        *_rotated("k"),
        helper.make_node("Concat", ["past_k", "k_rotated"], ["present_k"], axis=2),
        helper.make_node("Concat", ["past_v", "v"], ["present_v"], axis=2),
        *_repeated("present_k"),
        *_repeated("present_v"),
        helper.make_node("Transpose", ["present_k_all"], ["keys"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q_rotated", "keys"], ["raw"]),
        helper.make_node("Mul", ["raw", "scale"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "present_v_all"], ["y"]),
    ]
    counts = {"q": HEADS, "k": PAIRS, "v": PAIRS}
    weights = {f"w_{n}": np.float32(rng.standard_normal((WIDTH, h * SIZE)) / 8) for n, h in counts.items()}
    weights |= {f"heads_{n}": np.asarray([1, 1, h, SIZE]) for n, h in counts.items()}
    weights |= {
        "zero": np.asarray([0]),
        "half": np.asarray([SIZE // 2]),
        "whole": np.asarray([SIZE]),
        "last": np.asarray([3]),
        "two": np.asarray([2]),
        "shared": np.asarray([1, PAIRS, HEADS // PAIRS, PAST + 1, SIZE]),
        "joined": np.asarray([1, HEADS, PAST + 1, SIZE]),
        "scale": np.float32(SIZE**-0.5),
    }
    cache = (1, PAIRS, PAST, SIZE)
    row = (1, 1, 1, SIZE)
    inputs = {"x": (1, 1, WIDTH), "past_k": cache, "past_v": cache, "cos": row, "sin": row, "mask": (1, 1, 1, PAST + 1)}
    return build(nodes, inputs, ["y", "present_k", "present_v"], weights, opset=18)


def test_a_decode_step_grows_its_cache(witness: ModuleType) -> None:
    result = witness.compare(decode_step())

    ops = [op.op.removeprefix("ttnn.") for op in result.model.graph.run_ops()]
    assert result.error <= 2e-5
    assert ops.count("scaled_dot_product_attention") == 1
    assert "repeat" not in ops  # shared heads are TTNN's own business
    assert "softmax" not in ops
    grown = [result.model.graph.producer(v) for v in ("present_k", "present_v")]
    assert [op.op for op in grown if op is not None] == ["ttnn.concat", "ttnn.concat"]
