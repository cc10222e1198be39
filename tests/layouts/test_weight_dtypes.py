"""Block-float weights end up where they pay, and nowhere else."""

from __future__ import annotations

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import InfeasibleError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.ir.opdef import ON_HOST
from optimizer.layouts.legal_op_configs import may_free_operand
from optimizer.layouts.weight_dtypes import apply_block_weights
from optimizer.options import Options
from optimizer.pipeline import optimize


def embedding_and_conv() -> Graph:
    b = GraphBuilder("g")
    ids = b.input("ids", (1, 64), DType.U32)
    rows = b.op("ttnn.embedding", ids, b.parameter("table", (1000, 128)), name="embed")
    y = b.op("ttnn.linear", rows, b.parameter("w", (128, 128)), b.parameter("bias", (1, 128)), name="fc")
    image = b.op("ttnn.reshape", y, name="image", shape=(1, 1, 64, 128))
    c = b.op(
        "ttnn.conv2d", image, b.parameter("k", (64, 128, 3, 3)), name="conv", batch_size=1, input_height=8,
        input_width=8, in_channels=128, out_channels=64, kernel_size=(3, 3), padding=(1, 1, 1, 1),
    )  # fmt: skip
    return b.finish(c)


def test_matmul_weights_become_blocks_and_conv_weights_are_prepared_into_them() -> None:
    graph = embedding_and_conv()
    prepared = apply_block_weights(graph, DType.BFP8_B)
    types = {v: graph.value(v).dtype.value for v in ("table", "w", "bias", "k")}
    assert types == {"table": "bf16", "w": "bfp8_b", "bias": "bf16", "k": "bf16"}
    assert dict(prepared) == {"conv": "bfp8_b"}


def test_a_matrix_that_others_read_too_is_cast() -> None:
    b = GraphBuilder("g")
    x, w = b.input("x", (1, 1, 32, 128)), b.parameter("w", (128, 128))
    graph = b.finish(b.op("ttnn.add", b.op("ttnn.matmul", x, w, name="mm"), b.op("ttnn.mean", w, dim=0, name="mean")))
    apply_block_weights(graph, DType.BFP8_B)
    cast = graph.producer(graph.op("mm").inputs[1])
    assert cast is not None
    assert (cast.op, graph.value("w").dtype, graph.value(cast.outputs[0]).dtype) == (
        "ttnn.typecast",
        DType.BF16,
        DType.BFP8_B,
    )
    assert graph.is_const_eval(cast)
    assert cast.attrs[ON_HOST]


def test_the_host_converts_nothing_of_a_run() -> None:
    b = GraphBuilder("g")
    cast = b.op("ttnn.typecast", b.input("x", (1, 1, 64, 64)), name="cast", dtype="bfp8_b", on_host=True)
    with pytest.raises(InfeasibleError, match=r"^cast: .*the host converts weights only"):
        optimize(b.finish(b.op("ttnn.relu", cast)), "n150")


def test_stated_block_weights_of_a_conv_lie_on_the_host_in_a_plain_type() -> None:
    b = GraphBuilder("g")
    x, k = b.input("x", (1, 1, 64, 32)), b.parameter("k", (32, 32, 1, 1), DType.BFP8_B)
    graph = b.finish(
        b.op(
            "ttnn.conv2d",
            x,
            k,
            name="conv",
            batch_size=1,
            input_height=8,
            input_width=8,
            in_channels=32,
            out_channels=32,
            kernel_size=(1, 1),
        )
    )
    assert dict(apply_block_weights(graph, None)) == {"conv": "bfp8_b"}
    assert graph.value("k").dtype is DType.BF16


@pytest.mark.parametrize("weights", ["bfp8_b", "bfp4_b"])
def test_a_model_with_block_weights_is_faster(weights: str) -> None:
    plain, blocks = (
        optimize(embedding_and_conv(), DeviceSpec.preset("n150"), Options.from_mapping(options))
        for options in ({}, {"weights_dtype": weights})
    )
    assert blocks.summary.predicted_time_ns < plain.summary.predicted_time_ns
    assert blocks.records["conv"].config.weights_dtype == weights


def test_a_conv_does_not_free_what_a_view_of_it_still_shows() -> None:
    b = GraphBuilder("g")
    y = b.op("ttnn.relu", b.input("x", (1, 64, 1, 32)), name="relu")
    flat = b.op("ttnn.reshape", y, name="flat", shape=(1, 1, 64, 32))
    c = b.op(
        "ttnn.conv2d", flat, b.parameter("k", (32, 32, 1, 1)), name="conv", batch_size=1, input_height=8, input_width=8,
        in_channels=32, out_channels=32, kernel_size=(1, 1),
    )  # fmt: skip
    last = b.op("ttnn.add", b.op("ttnn.reshape", c, name="back", shape=(1, 64, 1, 32)), y, name="add")
    graph = b.finish(last)
    assert not may_free_operand(graph, graph.op("conv"))
    graph.outputs = list(graph.op("back").outputs)
    graph.prune()
    assert may_free_operand(graph, graph.op("conv"))
