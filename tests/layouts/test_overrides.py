"""Override strings in tt-mlir's spelling."""

from __future__ import annotations

import pytest

from optimizer.errors import OptionError, TtoptError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorMemoryLayout
from optimizer.layouts.overrides import LayoutOverride, parse_overrides


def graph() -> Graph:
    g = Graph("g", ["x"], ["b"])
    for name in ("x", "a", "b"):
        kind = ValueKind.INPUT if name == "x" else ValueKind.ACTIVATION
        g.add_value(Value(name, (64, 64), DType.BF16, kind))
    g.add_op(Op("op_a", "ttnn.conv2d", ("x",), ("a",), name="layer/conv"))
    g.add_op(Op("op_b", "ttnn.add", ("a", "x"), ("b",), name="layer/add"))
    return g


def test_parts_come_in_any_order_and_subset() -> None:
    parsed = parse_overrides(graph(), "op_a=bf16:tile:block_sharded:l1:2x4,layer/add=dram", "", "")
    assert parsed.output_layouts == {
        "op_a": LayoutOverride((2, 4), BufferType.L1, TensorMemoryLayout.BLOCK_SHARDED, PageLayout.TILE, DType.BF16),
        "op_b": LayoutOverride(buffer_type=BufferType.DRAM),
    }


def test_conv2d_fields_are_typed() -> None:
    text = "layer/conv=weights_dtype#bfp_bf8:act_block_h_override#64:deallocate_activation#true"
    parsed = parse_overrides(graph(), "", text, "")
    assert parsed.conv2d_configs == {
        "op_a": {"weights_dtype": "bfp8_b", "act_block_h_override": 64, "deallocate_activation": True}
    }


def test_memreconfig_lists_operands() -> None:
    assert parse_overrides(graph(), "", "", "op_b=1:0").memreconfigs == {"op_b": (0, 1)}


@pytest.mark.parametrize(
    ("layout", "conv", "memreconfig", "error", "message"),
    [
        ("layer/cnv=dram", "", "", UnknownNameError, "unknown op in override 'layer/cnv' \\(one of: layer/conv"),
        ("op_a=dram:l1", "", "", OptionError, "fixes its buffer_type twice"),
        ("op_a=bloc_sharded", "", "", UnknownNameError, "block_sharded"),
        ("op_a", "", "", OptionError, "is not op=value"),
        ("op_a=dram,op_a=l1", "", "", OptionError, "named twice"),
        ("", "op_a=act_block#3", "", UnknownNameError, "act_block_h_override"),
        ("", "op_a=act_block_h_override#x", "", OptionError, "non-negative integer"),
        ("", "op_a=deallocate_activation#yes", "", OptionError, "true or false"),
        ("", "op_b=act_block_h_override#32", "", OptionError, "which is no conv"),
        ("", "", "op_b=2", OptionError, "names operand 2 of 2"),
        ("", "", "op_b=one", OptionError, "must be integers"),
    ],
)
def test_bad_overrides_are_named(
    layout: str, conv: str, memreconfig: str, error: type[TtoptError], message: str
) -> None:
    with pytest.raises(error, match=message):
        parse_overrides(graph(), layout, conv, memreconfig)
