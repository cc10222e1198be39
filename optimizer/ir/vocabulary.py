"""The TTNN vocabulary: one row per op.

Adding an op starts here (see `docs/extending.md`). What may be sharded follows the acceptance tables
measured on tt-metal 0.81.1; the shape rules are in `shape_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.errors import GraphError
from optimizer.ir import compute_config as compute
from optimizer.ir import shape_rules as rule
from optimizer.ir.opdef import REQUIRED, CostClass, DTypeRule, OpDef, Page, ShapeRule

_TABLE: dict[str, OpDef] = {}

UNARY = (
    "relu", "gelu", "silu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "neg", "abs", "log", "reciprocal", "square",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "erf", "erfc", "erfinv", "softsign", "mish",
    "relu6", "hardswish", "hardsigmoid", "hardtanh", "selu", "floor", "ceil", "round", "trunc", "frac", "sign",
    "log1p", "log2", "log10", "expm1", "exp2", "cbrt", "isnan", "isinf", "logical_not", "gtz", "ltz", "eqz", "nez",
    "bitwise_not", "identity", "asinh", "acosh", "atanh", "isposinf", "isneginf", "gelu_tanh",
)  # fmt: skip
"""Unary ops without parameters. `gelu` is the erf form, `gelu_tanh` TTNN's `gelu(variant=ttnn.GeluVariant.Tanh)`."""

UNARY_PARAMS: dict[str, dict[str, object]] = {
    "leaky_relu": {"negative_slope": 0.01},
    "elu": {"alpha": 1.0},
    "celu": {"alpha": 1.0},
    "softplus": {"beta": 1.0, "threshold": 20.0},
    "clamp": {"min": None, "max": None},
    "pow_scalar": {"exponent": REQUIRED},
    "rsub": {"scalar": REQUIRED},
    "rdiv": {"scalar": REQUIRED},
    "heaviside": {"value": 0.0},
    "threshold": {"threshold": REQUIRED, "value": REQUIRED},
    "prelu_scalar": {"weight": REQUIRED},
}
"""Unary ops with scalar parameters. `rsub`: scalar - x; `rdiv`: scalar / x."""

BINARY = (
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "pow", "eq", "ne", "lt", "gt", "le", "ge",
    "logical_and", "logical_or", "logical_xor", "squared_difference", "atan2", "fmod", "remainder", "prelu",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "logical_right_shift",
)  # fmt: skip
"""Binary ops with broadcasting. One input and attribute `scalar` mean a scalar right-hand side."""

REDUCTIONS = ("sum", "mean", "max", "min", "prod", "std", "var")

FUSED_ACTIVATIONS = ("relu", "relu6", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
"""Activations that matmul, conv and binary kernels apply in place; none has parameters of the model's.

No hardswish: matmuls refuse it (tt-metal 0.81, mock device), and what binary and conv kernels give for it is not
hardswish (ttnn 0.81.1's kernels on Tenstorrent's simulator, Wormhole: off by 8 at -8; `docs/activations.md`).
"""
OPERAND_ACTIVATIONS = ("input_tensor_a_activations", "input_tensor_b_activations")
"""Attributes of binary ops: activations applied to an operand before the op."""
_FUSES_NOTHING = ("pow", "atan2", "fmod", "prelu")
"""Binary ops whose TTNN calls take no `activations`; the bitwise ones work on integers only."""

_NOT_IN_PLACE = (
    "rsub", "prelu_scalar", "atan2", "fmod", "prelu",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "logical_right_shift",
)  # fmt: skip
"""Unary and binary ops whose TTNN calls take no `output_tensor`, make tensors besides, or work on integers only."""

_SHARDS = {"shardable": True, "sharded_operands": (0,)}


def _row(name: str, cost_class: CostClass, shapes: ShapeRule, **fields: Any) -> None:
    full = f"ttnn.{name}"
    _TABLE[full] = OpDef(full, cost_class, shapes, **fields)


def _eltwise_rows() -> None:
    for name in UNARY:
        _row(name, CostClass.ELTWISE, rule.same, in_place=True, **_SHARDS)
    for name, params in UNARY_PARAMS.items():
        _row(name, CostClass.ELTWISE, rule.same, attrs=params, in_place=name not in _NOT_IN_PLACE, **_SHARDS)
    for name in BINARY:
        attrs: dict[str, object] = {"scalar": None, "activations": ()}
        fuses = () if name in _FUSES_NOTHING or "bitwise" in name or "shift" in name else FUSED_ACTIVATIONS
        if fuses:
            attrs.update(dict.fromkeys(OPERAND_ACTIVATIONS, ()))
        fields: dict[str, Any] = {"min_inputs": 1, "max_inputs": 2, "attrs": attrs, "activations": fuses}
        fields["in_place"] = name not in _NOT_IN_PLACE
        _row(name, CostClass.ELTWISE, rule.binary, shardable=True, sharded_operands=(0, 1), **fields)
    where = {"x": None, "y": None}
    _row(
        "where",
        CostClass.ELTWISE,
        rule.where,
        min_inputs=1,
        max_inputs=3,
        attrs=where,
        dtype=DTypeRule.SECOND,
        shardable=True,
        sharded_operands=(0, 1, 2),
    )
    for name in ("addcmul", "addcdiv", "lerp", "mac"):
        _row(
            name,
            CostClass.ELTWISE,
            rule.eltwise,
            min_inputs=3,
            max_inputs=3,
            attrs={"value": 1.0},
            shardable=True,
            sharded_operands=(0, 1, 2),
        )
    _row("typecast", CostClass.ELTWISE, rule.same, attrs={"dtype": REQUIRED}, dtype=DTypeRule.ATTR, **_SHARDS)


def _matmul_and_conv_rows() -> None:
    transposes = {"transpose_a": False, "transpose_b": False, "activation": None, "math_fidelity": None}
    _row(
        "matmul",
        CostClass.MATMUL,
        rule.matmul,
        min_inputs=2,
        max_inputs=2,
        attrs=transposes,
        activations=FUSED_ACTIVATIONS,
        compute=compute.matmul,
        **_SHARDS,
    )
    _row(
        "linear",
        CostClass.MATMUL,
        rule.matmul,
        min_inputs=2,
        max_inputs=3,
        attrs=transposes,
        activations=FUSED_ACTIVATIONS,
        compute=compute.matmul,
        **_SHARDS,
    )
    window = {
        "batch_size": REQUIRED,
        "input_height": REQUIRED,
        "input_width": REQUIRED,
        "kernel_size": REQUIRED,
        "stride": (1, 1),
        "padding": (0, 0, 0, 0),
        "dilation": (1, 1),
    }
    channels = {"in_channels": REQUIRED, "out_channels": REQUIRED, "groups": 1}
    conv = {**window, **channels, "activation": None, "math_fidelity": None}
    pages = (Page.ANY, Page.HOST, Page.HOST)
    _row(
        "conv2d",
        CostClass.CONV,
        rule.conv2d,
        min_inputs=2,
        max_inputs=3,
        attrs=conv,
        activations=FUSED_ACTIVATIONS,
        compute=compute.conv,
        operand_pages=pages,
        **_SHARDS,
    )
    _row(
        "conv_transpose2d",
        CostClass.CONV,
        rule.conv_transpose2d,
        min_inputs=2,
        max_inputs=3,
        activations=FUSED_ACTIVATIONS,
        compute=compute.conv,
        attrs={**conv, "output_padding": (0, 0)},
        operand_pages=pages,
        **_SHARDS,
    )
    pool = {**window, "channels": REQUIRED, "ceil_mode": False}
    _row(
        "max_pool2d",
        CostClass.POOL,
        rule.pool2d,
        attrs=pool,
        dtype=DTypeRule.UNPACKED,
        operand_pages=(Page.ANY,),
        output_page=Page.ROW_MAJOR,
        **_SHARDS,
    )
    _row(
        "avg_pool2d",
        CostClass.POOL,
        rule.pool2d,
        attrs={**pool, "count_include_pad": True},
        compute=compute.exact,
        dtype=DTypeRule.UNPACKED,
        operand_pages=(Page.ANY,),
        output_page=Page.ROW_MAJOR,
        **_SHARDS,
    )
    _row("global_avg_pool2d", CostClass.POOL, rule.global_avg_pool2d)
    _row(
        "upsample",
        CostClass.UPSAMPLE,
        rule.upsample,
        attrs={"scale_factor": REQUIRED, "mode": "nearest"},
        compute=compute.exact,
        operand_pages=(Page.ROW_MAJOR,),
        output_page=Page.ROW_MAJOR,
        **_SHARDS,
    )


def _norm_and_reduction_rows() -> None:
    _row(
        "softmax",
        CostClass.SOFTMAX,
        rule.same,
        attrs={"dim": -1, "numeric_stable": True},
        compute=compute.exact,
        **_SHARDS,
    )
    epsilon = {"epsilon": 1e-5}
    _row("layer_norm", CostClass.NORM, rule.norm, max_inputs=3, attrs=epsilon, compute=compute.exact, **_SHARDS)
    _row("rms_norm", CostClass.NORM, rule.norm, max_inputs=2, attrs=epsilon, compute=compute.rms_norm, **_SHARDS)
    _row(
        "group_norm",
        CostClass.NORM,
        rule.group_norm,
        max_inputs=3,
        attrs={"num_groups": REQUIRED, **epsilon},
        compute=compute.exact,
        **_SHARDS,
    )
    _row("batch_norm", CostClass.NORM, rule.same, min_inputs=3, max_inputs=5, attrs=epsilon, compute=compute.exact)
    for name in REDUCTIONS:
        states = None if name == "prod" else compute.exact
        _row(name, CostClass.REDUCE, rule.reduce, attrs={"dim": None, "keepdim": True}, compute=states, **_SHARDS)
    _row(
        "argmax",
        CostClass.REDUCE,
        rule.argmax,
        attrs={"dim": None, "keepdim": False},
        dtype=DTypeRule.U32,
        operand_pages=(Page.ROW_MAJOR,),
        output_page=Page.ROW_MAJOR,
    )
    _row(
        "topk",
        CostClass.REDUCE,
        rule.topk,
        num_outputs=2,
        attrs={"k": REQUIRED, "dim": -1, "largest": True},
        dtype=DTypeRule.FIRST_INDEX,
    )
    _row(
        "sort",
        CostClass.REDUCE,
        rule.sort,
        num_outputs=2,
        attrs={"dim": -1, "descending": False},
        dtype=DTypeRule.FIRST_INDEX,
    )
    _row("cumsum", CostClass.REDUCE, rule.along, attrs={"dim": -1, "reverse_order": False})


def _pad_page(attrs: Mapping[str, Any]) -> Page | None:
    """TTNN pads tiles at their end only; padding in front needs row-major data."""
    return Page.ROW_MAJOR if any(before for before, _ in attrs["padding"]) else None


def _data_movement_rows() -> None:
    move = CostClass.DATA_MOVEMENT
    _row("reshape", move, rule.reshape, attrs={"shape": REQUIRED}, view=rule.reshape_is_view, view_of_shards=True)
    _row("permute", move, rule.permute, attrs={"dims": REQUIRED}, view=rule.permute_is_view)
    _row("transpose", move, rule.transpose, attrs={"dim0": REQUIRED, "dim1": REQUIRED})
    _row(
        "concat",
        move,
        rule.concat,
        max_inputs=1 << 16,
        attrs={"dim": REQUIRED},
        shardable=True,
        sharded_operands=tuple(range(64)),
    )
    _row("slice", move, rule.slice_, attrs={"begins": REQUIRED, "ends": REQUIRED, "steps": None})
    _row("split", move, rule.split, num_outputs=None, attrs={"sizes": REQUIRED, "dim": REQUIRED})
    _row(
        "pad",
        move,
        rule.pad,
        attrs={"padding": REQUIRED, "value": 0.0},
        operand_pages=(Page.ANY,),
        output_page=Page.ANY,
        view=rule.pad_is_view,
        page_rule=_pad_page,
    )
    _row("fill_implicit_tile_padding", move, rule.same, attrs={"value": REQUIRED}, view=rule.stays)
    _row("repeat", move, rule.repeat, attrs={"repeats": REQUIRED}, view=rule.repeat_is_view)
    _row("repeat_interleave", move, rule.repeat_interleave, attrs={"repeats": REQUIRED, "dim": REQUIRED})
    _row(
        "embedding",
        CostClass.EMBEDDING,
        rule.embedding,
        min_inputs=2,
        max_inputs=2,
        dtype=DTypeRule.SECOND,
        operand_pages=(Page.ROW_MAJOR, Page.ROW_MAJOR),
    )
    _row("gather", move, rule.gather, min_inputs=2, max_inputs=2, attrs={"dim": -1})
    for name in ("scatter", "scatter_add"):
        _row(
            name,
            move,
            rule.scatter,
            min_inputs=3,
            max_inputs=3,
            attrs={"dim": REQUIRED},
            operand_pages=(Page.ROW_MAJOR,),
            output_page=Page.ROW_MAJOR,
        )
    for name in ("tril", "triu"):
        _row(name, CostClass.ELTWISE, rule.same, attrs={"diagonal": 0})
    _row(
        "to_layout",
        CostClass.LAYOUT,
        rule.same,
        attrs={"layout": REQUIRED},
        operand_pages=(Page.ANY,),
        output_page=Page.ANY,
        sharded_operands=(0,),
    )
    _row(
        "to_memory_config",
        CostClass.LAYOUT,
        rule.same,
        operand_pages=(Page.ANY,),
        output_page=Page.ANY,
        sharded_operands=(0,),
        shardable=True,
    )
    for name in ("from_device", "to_device"):
        _row(name, CostClass.HOST, rule.same, operand_pages=(Page.ANY,), output_page=Page.ANY)
    for name in ("full", "zeros", "ones"):
        _row(
            name,
            move,
            rule.attr_shape,
            min_inputs=0,
            max_inputs=0,
            dtype=DTypeRule.ATTR,
            attrs={"shape": REQUIRED, "value": 0.0, "dtype": "bf16"},
        )
    _row(
        "arange",
        move,
        rule.arange,
        min_inputs=0,
        max_inputs=0,
        dtype=DTypeRule.ATTR,
        output_page=Page.ROW_MAJOR,
        attrs={"start": 0, "end": REQUIRED, "step": 1, "dtype": "bf16"},
    )


def _attention_rows() -> None:
    _row(
        "scaled_dot_product_attention",
        CostClass.SDPA,
        rule.sdpa,
        min_inputs=3,
        max_inputs=4,
        attrs={"is_causal": False, "scale": None},
        compute=compute.sdpa,
    )
    _row(
        "scaled_dot_product_attention_decode",
        CostClass.SDPA,
        rule.sdpa_decode,
        min_inputs=3,
        max_inputs=4,
        attrs={"cur_pos": REQUIRED, "is_causal": True, "scale": None},
        compute=compute.sdpa,
        sharded_operands=(0,),
    )
    _row(
        "split_query_key_value_and_split_heads",
        CostClass.DATA_MOVEMENT,
        rule.split_qkv_heads,
        num_outputs=3,
        attrs={"num_heads": REQUIRED, "num_kv_heads": None, "transpose_key": False},
    )
    _row(
        "nlp_create_qkv_heads",
        CostClass.DATA_MOVEMENT,
        rule.nlp_create_qkv_heads,
        num_outputs=None,
        attrs={"num_heads": REQUIRED, "num_kv_heads": None, "transpose_key": False},
    )
    _row("concatenate_heads", CostClass.DATA_MOVEMENT, rule.concatenate_heads)
    _row("nlp_concat_heads", CostClass.DATA_MOVEMENT, rule.nlp_concat_heads)
    _row(
        "rotary_embedding",
        CostClass.ELTWISE,
        rule.rotary_embedding,
        compute=compute.exact,
        min_inputs=3,
        max_inputs=3,
        sharded_operands=(0,),
        shardable=True,
    )


_eltwise_rows()
_matmul_and_conv_rows()
_norm_and_reduction_rows()
_data_movement_rows()
_attention_rows()


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


def opdef(name: str) -> OpDef:
    """The row of an op; the opaque row for names the vocabulary lacks."""
    return _TABLE.get(name, _OPAQUE)


def op_names() -> tuple[str, ...]:
    """All vocabulary names, sorted."""
    return tuple(sorted(_TABLE))
