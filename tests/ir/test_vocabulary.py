"""Shape rules and rows of the vocabulary."""

from __future__ import annotations

from math import prod

import pytest

from optimizer.errors import GraphError, ShapeError, UnknownNameError
from optimizer.ir.graph import Attr, Op
from optimizer.ir.opdef import CostClass, Elements, OpDef, Page
from optimizer.ir.vocabulary import CAST, CONVERT, COPY, FETCH, FILL, SEND, op_names, opdef

CONV = {
    "batch_size": 2, "input_height": 8, "input_width": 8, "in_channels": 16, "out_channels": 32,
    "kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1, 1, 1),
}  # fmt: skip
POOL = {
    "batch_size": 1, "input_height": 7, "input_width": 7, "channels": 4, "kernel_size": (2, 2), "stride": (2, 2),
}  # fmt: skip

CASES: list[tuple[str, dict[str, Attr], list[tuple[int, ...]], list[tuple[int, ...]]]] = [
    ("relu", {}, [(2, 3)], [(2, 3)]),
    ("add", {}, [(2, 1, 3), (4, 1)], [(2, 4, 3)]),
    ("where", {}, [(4, 1), (1, 3), (1, 1)], [(4, 3)]),
    ("matmul", {}, [(2, 4, 8), (8, 5)], [(2, 4, 5)]),
    ("matmul", {"transpose_b": True}, [(4, 8), (5, 8)], [(4, 5)]),
    ("linear", {}, [(1, 4, 8), (8, 5), (5,)], [(1, 4, 5)]),
    ("conv2d", CONV, [(1, 1, 128, 16), (32, 16, 3, 3)], [(1, 1, 32, 32)]),
    ("max_pool2d", {**POOL}, [(1, 1, 49, 4)], [(1, 1, 9, 4)]),
    ("max_pool2d", {**POOL, "ceil_mode": True}, [(1, 1, 49, 4)], [(1, 1, 16, 4)]),
    ("mean", {"dim": (1, 2), "keepdim": False}, [(2, 3, 4, 5)], [(2, 5)]),
    ("sum", {"dim": None}, [(2, 3)], [(1, 1)]),
    ("permute", {"dims": (0, 2, 1)}, [(2, 3, 4)], [(2, 4, 3)]),
    ("concat", {"dim": -1}, [(2, 3), (2, 5)], [(2, 8)]),
    ("slice", {"begins": (0, 1), "ends": (2, 6), "steps": (1, 2)}, [(2, 6)], [(2, 3)]),
    ("split", {"sizes": (1, 3), "dim": 1}, [(2, 4)], [(2, 1), (2, 3)]),
    ("pad", {"padding": ((0, 0), (1, 2))}, [(2, 3)], [(2, 6)]),
    ("embedding", {}, [(2, 7), (100, 64)], [(2, 7, 64)]),
    ("topk", {"k": 3}, [(2, 8)], [(2, 3), (2, 3)]),
    ("upsample", {"scale_factor": (2, 3)}, [(1, 4, 4, 8)], [(1, 8, 12, 8)]),
    ("grid_sample", {}, [(2, 4, 6, 32), (2, 5, 7, 2)], [(2, 5, 7, 32)]),
    ("scaled_dot_product_attention", {}, [(1, 8, 16, 64), (1, 2, 32, 64), (1, 2, 32, 64)], [(1, 8, 16, 64)]),
    (
        "split_query_key_value_and_split_heads", {"num_heads": 4, "num_kv_heads": 2},
        [(1, 16, 256)], [(1, 4, 16, 32), (1, 2, 16, 32), (1, 2, 16, 32)],
    ),
    ("concatenate_heads", {}, [(1, 4, 16, 32)], [(1, 16, 128)]),
    ("arange", {"end": 7, "step": 2}, [], [(4,)]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attrs", "inputs", "outputs"), CASES)
def test_shape_rule(
    name: str, attrs: dict[str, Attr], inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]]
) -> None:
    op = Op("op", f"ttnn.{name}", (), (), attrs)
    assert list(opdef(op.op).infer_shapes(op, tuple(inputs))) == outputs


BAD: list[tuple[str, dict[str, Attr], list[tuple[int, ...]], str]] = [
    ("add", {}, [(2, 3), (4, 3)], "do not broadcast"),
    ("matmul", {}, [(4, 8), (7, 5)], "inner dims differ: 8 and 7"),
    ("conv2d", CONV, [(2, 8, 8, 16), (32, 16, 3, 3)], "N\\*H\\*W"),
    ("conv2d", {**CONV, "kernel_size": (11, 11)}, [(1, 1, 128, 16), (32, 16, 11, 11)], "larger than the padded"),
    ("reshape", {"shape": (5,)}, [(2, 3)], "cannot reshape 6"),
    ("permute", {"dims": (0, 0)}, [(2, 3)], "no permutation"),
    ("concat", {"dim": 0}, [(2, 3), (2, 4)], "differ outside dim 0"),
    ("concat", {"dim": 4}, [(2, 3), (2, 4)], "outside rank 2"),
    ("split", {"sizes": (1, 1), "dim": 1}, [(2, 4)], "do not add up to 4"),
    ("grid_sample", {}, [(2, 4, 6, 32), (1, 5, 7, 2)], "2 images, 1 grids"),
    ("grid_sample", {}, [(2, 4, 6, 32), (2, 5, 7, 3)], "3 numbers per point"),
    ("topk", {"k": 9}, [(2, 8)], "exceeds 8"),
    ("slice", {"begins": (0,), "ends": (9,)}, [(4,)], "outside size 4"),
]


@pytest.mark.parametrize(("name", "attrs", "inputs", "message"), BAD)
def test_shape_rule_refuses(name: str, attrs: dict[str, Attr], inputs: list[tuple[int, ...]], message: str) -> None:
    op = Op("here", f"ttnn.{name}", (), (), attrs)
    with pytest.raises(ShapeError, match=message) as caught:
        opdef(op.op).infer_shapes(op, tuple(inputs))
    assert caught.value.node == "here"


def test_unknown_ops_are_opaque() -> None:
    row = opdef("onnx.NonZero")
    assert row.opaque
    assert not row.shardable
    with pytest.raises(GraphError, match="outputs must state their shapes"):
        row.infer_shapes(Op("op", "onnx.NonZero", (), ()), ((1,),))


def test_attributes_are_checked() -> None:
    row = opdef("ttnn.concat")
    with pytest.raises(GraphError, match="needs attribute 'dim'"):
        row.check_attrs(Op("op", "ttnn.concat", (), ()))
    with pytest.raises(
        UnknownNameError, match=r"unknown attribute of ttnn\.concat 'dime', did you mean 'dim'\? \(one of: dim\)"
    ):
        row.check_attrs(Op("op", "ttnn.concat", (), (), {"dim": 0, "dime": 1}))


def test_rows_are_consistent() -> None:
    for name in op_names():
        row = opdef(name)
        assert row.min_inputs <= row.max_inputs
        assert row.name == name
        assert row.output_page is not Page.HOST


def traits(name: str) -> OpDef:
    return opdef(f"ttnn.{name}")


def test_only_ops_whose_results_may_be_sharded_follow_the_sharding_of_an_operand() -> None:
    for name in op_names():
        row = opdef(name)
        assert row.shardable or not (row.sharding_follows_operand or row.operands_sharded_alike), name
    assert traits("matmul").sharding_follows_operand
    assert not traits("softmax").sharding_follows_operand
    assert traits("concat").operands_sharded_alike


def test_what_keeps_the_elements_of_its_operand_has_as_many() -> None:
    for name, attrs, inputs, outputs in CASES:
        if traits(name).elements is Elements.KEPT:
            assert prod(outputs[0]) == prod(inputs[0]), (attrs, inputs)
    kept = {name for name in op_names() if opdef(name).elements is Elements.KEPT}
    assert {COPY, CONVERT, CAST, FILL, FETCH, SEND} <= kept


def test_what_padding_becomes_is_stated_by_every_element_wise_row() -> None:
    for name in op_names():
        row = opdef(name)
        assert row.padding_follows or row.cost_class is not CostClass.ELTWISE, name
    assert traits("divide").unbounded
    assert not traits("add").unbounded


@pytest.mark.parametrize(
    ("name", "attrs", "shape", "tiled", "returned"),
    [
        ("slice", {}, (2, 64), True, True),
        ("permute", {"dims": (1, 0, 2, 3)}, (1, 1, 32, 32), True, True),
        ("permute", {"dims": (0, 1, 3, 2)}, (1, 1, 1, 1), True, False),
        ("permute", {"dims": (0, 1, 3, 2)}, (1, 1, 1, 1), False, True),
        ("permute", {"dims": (1, 0, 2)}, (2, 2, 32), False, False),
        ("transpose", {"dim0": 0, "dim1": 1}, (1, 4, 32), False, True),
        ("transpose", {"dim0": 0, "dim1": 1}, (4, 4, 32), False, False),
    ],
)
def test_when_an_op_returns_its_operand(
    name: str, attrs: dict[str, Attr], shape: tuple[int, ...], tiled: bool, returned: bool
) -> None:
    rule = traits(name).returns_operand
    assert rule is not None
    assert rule(attrs, shape, tiled) is returned


@pytest.mark.parametrize(
    ("name", "attrs", "from_tiles", "gives_tiles"),
    [
        ("relu", {}, False, True),
        ("max_pool2d", {}, True, False),
        ("pad", {}, True, True),
        ("pad", {}, False, False),
        ("to_layout", {"layout": "tile"}, False, True),
        ("to_layout", {"layout": "row_major"}, True, False),
    ],
)
def test_pages_of_a_result(name: str, attrs: dict[str, Attr], from_tiles: bool, gives_tiles: bool) -> None:
    op = Op("op", f"ttnn.{name}", ("x",), ("y",), attrs)
    assert opdef(op.op).gives_tiles(op, from_tiles) is gives_tiles
