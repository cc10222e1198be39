"""Projections into attention heads: merged, split by TTNN's own ops, and the same results."""

from __future__ import annotations

from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from net import Model, Net, f32, ints, run

B, S, D = 2, 6, 32
WIDTH = 128


def heads(net: Net, x: str, count: int, *, bias: bool = False, length: int = S, size: int = D) -> str:
    columns = count * size
    rows = net("MatMul", x, f32(WIDTH, columns, scale=0.1))
    if bias:
        rows = net("Add", rows, f32(columns))
    return net("Transpose", net("Reshape", rows, ints(B, length, count, size)), perm=[0, 2, 1, 3])


def attention(net: Net, q: str, k: str, v: str, *, size: int = D) -> str:
    scores = net("Mul", net("MatMul", q, net("Transpose", k, perm=[0, 1, 3, 2])), np.float32(size**-0.5))
    return net("MatMul", net("Softmax", scores, axis=-1), v)


def repeated(net: Net, x: str, count: int) -> str:
    spread = net("Expand", net("Unsqueeze", x, ints(2)), ints(B, count, 2, S, D))
    return net("Reshape", spread, ints(B, 2 * count, S, D))


def shapes(model: Any, op_name: str) -> list[tuple[int, ...]]:
    found = [op for op in model.graph.ops() if op.op == f"ttnn.{op_name}"]
    return [model.graph.value(v).shape for op in found for v in op.outputs]


@pytest.mark.parametrize("biased", [(), (0, 2), (0, 1, 2)])
def test_a_missing_bias_is_one_of_zeros(biased: tuple[int, ...], witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q, k, v = (heads(net, "x", 4, bias=i in biased) for i in range(3))
    out = attention(net, q, k, v)

    ops, model = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    product = "linear" if biased else "matmul"
    assert ops == {product: 1, "split_query_key_value_and_split_heads": 1, "scaled_dot_product_attention": 1}
    assert any(op.op == "ttnn.zeros" for op in model.graph.ops()) == (biased == (0, 2))


@pytest.mark.parametrize("order", ["qkv", "kqv", "vkq"])
def test_fewer_key_heads_in_any_order(order: str, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    made = {part: heads(net, "x", 4 if part == "q" else 2) for part in order}
    out = attention(net, made["q"], repeated(net, made["k"], 2), repeated(net, made["v"], 2))

    ops, model = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert ops == {"matmul": 1, "split_query_key_value_and_split_heads": 1, "scaled_dot_product_attention": 1}
    made_heads = shapes(model, "split_query_key_value_and_split_heads")
    assert made_heads == [(B, 4, S, D), (B, 2, S, D), (B, 2, S, D)]


def test_queries_of_another_activation(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q = heads(net, "x", 4)
    k, v = (heads(net, "context", 4, length=9) for _ in range(2))
    out = attention(net, q, k, v)

    ops, model = run(net, {"x": (B, S, WIDTH), "context": (B, 9, WIDTH)}, out, witness, make_model)

    assert ops == {"matmul": 3, "reshape": 3, "nlp_create_qkv_heads": 3, "scaled_dot_product_attention": 1}
    assert shapes(model, "nlp_create_qkv_heads") == [(B, 4, S, D), (B, 4, 9, D), (B, 4, 9, D)]


def test_products_that_differ_stay_apart(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q, k = heads(net, "x", 4), heads(net, "x", 4)
    rows = net("Relu", net("MatMul", "x", f32(WIDTH, 4 * D, scale=0.1)))
    v = net("Transpose", net("Reshape", rows, ints(B, S, 4, D)), perm=[0, 2, 1, 3])
    out = attention(net, q, k, v)

    ops, _ = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert (ops["matmul"], ops["nlp_create_qkv_heads"]) == (3, 3)


def test_keys_that_stay_transposed(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q, v = heads(net, "x", 4), heads(net, "x", 4)
    spread = net("Reshape", net("MatMul", "x", f32(WIDTH, 4 * D, scale=0.1)), ints(B, S, 4, D))
    k = net("Transpose", spread, perm=[0, 2, 3, 1])
    out = net("MatMul", net("Relu", net("MatMul", q, k)), v)

    ops, _ = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert (ops["split_query_key_value_and_split_heads"], ops["permute"]) == (1, 1)
    assert "reshape" not in ops


def test_transposed_keys_alone(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    spread = net("Reshape", net("MatMul", "x", f32(WIDTH, 4 * D, scale=0.1)), ints(B, S, 4, D))
    out = net("Relu", net("Transpose", spread, perm=[0, 2, 3, 1]))

    ops, model = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert ops == {"matmul": 1, "permute": 1, "reshape": 1, "relu": 1}
    assert shapes(model, "permute") == [(B, 4 * D, S)]  # so that the reshape is a view


def test_fused_projection_cut_by_slices(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    fused = net("MatMul", "x", f32(WIDTH, 8 * D, scale=0.1))
    bounds = (0, 4 * D, 6 * D, 8 * D)
    parts = [net("Slice", fused, ints(a), ints(b), ints(2)) for a, b in pairwise(bounds)]
    counts = (4, 2, 2)
    turned = [
        net("Transpose", net("Reshape", part, ints(B, S, n, D)), perm=[0, 2, 1, 3])
        for part, n in zip(parts, counts, strict=True)
    ]
    out = attention(net, turned[0], repeated(net, turned[1], 2), repeated(net, turned[2], 2))

    ops, _ = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert ops == {"matmul": 1, "split_query_key_value_and_split_heads": 1, "scaled_dot_product_attention": 1}


def test_sequences_of_one_row(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q, k, v = (heads(net, "x", 4, length=1) for _ in range(3))
    out = net("Add", net("Add", q, k), v)

    ops, _ = run(net, {"x": (B, 1, WIDTH)}, out, witness, make_model)

    assert ops == {"matmul": 1, "split_query_key_value_and_split_heads": 1, "add": 2}


def test_heads_that_are_not_whole_tiles_stay_as_they_are(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    out = net("Relu", heads(net, "x", 4, size=16))

    ops, _ = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert ops == {"matmul": 1, "reshape": 1, "permute": 1, "relu": 1}


@pytest.mark.parametrize("size", [16, 40])
def test_narrow_heads_are_widened_in_the_weights(size: int, witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q, k, v = (heads(net, "x", 4, bias=True, size=size) for _ in range(3))
    mixed = attention(net, q, k, v, size=size)
    rows = net("Reshape", net("Transpose", mixed, perm=[0, 2, 1, 3]), ints(B, S, 4 * size))
    out = net("Relu", net("Add", net("MatMul", rows, f32(4 * size, 64, scale=0.1)), f32(64)))

    ops, model = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert ops == {
        "linear": 2,
        "split_query_key_value_and_split_heads": 1,
        "scaled_dot_product_attention": 1,
        "concatenate_heads": 1,
    }
    assert model.report.fused["pad-heads"] == 4
    assert shapes(model, "scaled_dot_product_attention") == [(B, 4, S, -(-size // 32) * 32)]


def test_heads_joined_by_other_rows_keep_their_cut(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    q, k, v = (heads(net, "x", 4, size=16) for _ in range(3))
    out = net("Reshape", net("Transpose", attention(net, q, k, v, size=16), perm=[0, 2, 1, 3]), ints(B, S, 64))

    ops, _ = run(net, {"x": (B, S, WIDTH)}, out, witness, make_model)

    assert (ops["slice"], ops["permute"], ops["reshape"]) == (1, 1, 1)
    assert (ops["matmul"], ops["split_query_key_value_and_split_heads"]) == (1, 1)


def test_attention_after_a_convolution_stays_on_flat_rows(witness: ModuleType, make_model: Model) -> None:
    net = Net()
    patches = net("Conv", "x", f32(64, 3, 4, 4, scale=0.1), strides=[4, 4])
    tokens = net("Transpose", net("Reshape", patches, ints(0, 64, -1)), perm=[0, 2, 1])
    normal = net("LayerNormalization", tokens, f32(64), f32(64))
    parts = [net("MatMul", normal, f32(64, 64, scale=0.1)) for _ in range(3)]
    q, k, v = (net("Transpose", net("Reshape", p, ints(1, 9, 2, 32)), perm=[0, 2, 1, 3]) for p in parts)
    joined = net("Reshape", net("Transpose", attention(net, q, k, v), perm=[0, 2, 1, 3]), ints(1, 9, 64))
    out = net("Add", tokens, net("Add", net("MatMul", joined, f32(64, 64, scale=0.1)), f32(64)))

    ops, model = run(net, {"x": (1, 3, 12, 12)}, out, witness, make_model)

    assert (ops["nlp_create_qkv_heads"], ops["nlp_concat_heads"]) == (1, 1)
    assert ops["reshape"] == 2  # of the image, and to the result's own shape
    assert shapes(model, "nlp_concat_heads") == [(1, 1, 9, 64)]
