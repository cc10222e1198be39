"""Every tile op: what it means, where the hardware wants its operands, and how it is called.

An op has one or more forms (`tile_forms.py`). A form says for each operand whether it is read from DST or straight from
a circular buffer, whether the result must take an operand's DST slot, and which init and call do it (API of
`kernel_api.py`). Meanings are numpy on 32x32 tiles (`tile_meanings.py`), in whatever precision their operands have;
`TileOp.evaluate` rounds them to float32.

Broadcasts and reductions are named by tt-metal: a COL broadcast repeats the tile's first column, a ROW reduction adds
up each row and leaves the sums in the first column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.kernels.tensix.tile_forms import Call, Form, Place, Unit
from optimizer.kernels.tensix.tile_meanings import (
    EXTENDED,
    erf,
    erfc,
    gelu_tanh,
    larger,
    product,
    reduced,
    repeated,
    sigmoid,
    smaller,
    typecast,
)

Tile = NDArray[np.float32]
Meaning = Callable[..., NDArray[Any]]


@dataclass(frozen=True)
class TileOp:
    """One op of the tile level."""

    name: str
    arity: int
    meaning: Meaning
    """Operands as tiles of any floating-point type, attributes as keywords."""
    forms: tuple[Form, ...]
    attrs: tuple[str, ...] = ()
    """Names of its numeric attributes, in call order."""
    elementwise: bool = True
    """Each element of the result depends on the same element of the operands only."""
    accumulates: bool = False
    """A matmul or a reduction: the meaning takes the sum so far first, and runs once per round of a loop."""
    initial: float = 0.0
    """What an accumulating op finds in a clear slot: the neutral element."""

    def held(self, numbers: Mapping[str, float]) -> dict[str, Any]:
        """Attributes as the kernel's code holds them: float32, and of a divisor the reciprocal as float32."""
        given = {token for form in self.forms for token in form.call.args}
        with np.errstate(all="ignore"):
            found = {name: EXTENDED(np.float32(numbers[name])) for name in self.attrs}
            inverted = (name for name in found if f"${name}:reciprocal" in given)
            return found | {name: 1 / EXTENDED(np.float32(1 / found[name])) for name in inverted}

    def evaluate(self, tiles: Sequence[Tile], numbers: Mapping[str, float]) -> Tile:
        """The meaning in `EXTENDED` precision, rounded once to float32. Numbers are as the API takes them."""
        attrs = self.held(numbers)
        with np.errstate(all="ignore"):
            return np.asarray(self.meaning(*(np.asarray(t, EXTENDED) for t in tiles), **attrs), np.float32)


# -- SFPU, one operand, in place ------------------------------------------------------------------------
def _unary(name: str, meaning: Meaning, function: str = "", init: str = "", template: tuple[str, ...] = ()) -> TileOp:
    function = function or f"{name}_tile"
    form = Form(
        Unit.SFPU,
        (Place.DST,),
        Call(init or f"{function}_init", (), template),
        Call(function, ("d",), template),
        in_place=0,
    )
    return TileOp(name, 1, meaning, (form,))


def _scalar(
    name: str, meaning: Meaning, attrs: tuple[str, ...], function: str = "", init: str = "", taken_as: str = ""
) -> TileOp:
    """One operand and numbers, which the API takes as the bits of a float32."""
    function = function or f"{name}_tile"
    args = ("d", *(f"${attr}{taken_as}" for attr in attrs))
    form = Form(Unit.SFPU, (Place.DST,), Call(init or f"{function}_init"), Call(function, args), in_place=0)
    return TileOp(name, 1, meaning, (form,), attrs)


_UNARY = (
    _unary("exp", np.exp),
    _unary("exp2", np.exp2),
    _unary("expm1", np.expm1),
    _unary("log", np.log),
    _unary("log1p", np.log1p),
    _unary("sqrt", np.sqrt),
    _unary("rsqrt", lambda x: 1 / np.sqrt(x)),
    _unary("cbrt", np.cbrt),
    _unary("recip", np.reciprocal),
    _unary("relu", lambda x: larger(x, np.zeros_like(x))),
    _unary("gelu", lambda x: 0.5 * x * erfc(-x / np.sqrt(2.0)), template=("false",)),
    _unary("gelu_tanh", gelu_tanh),
    _unary("sigmoid", sigmoid),
    _unary("silu", lambda x: x * sigmoid(x)),
    _unary("tanh", np.tanh),
    _unary("hardsigmoid", lambda x: smaller(larger(x / 6 + 0.5, np.zeros_like(x)), np.ones_like(x))),
    _unary("softsign", lambda x: x / (1 + np.abs(x))),
    _unary("abs", np.abs),
    _unary("neg", np.negative, "negative_tile"),
    _unary("sign", np.sign),
    _unary("signbit", np.signbit),
    _unary("square", np.square),
    _unary("identity", np.positive),
    _unary("sin", np.sin),
    _unary("cos", np.cos),
    _unary("tan", np.tan),
    _unary("asin", np.arcsin),
    _unary("acos", np.arccos),
    _unary("atan", np.arctan),
    _unary("sinh", np.sinh),
    _unary("cosh", np.cosh),
    _unary("asinh", np.arcsinh),
    _unary("acosh", np.arccosh),
    _unary("atanh", np.arctanh),
    _unary("erf", erf, template=("false",)),
    _unary("erfc", erfc),
    _unary("floor", np.floor, init="rounding_op_tile_init"),
    _unary("ceil", np.ceil, init="rounding_op_tile_init"),
    _unary("trunc", np.trunc, init="rounding_op_tile_init"),
    _unary("frac", lambda x: x - np.trunc(x), init="rounding_op_tile_init"),
    _unary("eqz", lambda x: x == 0),
    _unary("nez", lambda x: x != 0),
    _unary("gtz", lambda x: x > 0),
    _unary("gez", lambda x: x >= 0),
    _unary("ltz", lambda x: x < 0),
    _unary("lez", lambda x: x <= 0),
    _unary("isnan", np.isnan),
    _unary("isinf", np.isinf),
    _scalar("add_scalar", lambda x, value: x + value, ("value",), "add_unary_tile", "binop_with_scalar_tile_init"),
    _scalar("sub_scalar", lambda x, value: x - value, ("value",), "sub_unary_tile", "binop_with_scalar_tile_init"),
    _scalar("mul_scalar", lambda x, value: x * value, ("value",), "mul_unary_tile", "binop_with_scalar_tile_init"),
    _scalar(
        "div_scalar",
        lambda x, value: x / value,
        ("value",),
        "div_unary_tile",  # multiplies: `ckernel_sfpu_binop_with_unary.h` leaves the inversion to the caller
        "binop_with_scalar_tile_init",
        ":reciprocal",
    ),
    _scalar("rsub_scalar", lambda x, value: value - x, ("value",), "rsub_unary_tile", "binop_with_scalar_tile_init"),
    _scalar("max_scalar", lambda x, value: larger(x, value), ("value",), "unary_max_tile"),
    _scalar("min_scalar", lambda x, value: smaller(x, value), ("value",), "unary_min_tile"),
    _scalar("clamp", lambda x, low, high: smaller(larger(x, low), high), ("low", "high")),
    _scalar("leaky_relu", lambda x, slope: np.where(x > 0, x, slope * x), ("slope",)),
    _scalar("elu", lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)), ("alpha",)),
)


# -- two and three operands ---------------------------------------------------------------------------
def _sfpu(function: str, arity: int, template: tuple[str, ...] = ()) -> Form:
    args = (*"abc"[:arity], "d")
    return Form(Unit.SFPU, (Place.DST,) * arity, Call(f"{function}_init"), Call(function, args, template))


NEAREST = "ckernel::DstRoundingMode::NearestEven"
"""Sums of the SFPU are rounded on their way to a DST of 16 bits, as its products are; by default they are cut off."""


def _binary(name: str, meaning: Meaning, function: str = "", template: tuple[str, ...] = ()) -> TileOp:
    return TileOp(name, 2, meaning, (_sfpu(function or f"{name}_binary_tile", 2, template),))


_NARROW = ("bf16", "bfp8_b", "bfp4_b")
"""Element types of at most 16 bits."""


def _fpu(
    init: Call,
    function: str,
    template: tuple[str, ...] = (),
    accumulates: bool = True,
    dtypes: tuple[str, ...] = (),
    reversed_sources: bool = False,
) -> Form:
    """On the FPU, from two circular buffers."""
    call = Call(function, ("a_cb", "b_cb", "a_tile", "b_tile", "d"), template)
    places = (Place.CB, Place.CB)
    return Form(Unit.FPU, places, init, call, accumulates=accumulates, dtypes=dtypes, reversed_sources=reversed_sources)


def _fpu_binary(name: str, meaning: Meaning) -> TileOp:
    """add, sub and mul: on the FPU from two circular buffers, reusing DST for one operand, or on the SFPU."""
    fpu = _fpu(Call(f"{name}_init", ("a_cb", "b_cb")), f"{name}_tiles", accumulates=name == "mul", dtypes=_NARROW)
    sfpu = _sfpu(f"{name}_binary_tile", 2, () if name == "mul" else (NEAREST,))
    return TileOp(name, 2, meaning, (fpu, _reuse(name, 0), _reuse(name, 1), sfpu))


def _reuse(name: str, kept: int) -> Form:
    """Operand `kept` stays in DST, the other comes from its circular buffer."""
    source = ("EltwiseBinaryReuseDestType::DEST_TO_SRCA", "EltwiseBinaryReuseDestType::DEST_TO_SRCB")[kept]
    other = "ab"[1 - kept]
    places = (Place.DST, Place.CB) if kept == 0 else (Place.CB, Place.DST)
    init = Call(f"{name}_reuse_dest_init", (f"{other}_cb",), (source,))
    call = Call(f"{name}_reuse_dest_tiles", (f"{other}_cb", f"{other}_tile", "d"), (source,))
    return Form(Unit.REUSE, places, init, call, in_place=kept, dtypes=_NARROW)


_BINARY = (
    _fpu_binary("add", np.add),
    _fpu_binary("sub", np.subtract),
    _fpu_binary("mul", np.multiply),
    _binary("div", np.divide),
    _binary("rsub", lambda a, b: b - a, template=(NEAREST,)),
    _binary("pow", np.power, "power_binary_tile"),
    _binary("max", larger, "binary_max_tile"),
    _binary("min", smaller, "binary_min_tile"),
    _binary("eq", np.equal),
    _binary("ne", np.not_equal),
    _binary("lt", np.less),
    _binary("gt", np.greater),
    _binary("le", np.less_equal),
    _binary("ge", np.greater_equal),
    _binary("atan2", np.arctan2),
    _binary("fmod", np.fmod),
    _binary("remainder", np.remainder),
    _binary("logaddexp", np.logaddexp),
    _binary("xlogy", lambda a, b: np.where(a == 0, 0, a * np.log(b))),
    TileOp("where", 3, lambda c, a, b: np.where(c != 0, a, b), (_sfpu("where_tile", 3, ("$data_format",)),)),
)


# -- no operand, or one straight from a circular buffer -----------------------------------------------
def _bcast(which: str) -> TileOp:
    kind = (f"BroadcastType::{which.upper()}",)
    form = Form(
        Unit.UNPACK,
        (Place.CB,),
        Call("unary_bcast_init", ("a_cb",), kind),
        Call("unary_bcast", ("a_cb", "a_tile", "d"), kind),
        narrow=_NARROW if which == "row" else (),
    )
    return TileOp(f"bcast_{which}", 1, partial(repeated, which), (form,), elementwise=False)


def _bcast_binary(name: str, which: str, meaning: Meaning) -> TileOp:
    """An FPU op whose second operand is broadcast inside the tile."""
    plural = which if which == "scalar" else f"{which}s"
    init = Call(f"{name}_bcast_{plural}_init", ("a_cb", "b_cb"))
    form = _fpu(init, f"{name}_tiles_bcast_{plural}", accumulates=name == "mul", dtypes=_NARROW)
    return TileOp(f"{name}_bcast_{which}", 2, lambda a, b: meaning(a, repeated(which, b)), (form,), elementwise=False)


_COPY = Form(Unit.UNPACK, (Place.CB,), Call("copy_init", ("a_cb",)), Call("copy_tile", ("a_cb", "a_tile", "d")))
_TRANSPOSE = Form(
    Unit.UNPACK, (Place.CB,), Call("transpose_init", ("a_cb",)), Call("transpose_tile", ("a_cb", "a_tile", "d"))
)
_FILL = Form(Unit.SFPU, (), Call("fill_tile_init"), Call("fill_tile", ("d", "$value:float")))
_COPY_DST = Form(
    Unit.SFPU, (Place.DST,), Call("copy_dest_values_init"), Call("copy_dest_values", ("a", "d"), ("$data_format",))
)
_TYPECAST = Form(
    Unit.SFPU,
    (Place.DST,),
    Call("typecast_tile_init", (), ("$source:format", "$target:format")),
    Call("typecast_tile", ("d",), ("$source:format", "$target:format")),
    in_place=0,
)


_SOURCES = (
    TileOp("copy", 1, np.positive, (_COPY,)),
    TileOp("copy_dst", 1, np.positive, (_COPY_DST,)),
    TileOp("transpose", 1, np.transpose, (_TRANSPOSE,), elementwise=False),
    TileOp("fill", 0, lambda value: np.full((32, 32), value), (_FILL,), ("value",)),
    TileOp("typecast", 1, typecast, (_TYPECAST,), ("source", "target")),
    *(_bcast(which) for which in ("row", "col", "scalar")),
    *(
        _bcast_binary(name, which, meaning)
        for name, meaning in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply))
        for which in ("row", "col", "scalar")
    ),
)


# -- accumulating over a loop ---------------------------------------------------------------------------
def _reduce(kind: str, axis: str) -> TileOp:
    template = (f"PoolType::{kind.upper()}", f"ReduceDim::REDUCE_{axis.upper()}")
    init = Call("reduce_init", ("a_cb", "b_cb", "out_cb"), template)
    form = _fpu(init, "reduce_tile", template, reversed_sources=(kind, axis) == ("sum", "row"))
    initial = 0.0 if kind == "sum" else -np.inf
    meaning = partial(reduced, kind, axis)
    return TileOp(f"reduce_{kind}_{axis}", 2, meaning, (form,), elementwise=False, accumulates=True, initial=initial)


def _matmul(name: str, transpose: str, meaning: Meaning) -> TileOp:
    """`matmul_t` multiplies with the transposed second operand, tile by tile and within tiles."""
    form = _fpu(Call("matmul_init", ("a_cb", "b_cb", transpose)), "matmul_tiles", reversed_sources=True)
    return TileOp(name, 2, meaning, (form,), elementwise=False, accumulates=True)


_ACCUMULATING = (
    _matmul("matmul", "0", product),
    _matmul("matmul_t", "1", lambda total, a, b: product(total, a, b.T)),
    *(_reduce(kind, axis) for kind in ("sum", "max") for axis in ("row", "col", "scalar")),
)

TILE_OPS: Mapping[str, TileOp] = MappingProxyType(
    {op.name: op for op in (*_UNARY, *_BINARY, *_SOURCES, *_ACCUMULATING)}
)
"""By name, as in `ttl.tile_<name>` and, on blocks, `ttl.<name>`."""
SUMS = frozenset(op.name for op in _ACCUMULATING if op.initial == 0)
"""Ops that add to what their slot of DST holds."""
