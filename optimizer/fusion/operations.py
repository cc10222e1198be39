"""What TTNN ops are in block ops: the ops that a region may hold.

A recipe writes one op into a `BlockWriter`; it gives the block of the op's result. Formulas are TTNN's definitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.graph import Attr, Op
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.kernels.tensix.ir import Value

Attrs = Mapping[str, Attr]
Block = Value


class BlockWriter(Protocol):
    """Where recipes write to; values are blocks of tiles."""

    def op(self, name: str, *operands: Block, **attrs: float) -> Block:
        """A block op of `kernels.tensix.tile_ops`; operands that cover less of the frame than others are repeated."""
        ...

    def fill(self, value: float) -> Block:
        """A block of one number, as large as the frame's."""
        ...

    def matmul(self, left: Block, right: Block) -> Block:
        """Rows times columns, over the whole depth."""
        ...

    def reduce(self, kind: str, operand: Block) -> Block:
        """Sum or maximum of every row, as a column."""
        ...

    @property
    def columns(self) -> int:
        """Elements of a row of the frame."""
        ...


Recipe = Callable[[BlockWriter, Attrs, Sequence[Block]], Block]


@dataclass(frozen=True)
class FusedOp:
    """One op that a region may hold."""

    recipe: Recipe
    rows: bool = False
    """Works on whole rows, which must lie on one core."""
    accepts: Callable[[Attrs, int], bool] = lambda _attrs, _rank: True
    """Whether the recipe covers these attributes, for a first operand of this rank."""


# -- one operand ------------------------------------------------------------------------------------------
_SAME = (
    "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "exp", "sqrt", "rsqrt", "neg", "abs", "log", "square",
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "erf", "erfc", "softsign", "hardsigmoid", "floor",
    "ceil", "trunc", "frac", "sign", "log1p", "expm1", "exp2", "cbrt", "isnan", "isinf", "gtz", "ltz", "eqz", "nez",
    "identity", "asinh", "acosh", "atanh",
)  # fmt: skip
"""Unary ops that tile ops have under the same name."""

Unary = Callable[[BlockWriter, Block], Block]


def _same(name: str) -> Unary:
    return lambda w, x: w.op(name, x)


_UNARY: Mapping[str, Unary] = {
    **{name: _same(name) for name in _SAME},
    "reciprocal": lambda w, x: w.op("recip", x),
    "logical_not": lambda w, x: w.op("eqz", x),
    "relu6": lambda w, x: w.op("clamp", x, low=0.0, high=6.0),
    "hardtanh": lambda w, x: w.op("clamp", x, low=-1.0, high=1.0),
    "hardswish": lambda w, x: w.op("mul", x, w.op("hardsigmoid", x)),
    "log2": lambda w, x: w.op("mul_scalar", w.op("log", x), value=1 / math.log(2)),
    "log10": lambda w, x: w.op("mul_scalar", w.op("log", x), value=1 / math.log(10)),
}
"""Unary ops without parameters; also the activations of binary ops."""


def _of_one(unary: Unary) -> Recipe:
    return lambda w, _attrs, x: unary(w, x[0])


def _number(attrs: Attrs, name: str) -> float:
    return float(str(attrs[name]))


def _clamp(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
    low, high = attrs["min"], attrs["max"]
    if low is None:
        return w.op("min_scalar", x[0], value=_number(attrs, "max"))
    if high is None:
        return w.op("max_scalar", x[0], value=_number(attrs, "min"))
    return w.op("clamp", x[0], low=_number(attrs, "min"), high=_number(attrs, "max"))


_POWERS: Mapping[float, Unary] = {
    1.0: lambda w, x: w.op("identity", x),
    2.0: lambda w, x: w.op("square", x),
    3.0: lambda w, x: w.op("mul", w.op("square", x), x),
    4.0: lambda w, x: w.op("square", w.op("square", x)),
    0.5: lambda w, x: w.op("sqrt", x),
    -0.5: lambda w, x: w.op("rsqrt", x),
    -1.0: lambda w, x: w.op("recip", x),
}

_PARAMETRIC: Mapping[str, FusedOp] = {
    "leaky_relu": FusedOp(lambda w, a, x: w.op("leaky_relu", x[0], slope=_number(a, "negative_slope"))),
    "elu": FusedOp(lambda w, a, x: w.op("elu", x[0], alpha=_number(a, "alpha"))),
    "clamp": FusedOp(_clamp, accepts=lambda a, _: a["min"] is not None or a["max"] is not None),
    "rsub": FusedOp(lambda w, a, x: w.op("rsub_scalar", x[0], value=_number(a, "scalar"))),
    "rdiv": FusedOp(lambda w, a, x: w.op("mul_scalar", w.op("recip", x[0]), value=_number(a, "scalar"))),
    "pow_scalar": FusedOp(
        lambda w, a, x: _POWERS[_number(a, "exponent")](w, x[0]),
        accepts=lambda a, _: _number(a, "exponent") in _POWERS,
    ),
}


# -- two and more operands --------------------------------------------------------------------------------
_BINARY_NAMES = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "maximum": "max", "minimum": "min", "eq": "eq",
    "ne": "ne", "lt": "lt", "gt": "gt", "le": "le", "ge": "ge",
}  # fmt: skip
_WITH_SCALAR = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def _binary(name: str) -> FusedOp:
    tile_op = _BINARY_NAMES[name]

    def combine(w: BlockWriter, a: Attrs, x: Sequence[Block]) -> Block:
        if len(x) == 1:
            return w.op(f"{tile_op}_scalar", x[0], value=_number(a, "scalar"))
        return w.op(tile_op, x[0], x[1])

    def accepts(attrs: Attrs, _rank: int) -> bool:
        return attrs.get("scalar") is None or name in _WITH_SCALAR

    return _activated(combine, accepts)


def _activated(combine: Recipe, accepts: Callable[[Attrs, int], bool]) -> FusedOp:
    """A binary op with the activations that it applies to its operands and to its result."""

    def recipe(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
        operands = list(x)
        for k, name in enumerate(OPERAND_ACTIVATIONS[: len(operands)]):
            operands[k] = _activate(w, operands[k], attrs.get(name))
        return _activate(w, combine(w, attrs, operands), attrs.get("activations"))

    def takes(attrs: Attrs, rank: int) -> bool:
        fused = [a for name in ("activations", *OPERAND_ACTIVATIONS) for a in _names(attrs.get(name))]
        return accepts(attrs, rank) and all(a in _UNARY for a in fused)

    return FusedOp(recipe, accepts=takes)


def _names(activations: Attr | None) -> tuple[str, ...]:
    return tuple(map(str, activations)) if isinstance(activations, tuple) else ()


def _activate(w: BlockWriter, x: Block, activations: Attr | None) -> Block:
    for name in _names(activations):
        x = _UNARY[name](w, x)
    return x


def _squared_difference(w: BlockWriter, _attrs: Attrs, x: Sequence[Block]) -> Block:
    return w.op("square", w.op("sub", x[0], x[1]))


def _where(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
    """Scalars stand for the branches that are no operands; a scalar `x` leaves the second operand to `y`."""
    rest = list(x[1:])
    branches = []
    for name in ("x", "y"):
        tensor = bool(rest) and (attrs[name] is None or len(rest) == 2)
        branches.append(rest.pop(0) if tensor else w.fill(_number(attrs, name)))
    return w.op("where", x[0], *branches)


def _weighted(name: str) -> Recipe:
    """a + value * b * c, or a + value * b / c."""

    def recipe(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
        product = w.op(name, x[1], x[2])
        value = _number(attrs, "value")
        return w.op("add", x[0], product if value == 1.0 else w.op("mul_scalar", product, value=value))

    return recipe


# -- rows -------------------------------------------------------------------------------------------------
def _last_dim(attrs: Attrs, rank: int) -> bool:
    """Whether an op reduces the last dimension and keeps it."""
    dim = attrs.get("dim")
    only = dim[0] if isinstance(dim, tuple) and len(dim) == 1 else dim
    return isinstance(only, int) and only in (-1, rank - 1) and bool(attrs.get("keepdim", True))


def _mean(w: BlockWriter, x: Block) -> Block:
    return w.op("mul_scalar", w.reduce("sum", x), value=1.0 / w.columns)


def _softmax(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
    """exp(x - max) / sum; without `numeric_stable` nothing is subtracted."""
    shifted = w.op("sub", x[0], w.reduce("max", x[0])) if attrs["numeric_stable"] else x[0]
    powers = w.op("exp", shifted)
    return w.op("mul", powers, w.op("recip", w.reduce("sum", powers)))


def _scaled(w: BlockWriter, x: Block, parameters: Sequence[Block]) -> Block:
    for name, parameter in zip(("mul", "add"), parameters, strict=False):
        x = w.op(name, x, parameter)
    return x


def _rms_norm(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
    variance = _mean(w, w.op("square", x[0]))
    inverse = w.op("rsqrt", w.op("add_scalar", variance, value=_number(attrs, "epsilon")))
    return _scaled(w, w.op("mul", x[0], inverse), x[1:])


def _layer_norm(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
    centred = w.op("sub", x[0], _mean(w, x[0]))
    return _rms_norm(w, attrs, (centred, *x[1:]))


def _minimum_of_rows(w: BlockWriter, _attrs: Attrs, x: Sequence[Block]) -> Block:
    return w.op("neg", w.reduce("max", w.op("neg", x[0])))


# -- matmuls ----------------------------------------------------------------------------------------------
def _matmul(w: BlockWriter, attrs: Attrs, x: Sequence[Block]) -> Block:
    product = w.matmul(x[0], x[1])
    summed = w.op("add", product, x[2]) if len(x) > 2 else product
    activation = attrs["activation"]
    return summed if activation is None else _UNARY[str(activation)](w, summed)


def _plain(attrs: Attrs, _rank: int) -> bool:
    known = attrs["activation"] is None or attrs["activation"] in _UNARY
    return known and not attrs["transpose_a"] and not attrs["transpose_b"]


FUSED_OPS: Mapping[str, FusedOp] = MappingProxyType(
    {
        f"ttnn.{name}": row
        for name, row in {
            **{name: FusedOp(_of_one(unary)) for name, unary in _UNARY.items()},
            **_PARAMETRIC,
            **{name: _binary(name) for name in _BINARY_NAMES},
            "squared_difference": _activated(_squared_difference, lambda a, _: a.get("scalar") is None),
            "where": FusedOp(_where),
            "addcmul": FusedOp(_weighted("mul")),
            "addcdiv": FusedOp(_weighted("div")),
            "mac": FusedOp(lambda w, _a, x: w.op("add", w.op("mul", x[0], x[1]), x[2])),
            "lerp": FusedOp(lambda w, _a, x: w.op("add", x[0], w.op("mul", x[2], w.op("sub", x[1], x[0])))),
            "sum": FusedOp(lambda w, _a, x: w.reduce("sum", x[0]), True, _last_dim),
            "mean": FusedOp(lambda w, _a, x: _mean(w, x[0]), True, _last_dim),
            "max": FusedOp(lambda w, _a, x: w.reduce("max", x[0]), True, _last_dim),
            "min": FusedOp(_minimum_of_rows, True, _last_dim),
            "softmax": FusedOp(_softmax, True, _last_dim),
            "layer_norm": FusedOp(_layer_norm, True),
            "rms_norm": FusedOp(_rms_norm, True),
            "linear": FusedOp(_matmul, accepts=_plain),
            "matmul": FusedOp(_matmul, accepts=_plain),
        }.items()
    }
)
"""By TTNN name."""


def accepts(op: Op, rank: int) -> bool:
    """Whether a recipe covers an op with its attributes; `rank` is that of its first operand."""
    row = FUSED_OPS.get(op.op)
    return row is not None and row.accepts(opdef(op.op).full_attrs(op), rank)


def is_matmul(op: Op) -> bool:
    """Whether an op is a product of matrices, whose tiles are summed up along K."""
    return opdef(op.op).cost_class is CostClass.MATMUL


def needs_rows(op: Op) -> bool:
    """Whether an op works on whole rows."""
    row = FUSED_OPS.get(op.op)
    return row is not None and row.rows
