"""Results in block floats: where they are, and where bf16 stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer import Options, optimize
from optimizer.answers.model_comparison import model_errors
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.activation_dtypes import with_block_activations
from optimizer.layouts.page_layouts import AssignPageLayouts
from optimizer.pipeline import optimize_file
from optimizer.result import Role

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "onnx"
BF16, BFP8_B = DType.BF16, DType.BFP8_B


def typed(graph: Graph, refuses: tuple[str, ...] = ()) -> dict[str, DType]:
    """Element types of all results, with ops of these names refusing blocks."""

    def runs(of: Graph, op: Op) -> bool:
        return op.name not in refuses or not any(of.value(v).dtype.is_block_float for v in op.inputs)

    pages = AssignPageLayouts().apply(graph)
    found = with_block_activations(graph, pages, BFP8_B, runs)
    return {op.name: found.value(op.outputs[0]).dtype for op in found.ops()}


def chain() -> Graph:
    """A product, rows moved, another product, and a sum with the first."""
    b = GraphBuilder("chain")
    first = b.op("ttnn.linear", b.input("x", (1, 1, 64, 64)), b.parameter("w", (64, 64)), name="first")
    moved = b.op("ttnn.permute", first, dims=(0, 1, 3, 2), name="moved")
    second = b.op("ttnn.linear", moved, b.parameter("v", (64, 64)), name="second")
    return b.finish(b.op("ttnn.add", first, second, name="last"))


def test_all_but_outputs_are_blocks() -> None:
    assert typed(chain()) == {"first": BFP8_B, "moved": BFP8_B, "second": BFP8_B, "last": BF16}


def test_weights_and_inputs_keep_their_type() -> None:
    graph = chain()
    found = with_block_activations(graph, AssignPageLayouts().apply(graph), BFP8_B, lambda *_: True)
    assert {found.value(v).dtype for v in ("x", "w", "v")} == {BF16}


def test_what_refuses_blocks_is_given_none() -> None:
    """What `moved` passes on is made by `first`, so that stays in bf16 too."""
    assert typed(chain(), ("second",)) == {"first": BF16, "moved": BF16, "second": BFP8_B, "last": BF16}
    assert typed(chain(), ("last",)) == {"first": BF16, "moved": BF16, "second": BF16, "last": BF16}


@pytest.mark.parametrize(("width", "dtype"), [(40, BF16), (48, BFP8_B)])
def test_blocks_share_no_exponent_with_infinities(width: int, dtype: DType) -> None:
    """A logarithm gives infinities in the padding, which a product passes on."""
    b = GraphBuilder("logarithm")
    first = b.op("ttnn.log", b.input("x", (1, 1, 64, width)), name="first")
    second = b.op("ttnn.multiply", first, b.input("y", (1, 1, 64, width)), name="second")
    graph = b.finish(b.op("ttnn.linear", second, b.parameter("w", (width, 64)), name="last"))

    assert typed(graph)["second"] is dtype


def test_rows_hold_no_blocks() -> None:
    b = GraphBuilder("rows")
    y = b.op("ttnn.linear", b.input("x", (1, 1, 64, 64)), b.parameter("w", (64, 64)), name="y")
    rows = b.op("ttnn.to_layout", y, layout="row_major", name="rows")
    tiles = b.op("ttnn.to_layout", rows, layout="tile", name="tiles")
    z = b.op("ttnn.linear", tiles, b.parameter("v", (64, 64)), name="z")
    last = b.op("ttnn.linear", z, b.parameter("u", (64, 64)), name="last")
    assert typed(b.finish(last)) == {"y": BF16, "rows": BF16, "tiles": BF16, "z": BFP8_B, "last": BF16}


def test_what_an_output_passes_on_is_given_none() -> None:
    """`relu` has no element type to state, and its result is returned."""
    b = GraphBuilder("returned")
    z = b.op("ttnn.linear", b.input("x", (1, 1, 64, 64)), b.parameter("w", (64, 64)), name="z")
    assert typed(b.finish(b.op("ttnn.relu", z, name="last"))) == {"z": BF16, "last": BF16}


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "global"])
def test_every_policy_plans_with_them(policy: str) -> None:
    result = optimize(chain(), "n150", Options(policy=policy, activations_dtype="bfp8_b"))
    found = {op.name: result.graph.value(op.outputs[0]).dtype for op in result.graph.ops()}
    assert {name: found[name] for name in ("first", "second", "last")} == {
        "first": BFP8_B, "second": BFP8_B, "last": BF16,
    }  # fmt: skip
    assert found["first"] is BFP8_B


def test_a_convolutional_model_in_blocks_still_computes_its_model() -> None:
    path = FIXTURES / "mobilenetv2_legacy17.onnx"
    result = optimize_file(path, Options(activations_dtype="bfp8_b", policy="dram"))
    types = {result.graph.value(op.outputs[0]).dtype for op in result.graph.run_ops() if op.op == "ttnn.conv2d"}
    assert types == {BFP8_B}
    assert model_errors(result, path) == []


@pytest.mark.parametrize("policy", ["dram", "dfsharding", "global"])
@pytest.mark.parametrize("head", [8, 15, 40, 64])
def test_heads_of_part_tiles_are_padded_in_a_tensor_of_their_own(head: int, policy: str) -> None:
    """Padding inside the tiles of bf16 is a view; block floats are made bf16 for it, and blocks again."""
    b = GraphBuilder("heads")
    parts = []
    for name in "qkv":
        x = b.op("ttnn.multiply", b.input(name, (1, 4, 64, head)), scalar=0.5)
        if head % 32:
            x = b.op("ttnn.pad", x, padding=((0, 0), (0, 0), (0, 0), (0, -head % 32)), name=f"pad_{name}")
        parts.append(x)
    y = b.op("ttnn.scaled_dot_product_attention", *parts, scale=0.2, is_causal=False, name="attention")
    result = optimize(
        b.finish(b.op("ttnn.add", y, y, name="last")), "n150", Options(policy=policy, activations_dtype="bfp8_b")
    )

    roles = {result.records[op.id].role for op in result.graph.ops() if op.op == "ttnn.pad"}
    assert result.graph.value(result.graph.inputs[0]).dtype is BF16
    assert roles == ({Role.COMPUTE} if head % 32 else set())
