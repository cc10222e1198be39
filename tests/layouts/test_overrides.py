"""Override strings in tt-mlir's spelling."""

from __future__ import annotations

import pytest

from optimizer.errors import OptionError, TtoptError, UnknownNameError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.layouts.input_overrides import with_overridden_inputs
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


FULL = (
    "layer/conv=dtype#bf16:weights_dtype#bf16:activation#none:deallocate_activation#False:reallocate_halo_output#True:"
    "act_block_h_override#0:act_block_w_div#1:reshard_if_not_optimal#false:override_sharding_config#false:"
    "shard_layout#block_sharded:transpose_shards#true:output_layout#row_major:enable_act_double_buffer#false:"
    "enable_weights_double_buffer#false"
)


def test_what_tt_mlir_prints_is_read() -> None:
    """Every field that it writes, its spelling of flags and of no activation; what the result is, is its layout."""
    parsed = parse_overrides(graph(), "layer/add=1x1:dram:interleaved:row_major:si32", FULL, "")
    assert parsed.output_layouts == {
        "op_a": LayoutOverride(page_layout=PageLayout.ROW_MAJOR, dtype=DType.BF16),
        "op_b": LayoutOverride(
            (1, 1), BufferType.DRAM, TensorMemoryLayout.INTERLEAVED, PageLayout.ROW_MAJOR, DType.I32
        ),
    }
    config = parsed.conv2d_configs["op_a"]
    assert "dtype" not in config
    assert (config["activation"], config["deallocate_activation"], config["reallocate_halo_output"]) == (
        None, False, True,
    )  # fmt: skip
    assert config["output_layout"] == "row_major"


def test_the_pages_of_a_conv_are_in_its_config_too() -> None:
    parsed = parse_overrides(graph(), "op_a=row_major", "", "")
    assert parsed.conv2d_configs == {"op_a": {"output_layout": "row_major"}}


def test_operands_and_inputs_get_a_copy_of_their_own() -> None:
    g = graph()
    with_overridden_inputs(g, "x=l1:interleaved,layer/add_in_0_layout=dram,op_a=dram")
    assert [(op.op, op.name, op.inputs, op.outputs) for op in g.ops()] == [
        ("ttnn.to_memory_config", "x", ("x",), ("x_layout_out",)),
        ("ttnn.conv2d", "layer/conv", ("x_layout_out",), ("a",)),
        ("ttnn.to_memory_config", "layer/add_in_0_layout", ("a",), ("layer/add_in_0_layout_out",)),
        ("ttnn.add", "layer/add", ("layer/add_in_0_layout_out", "x_layout_out"), ("b",)),
    ]
    parsed = parse_overrides(g, "x=l1:interleaved,layer/add_in_0_layout=dram", "", "")
    assert set(parsed.output_layouts) == {"x_layout", "layer/add_in_0_layout"}
    with_overridden_inputs(g, "x=l1:interleaved,layer/add_in_0_layout=dram")
    assert len(g) == 4


def test_an_operand_that_an_op_does_not_have() -> None:
    with pytest.raises(OptionError, match="names operand 2 of 2"):
        with_overridden_inputs(graph(), "layer/add_in_2_layout=dram")


def test_memreconfig_lists_operands() -> None:
    assert parse_overrides(graph(), "", "", "op_b=1:0").memreconfigs == {"op_b": (0, 1)}


@pytest.mark.parametrize(
    ("layout", "conv", "memreconfig", "error", "message"),
    [
        ("layer/cnv=dram", "", "", UnknownNameError, "unknown op in override 'layer/cnv', did you mean 'layer/conv"),
        ("op_a=dram:l1", "", "", OptionError, "fixes its buffer_type twice"),
        ("op_a=bloc_sharded", "", "", UnknownNameError, "block_sharded"),
        ("op_a", "", "", OptionError, "is not op=value"),
        ("op_a=dram,op_a=l1", "", "", OptionError, "named twice"),
        ("", "op_a=act_block#3", "", UnknownNameError, "act_block_h_override"),
        ("", "op_a=act_block_h_override#x", "", OptionError, "non-negative integer"),
        ("op_a=f16", "", "", OptionError, "no tensors of element type 'f16'"),
        ("op_a=bfp_f2", "", "", OptionError, "no tensors of element type 'bfp_f2'"),
        ("op_a=system", "", "", OptionError, "of tensors on the host"),
        ("", "op_a=weights_dtype#bfp_f8", "", OptionError, "no tensors of element type 'bfp_f8'"),
        ("", "op_a=core_grid#0", "", OptionError, "'core_grid' cannot be overridden"),
        ("", "op_a=activation#relu", "", OptionError, "'activation#relu' would change what the model computes"),
        ("", "op_a=dtype#bf16:dtype#f32", "", OptionError, "fixes its dtype twice"),
        ("op_a=f32", "op_a=dtype#bf16", "", OptionError, "wants dtype#bf16, override-output-layout f32"),
        ("op_a=tile", "op_a=output_layout#row_major", "", OptionError, "wants output_layout#row_major"),
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
