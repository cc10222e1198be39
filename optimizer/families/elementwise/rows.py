"""Rows of element-wise ops."""

from __future__ import annotations

from optimizer.ir import shape_rules as rule
from optimizer.ir.dtype import FLOATS, INTEGERS, WIDE_FLOATS, WORDS, DType
from optimizer.ir.opdef import ON_HOST, REQUIRED, CostClass, DTypeRule, Elements, Mixing, OpDef, short_name
from optimizer.ir.row_forms import binary, by_name, elementwise, row, ternary, unary

_KEPT, _SELECTED = Elements.KEPT, Elements.SELECTED
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
ROWS: dict[str, OpDef] = by_name(
    *_UNARY, *_UNARY_PARAMS, *_BINARY,
    elementwise("where", rule.where, inputs=(1, 3), attrs={"x": None, "y": None}, dtype=DTypeRule.SECOND),
    *ternary("addcmul", takes=WIDE_FLOATS | WORDS),
    *ternary("lerp", "mac"),
    *ternary("addcdiv", unbounded=True),
    elementwise("typecast", rule.same, attrs={"dtype": REQUIRED, ON_HOST: False}, dtype=DTypeRule.ATTR,
                elements=_KEPT),
    row("tril", CostClass.ELTWISE, rule.same, attrs={"diagonal": 0}, padding_follows=True),
    row("triu", CostClass.ELTWISE, rule.same, attrs={"diagonal": 0}, padding_follows=True),
)
# fmt: on

UNARY = tuple(short_name(entry.name) for entry in _UNARY)
"""Unary ops without parameters."""
UNARY_PARAMS = tuple(short_name(entry.name) for entry in _UNARY_PARAMS)
"""Unary ops with scalar parameters."""
BINARY = tuple(short_name(entry.name) for entry in _BINARY)
"""Binary ops with broadcasting."""
