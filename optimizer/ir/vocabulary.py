"""The TTNN vocabulary: one row per op.

Adding an op starts here (see `docs/extending.md`); what a row may say is described in `ir.opdef`, what rows of one
form share in `ir.row_forms`. What may be sharded follows the acceptance tables measured on tt-metal 0.81.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from optimizer.errors import GraphError, StateError
from optimizer.ir import compulsory
from optimizer.ir import compute_config as compute
from optimizer.ir import shape_rules as rule
from optimizer.ir import view_rules as view
from optimizer.ir.dtype import FLOATS, INTEGERS, WIDE_FLOATS, WORDS, DType
from optimizer.ir.opdef import ON_HOST, REQUIRED, ConfigFamily, CostClass, DTypeRule, Elements, Mixing, OpDef, Page
from optimizer.ir.row_forms import (
    binary,
    convolution,
    elementwise,
    layout,
    made,
    matmul,
    movement,
    norm,
    pool,
    reduction,
    row,
    sharded,
    ternary,
    unary,
)
from optimizer.process.plugins import OPS_GROUP, added_tables

# -- names of the ops that passes insert ---------------------------------------------------------------------
COPY = "ttnn.to_memory_config"
"""Brings a tensor to another place."""
CONVERT = "ttnn.to_layout"
"""Brings a tensor into other pages."""
CAST = "ttnn.typecast"
"""Brings a tensor to another element type."""
FILL = "ttnn.fill_implicit_tile_padding"
"""Writes a number into the padding of tiles."""
FETCH, SEND = "ttnn.from_device", "ttnn.to_device"
"""Bring a tensor from DRAM to the host and back."""


def _pad_page(attrs: Mapping[str, Any]) -> Page | None:
    """TTNN pads tiles at their end only; padding in front needs row-major data."""
    return Page.ROW_MAJOR if any(before for before, _ in attrs["padding"]) else None


_KEPT, _MOVED, _SELECTED = Elements.KEPT, Elements.MOVED, Elements.SELECTED
_SAME = view.whenever_alike
_ANY, _NUMBERS, _SIGNED = frozenset(DType), FLOATS | INTEGERS, FLOATS | {DType.I32}

# fmt: off
_UNARY = (
    # `gelu` is the erf form, `gelu_tanh` TTNN's `gelu(variant=ttnn.GeluVariant.Tanh)`.
    *unary("gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish", "hardsigmoid", "hardtanh", "selu",
           "mish", "softsign", "cbrt", "sin", "cos", "atan", "asinh", "erf", "erfc", "floor", "ceil", "round", "trunc",
           "frac", "sign", "isnan", "isinf", "isposinf", "isneginf"),
    *unary("square", "logical_not", "eqz", "nez", takes=_NUMBERS),
    *unary("gtz", "ltz", takes=_SIGNED),
    *unary("bitwise_not", takes=WORDS),
    *unary("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "tan", "asin",
           "acos", "sinh", "cosh", "acosh", "atanh", "erfinv", "log_sigmoid", unbounded=True),
    *unary("relu6", takes=_ANY),
    *unary("relu", "abs", elements=_SELECTED, takes=_ANY),
    *unary("neg", elements=_SELECTED, takes=_SIGNED),
    *unary("identity", elements=_KEPT, takes=_ANY),
)
_UNARY_PARAMS = (
    *unary("leaky_relu", attrs={"negative_slope": 0.01}),
    *unary("elu", "celu", attrs={"alpha": 1.0}),
    *unary("softplus", attrs={"beta": 1.0, "threshold": 20.0}),
    *unary("clamp", attrs={"min": None, "max": None}, takes=_SIGNED),
    *unary("hardshrink", "softshrink", attrs={"lambd": 0.5}),
    *unary("heaviside", attrs={"value": 0.0}),
    *unary("threshold", attrs={"threshold": REQUIRED, "value": REQUIRED}),
    *unary("pow_scalar", attrs={"exponent": REQUIRED}, unbounded=True, takes=_NUMBERS),
    *unary("rdiv", attrs={"scalar": REQUIRED}, unbounded=True),            # scalar / x
    *unary("rsub", attrs={"scalar": REQUIRED}, in_place=False, takes=_NUMBERS),  # scalar - x; takes no `output_tensor`
    *unary("prelu_scalar", attrs={"weight": REQUIRED}, in_place=False),    # makes tensors besides
)
_BINARY = (
    *binary("add", "subtract", "squared_difference", "logical_and", "logical_or", "logical_xor"),
    *binary("eq", "ne", "lt", "gt", "le", "ge", takes=_ANY),
    *binary("multiply", mixes=Mixing.NUMBERS),
    *binary("maximum", "minimum", elements=_SELECTED, takes=FLOATS | WORDS, mixes=Mixing.NONE),
    *binary("divide", unbounded=True, takes=_SIGNED, mixes=Mixing.NUMBERS),
    *binary("remainder", unbounded=True, takes=FLOATS | WORDS, mixes=Mixing.NONE),
    *binary("pow", fuses=False, unbounded=True, takes=FLOATS, mixes=Mixing.NONE),
    # Three that make tensors besides.
    *binary("fmod", fuses=False, in_place=False, unbounded=True, takes_dtype=False, takes=_SIGNED, mixes=Mixing.NONE),
    *binary("atan2", fuses=False, in_place=False, unbounded=True, takes_dtype=False, takes=FLOATS, mixes=Mixing.NONE),
    *binary("prelu", fuses=False, in_place=False, takes_dtype=False, takes=FLOATS),
    *binary("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", fuses=False, in_place=False,
            takes=INTEGERS, mixes=Mixing.NONE),
    *binary("logical_right_shift", fuses=False, in_place=False, takes=WORDS, mixes=Mixing.NONE),
)
_REDUCTIONS = (
    *reduction("mean", "std", "var", compute=compute.exact),
    *reduction("sum", compute=compute.exact, takes=WIDE_FLOATS | WORDS),
    *reduction("max", "min", compute=compute.exact, elements=_SELECTED, takes=WIDE_FLOATS | WORDS),
    *reduction("prod"),
)
_ROWS: tuple[OpDef, ...] = (
    *_UNARY, *_UNARY_PARAMS, *_BINARY,
    elementwise("where", rule.where, inputs=(1, 3), attrs={"x": None, "y": None}, dtype=DTypeRule.SECOND),
    *ternary("addcmul", takes=WIDE_FLOATS | WORDS),
    *ternary("lerp", "mac"),
    *ternary("addcdiv", unbounded=True),
    elementwise("typecast", rule.same, attrs={"dtype": REQUIRED, ON_HOST: False}, dtype=DTypeRule.ATTR,
                elements=_KEPT),
    row("tril", CostClass.ELTWISE, rule.same, attrs={"diagonal": 0}, padding_follows=True),
    row("triu", CostClass.ELTWISE, rule.same, attrs={"diagonal": 0}, padding_follows=True),
    sharded("rotary_embedding", CostClass.ELTWISE, rule.rotary_embedding, inputs=3, compute=compute.exact,
            padding_follows=True, rows_apart=True),

    # -- products, convolutions, pools
    matmul("matmul", inputs=2),
    matmul("linear", inputs=(2, 3)),
    convolution("conv2d", rule.conv2d, products=compulsory.conv2d),
    convolution("conv_transpose2d", rule.conv_transpose2d, products=compulsory.conv_transpose2d,
                output_padding=(0, 0)),
    pool("max_pool2d", {}, elements=_SELECTED),
    pool("avg_pool2d", {"count_include_pad": True}, compute=compute.exact),
    row("global_avg_pool2d", CostClass.POOL, rule.global_avg_pool2d, takes=WIDE_FLOATS),
    sharded("upsample", CostClass.UPSAMPLE, rule.upsample, attrs={"scale_factor": REQUIRED, "mode": "nearest"},
            compute=compute.upsample, operand_pages=(Page.ROW_MAJOR,), output_page=Page.ROW_MAJOR),
    row("grid_sample", CostClass.SAMPLE, rule.grid_sample, inputs=2, attrs={"align_corners": False},
        compute=compute.exact, operand_pages=(Page.ROW_MAJOR, Page.ROW_MAJOR), output_page=Page.ROW_MAJOR,
        must_read=compulsory.selected),

    # -- norms, reductions
    sharded("softmax", CostClass.SOFTMAX, rule.same, attrs={"dim": -1, "numeric_stable": True}, compute=compute.exact,
            takes=WIDE_FLOATS),
    norm("layer_norm", rule.norm, inputs=(1, 3), config=ConfigFamily.NORM, sharding_follows_operand=True,
         rows_apart=True),
    norm("rms_norm", rule.norm, inputs=(1, 2), compute_rule=compute.rms_norm, config=ConfigFamily.NORM,
         sharding_follows_operand=True, rows_apart=True),
    norm("group_norm", rule.group_norm, inputs=(1, 3), attrs={"num_groups": REQUIRED}),
    row("batch_norm", CostClass.NORM, rule.same, inputs=(3, 5), attrs={"epsilon": 1e-5}, compute=compute.exact),
    *_REDUCTIONS,
    row("argmax", CostClass.REDUCE, rule.argmax, attrs={"dim": None, "keepdim": False}, dtype=DTypeRule.U32,
        operand_pages=(Page.ROW_MAJOR,), output_page=Page.ROW_MAJOR),
    row("topk", CostClass.REDUCE, rule.topk, num_outputs=2, attrs={"k": REQUIRED, "dim": -1, "largest": True},
        dtype=DTypeRule.FIRST_INDEX),
    row("sort", CostClass.REDUCE, rule.sort, num_outputs=2, attrs={"dim": -1, "descending": False},
        dtype=DTypeRule.FIRST_INDEX, takes=frozenset({DType.F32, DType.BF16, DType.U16})),
    row("cumsum", CostClass.REDUCE, rule.along, attrs={"dim": -1, "reverse_order": False}),

    # -- data movement
    movement("reshape", rule.reshape, attrs={"shape": REQUIRED}, elements=_KEPT, view=view.reshape_is_view,
             view_of_shards=True, view_of_rows=True, returns_operand=_SAME, padding_follows=True),
    movement("permute", rule.permute, attrs={"dims": REQUIRED}, elements=_KEPT, view=view.permute_is_view,
             returns_operand=view.permute_keeps_order, rows_apart=True),
    movement("transpose", rule.transpose, attrs={"dim0": REQUIRED, "dim1": REQUIRED}, elements=_KEPT,
             returns_operand=view.transpose_keeps_order, rows_apart=True),
    movement("concat", rule.concat, inputs=(1, 1 << 16), attrs={"dim": REQUIRED}, shardable=True,
             operands_sharded_alike=True, returns_operand=_SAME),
    movement("slice", rule.slice_, attrs={"begins": REQUIRED, "ends": REQUIRED, "steps": None}, returns_operand=_SAME,
             must_read=compulsory.selected),
    movement("split", rule.split, num_outputs=None, attrs={"sizes": REQUIRED, "dim": REQUIRED}, returns_operand=_SAME,
             must_read=compulsory.selected),
    movement("pad", rule.pad, attrs={"padding": REQUIRED, "value": 0.0}, operand_pages=(Page.ANY,),
             output_page=Page.ANY, page_rule=_pad_page, view=view.pad_is_view, fills_padding=True,
             returns_operand=_SAME, takes=_NUMBERS),
    movement("repeat", rule.repeat, attrs={"repeats": REQUIRED}, view=view.repeat_is_view, returns_operand=_SAME),
    movement("repeat_interleave", rule.repeat_interleave, attrs={"repeats": REQUIRED, "dim": REQUIRED},
             returns_operand=_SAME, rows_apart=True),
    movement("fill_implicit_tile_padding", rule.same, attrs={"value": REQUIRED}, elements=_KEPT, view=view.stays,
             fills_padding=True),
    movement("gather", rule.gather, inputs=2, attrs={"dim": -1}, must_read=compulsory.selected),
    movement("scatter", rule.scatter, inputs=3, attrs={"dim": REQUIRED}, operand_pages=(Page.ROW_MAJOR,),
             output_page=Page.ROW_MAJOR),
    movement("scatter_add", rule.scatter, inputs=3, attrs={"dim": REQUIRED}, operand_pages=(Page.ROW_MAJOR,),
             output_page=Page.ROW_MAJOR, elements=Elements.COMPUTED),
    row("embedding", CostClass.EMBEDDING, rule.embedding, inputs=2, dtype=DTypeRule.SECOND, elements=_MOVED,
        operand_pages=(Page.ROW_MAJOR, Page.ROW_MAJOR), must_read=compulsory.looked_up,
        takes=frozenset({DType.U32, DType.BF16})),
    made("full", rule.attr_shape, {"shape": REQUIRED, "value": 0.0}),
    made("zeros", rule.attr_shape, {"shape": REQUIRED, "value": 0.0}),
    made("ones", rule.attr_shape, {"shape": REQUIRED, "value": 0.0}),
    made("arange", rule.arange, {"start": 0, "end": REQUIRED, "step": 1}, output_page=Page.ROW_MAJOR),

    # -- attention
    row("scaled_dot_product_attention", CostClass.SDPA, rule.sdpa, inputs=(3, 4), config=ConfigFamily.SDPA,
        attrs={"is_causal": False, "scale": None}, compute=compute.sdpa, products=compulsory.attention),
    row("scaled_dot_product_attention_decode", CostClass.SDPA, rule.sdpa_decode, inputs=(3, 4),
        config=ConfigFamily.SDPA, attrs={"cur_pos": REQUIRED, "is_causal": True, "scale": None}, compute=compute.sdpa,
        products=compulsory.attention_decode, must_read=compulsory.cached),
    movement("split_query_key_value_and_split_heads", rule.split_qkv_heads, num_outputs=3, rows_apart=True,
             takes=WIDE_FLOATS, attrs={"num_heads": REQUIRED, "num_kv_heads": None, "transpose_key": False}),
    movement("nlp_create_qkv_heads", rule.nlp_create_qkv_heads, num_outputs=None, rows_apart=True,
             takes=WIDE_FLOATS, attrs={"num_heads": REQUIRED, "num_kv_heads": None, "transpose_key": False}),
    movement("concatenate_heads", rule.concatenate_heads, elements=_KEPT, takes=WIDE_FLOATS),
    movement("nlp_concat_heads", rule.nlp_concat_heads, elements=_KEPT, takes=WIDE_FLOATS),

    # -- what ttopt inserts
    layout("to_layout", CostClass.LAYOUT, attrs={"layout": REQUIRED}, output_page=Page.ATTR, returns_operand=_SAME),
    layout("to_memory_config", CostClass.LAYOUT, shardable=True, returns_operand=_SAME, padding_follows=True),
    layout("from_device", CostClass.HOST),
    layout("to_device", CostClass.HOST),
)
# fmt: on


def _opaque_shapes(attrs: Mapping[str, Any], inputs: rule.Shapes) -> rule.Shapes:
    raise GraphError("an opaque op has no shape rule: its outputs must state their shapes")


_OPAQUE = OpDef(
    "opaque",
    CostClass.HOST,
    _opaque_shapes,
    min_inputs=0,
    max_inputs=1 << 16,
    num_outputs=None,
    operand_pages=(Page.ANY,),
    output_page=Page.TILE,
    opaque=True,
)

_TABLE = {entry.name: entry for entry in _ROWS}


def short_name(op: str) -> str:
    """An op's name without TTNN's prefix, as reports and tables by name have it."""
    return op.removeprefix("ttnn.")


UNARY = tuple(short_name(entry.name) for entry in _UNARY)
"""Unary ops without parameters."""
UNARY_PARAMS = tuple(short_name(entry.name) for entry in _UNARY_PARAMS)
"""Unary ops with scalar parameters."""
BINARY = tuple(short_name(entry.name) for entry in _BINARY)
"""Binary ops with broadcasting."""
REDUCTIONS = tuple(short_name(entry.name) for entry in _REDUCTIONS)
"""Reductions over attribute `dim`."""


def opdef(name: str) -> OpDef:
    """The row of an op; the opaque row for names the vocabulary lacks."""
    return _TABLE.get(name) or _added().get(name, _OPAQUE)


def op_names() -> tuple[str, ...]:
    """All vocabulary names, sorted."""
    return tuple(sorted({*_TABLE, *_added()}))


@cache
def _added() -> dict[str, OpDef]:
    """Rows of other distributions."""
    rows = added_tables("ROWS", _TABLE)
    wrong = next((name for name, entry in rows.items() if not isinstance(entry, OpDef) or entry.name != name), None)
    if wrong is not None:
        raise StateError(f"the row '{wrong}' of {OPS_GROUP} is no OpDef of that name")
    return rows
