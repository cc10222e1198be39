"""Patterns that bf16 cannot carry are named; what looks alike and is none is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.ir.numeric_risk import numeric_risks

Make = Callable[[GraphBuilder, str], str]
SHAPE = (1, 1, 64, 128)


def graph_of(make: Make, dtype: DType = DType.BF16, shape: tuple[int, ...] = SHAPE) -> Graph:
    b = GraphBuilder("risk")
    return b.finish(make(b, b.input("x", shape, dtype)))


def variance(b: GraphBuilder, x: str) -> str:
    squares = b.op("ttnn.mean", b.op("ttnn.square", x), dim=(-1,), keepdim=True)
    return b.op(
        "ttnn.subtract", squares, b.op("ttnn.square", b.op("ttnn.mean", x, dim=(-1,), keepdim=True)), name="var"
    )


def variance_by_products(b: GraphBuilder, x: str) -> str:
    mean = b.op("ttnn.mean", x, dim=(-1,), keepdim=True)
    squares = b.op("ttnn.mean", b.op("ttnn.multiply", x, x), dim=(-1,), keepdim=True)
    moved = b.op("ttnn.reshape", b.op("ttnn.multiply", mean, mean), shape=(1, 1, 64, 1))
    return b.op("ttnn.subtract", squares, moved, name="var")


def centred(b: GraphBuilder, x: str) -> str:
    centre = b.op("ttnn.subtract", x, b.op("ttnn.mean", x, dim=(-1,), keepdim=True))
    return b.op("ttnn.mean", b.op("ttnn.square", centre), dim=(-1,), keepdim=True)


def columns(count: int) -> Make:
    return lambda b, x: b.op("ttnn.add", x, b.constant("grid", (1, 1, 1, 128), [float(count + k) for k in range(128)]))


def total(dims: tuple[int, ...]) -> Make:
    return lambda b, x: b.op("ttnn.sum", x, dim=dims, keepdim=True, name="total")


def product(b: GraphBuilder, x: str) -> str:
    return b.op("ttnn.prod", x, dim=-1, keepdim=True, name="product")


def softmax(shifted: bool, inverse: bool = False) -> Make:
    def make(b: GraphBuilder, x: str) -> str:
        if shifted:
            x = b.op("ttnn.subtract", x, b.op("ttnn.max", x, dim=(-1,), keepdim=True))
        grown = b.op("ttnn.exp", x)
        summed = b.op("ttnn.sum", grown, dim=(-1,), keepdim=True)
        if inverse:
            return b.op("ttnn.multiply", grown, b.op("ttnn.reciprocal", summed), name="by_hand")
        return b.op("ttnn.divide", grown, summed, name="by_hand")

    return make


def log_sum(b: GraphBuilder, x: str) -> str:
    return b.op("ttnn.log", b.op("ttnn.sum", b.op("ttnn.exp", x), dim=(-1,), keepdim=True), name="log_sum")


def best(b: GraphBuilder, x: str) -> str:
    return b.op("ttnn.argmax", x, dim=-1, name="best")


def wave(b: GraphBuilder, x: str) -> str:
    return b.op("ttnn.sin", x, name="wave")


def contraction(b: GraphBuilder, x: str) -> str:
    wide = b.op("ttnn.concat", *[x] * 128, dim=-1)
    return b.op("ttnn.matmul", wide, b.parameter("w", (128 * SHAPE[-1], 32)), name="deep")


def shown(b: GraphBuilder, x: str) -> str:
    scores = b.op("ttnn.matmul", x, b.parameter("w", (SHAPE[-1], 32)))
    return b.op("ttnn.gt", scores, scalar=0.5, name="shown")


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (variance, "variance-as-difference", "var: the variance is the difference of two means"),
        (variance_by_products, "variance-as-difference", "var: "),
        (columns(200), "whole-numbers-above-256", "'grid' holds whole numbers up to 327; above 256"),
        (total((-1, -2)), "long-sum", "total: a sum of 8192 elements"),
        (product, "long-product", "product: a product of 128 elements"),
        (softmax(shifted=False), "softmax-without-maximum", "by_hand: exponentials"),
        (softmax(shifted=False, inverse=True), "softmax-without-maximum", "by_hand: exponentials"),
        (log_sum, "softmax-without-maximum", "log_sum: exponentials"),
        (best, "selection-of-rounded-scores", "best: what is selected are scores in bf16"),
        (contraction, "long-contraction", f"deep: a sum of {128 * SHAPE[-1]} products"),
        (shown, "comparison-of-rounded-numbers", "shown: a gt of what layers computed in bf16"),
        (wave, "angle-in-bf16", "wave: the angle is in bf16"),
    ],
)
def test_a_pattern_is_named_with_its_node_and_why(make: Make, kind: str, said: str) -> None:
    (risk,) = numeric_risks(graph_of(make))

    assert (risk.kind, said in risk.because) == (kind, True)


@pytest.mark.parametrize("make", [centred, columns(100), total((-1,)), softmax(shifted=True)])
def test_what_bf16_can_carry_is_not_named(make: Make) -> None:
    assert numeric_risks(graph_of(make)) == ()


@pytest.mark.parametrize("make", [variance, total((-1, -2)), softmax(shifted=False), log_sum, best, wave])
def test_wide_floats_are_no_risk(make: Make) -> None:
    assert numeric_risks(graph_of(make, DType.F32)) == ()


def test_counts_that_grow_beyond_256_are_named() -> None:
    (risk,) = numeric_risks(graph_of(lambda b, x: b.op("ttnn.cumsum", x, dim=-1), shape=(1, 1, 32, 512)))

    assert risk.kind == "whole-numbers-above-256"
