"""Every tile op: what it means, where the hardware wants its operands, and how it is called.

An op has one or more forms. A form says for each operand whether it is read from DST or straight from a circular
buffer, whether the result must take an operand's DST slot, and which init and call do it (API of `kernel_api.py`).
Meanings are numpy on 32x32 tiles, in whatever precision their operands have; `TileOp.evaluate` rounds them to float32.

    unit   operands                    result
    SFPU   DST                         in place for one operand, any slot for two or more
    FPU    circular buffers            any slot; `accumulates`: added to what the slot holds, so the slot must be clear
    reuse  one DST, one circular buffer    in the DST operand's slot (`binary_dest_reuse_tiles`)

Broadcasts and reductions are named by tt-metal: a COL broadcast repeats the tile's first column, a ROW reduction adds
up each row and leaves the sums in the first column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from math import erf, erfc
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.rounding import FORMAT_NUMBERS, round_bf16

Tile = NDArray[np.float32]
Meaning = Callable[..., NDArray[Any]]


EXTENDED = np.longdouble
"""What meanings are evaluated in, and the C++ of `executor/` as well: `long double`.

Functions of the C library differ between implementations in the last bit, in float32 visibly so. Rounded once from
64 bits, two implementations give the same float32 but in one of 2^38 cases, and `longdouble` functions of numpy are the
C library's, so that both witnesses agree bit for bit.
"""


class Place(StrEnum):
    """Where a form reads an operand."""

    DST = "dst"
    CB = "cb"


class Unit(StrEnum):
    """What computes, and thereby which init state an op needs."""

    SFPU = "sfpu"
    FPU = "fpu"
    REUSE = "reuse"
    UNPACK = "unpack"


@dataclass(frozen=True)
class Call:
    """A function of the kernel API with its arguments.

    Arguments: `a`, `b`, `c` DST slots of operands, `a_cb`, `a_tile` circular buffer and tile of an operand read from
    one, `d` slot of the result, `out_cb` the buffer it will be packed to, `$name` an attribute (floats as their bits;
    `:reciprocal` those of 1 / the number, `:float` as a number, `:format` as a `DataFormat`), `$data_format` the format
    of DST, anything else literally.
    """

    function: str
    args: tuple[str, ...] = ()
    template: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """One way to run an op."""

    unit: Unit
    places: tuple[Place, ...]
    init: Call
    call: Call
    in_place: int | None = None
    """Operand whose slot the result takes; None: any slot, a dying operand's or a clear one."""
    accumulates: bool = False
    dtypes: tuple[str, ...] = ()
    """Element types it takes, empty for all. The FPU reads circular buffers at 19 bits: f32 loses precision.

    Matmuls and reductions take f32 nevertheless, for there is no other way to do them; `pipeline.read_short` tells.
    """
    narrow: tuple[str, ...] = ()
    """Element types of its circular buffer that it brings right to a DST of 16 bits only; in one of 32 bits it writes
    to other rows than it should. Source: tenstorrent/tt-llk issue 1680, the LLK of ttnn 0.81.1 (`MOVB2D`), ttsim 1.10.
    """
    reversed_sources: bool = False
    """Operand a is unpacked to source register B, b to A; otherwise a to A."""


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


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = 1 / (1 + np.exp(-x))
    return found


_ROOT_2_OVER_PI = EXTENDED("0.79788456080286535587989")


def _gelu_tanh(x: NDArray[Any]) -> NDArray[Any]:
    """0.5 x (1 + tanh(u)) as x times the sigmoid of 2u, which does not cancel out below zero."""
    u = _ROOT_2_OVER_PI * (x + EXTENDED("0.044715") * x**3)
    found: NDArray[Any] = x * _sigmoid(2 * u)
    return found


_erf = np.vectorize(erf, otypes=[np.float64])
_erfc = np.vectorize(erfc, otypes=[np.float64])


def _larger(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The maximum; NaN if one is. Of two zeros the second: `np.maximum` takes either."""
    return np.where((a > b) | np.isnan(a), a, b)


def _smaller(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.where((a < b) | np.isnan(a), a, b)


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
    _unary("relu", lambda x: _larger(x, np.zeros_like(x))),
    _unary("gelu", lambda x: 0.5 * x * _erfc(-x / np.sqrt(2.0)), template=("false",)),
    _unary("gelu_tanh", _gelu_tanh),
    _unary("sigmoid", _sigmoid),
    _unary("silu", lambda x: x * _sigmoid(x)),
    _unary("tanh", np.tanh),
    _unary("hardsigmoid", lambda x: _smaller(_larger(x / 6 + 0.5, np.zeros_like(x)), np.ones_like(x))),
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
    _unary("erf", _erf, template=("false",)),
    _unary("erfc", _erfc),
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
    _scalar("max_scalar", lambda x, value: _larger(x, value), ("value",), "unary_max_tile"),
    _scalar("min_scalar", lambda x, value: _smaller(x, value), ("value",), "unary_min_tile"),
    _scalar("clamp", lambda x, low, high: _smaller(_larger(x, low), high), ("low", "high")),
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
    _binary("max", _larger, "binary_max_tile"),
    _binary("min", _smaller, "binary_min_tile"),
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
def repeated(which: str, x: NDArray[Any]) -> NDArray[Any]:
    """A tile's first row, column or element (`scalar`), all over it."""
    part = {"row": x[:1, :], "col": x[:, :1], "scalar": x[:1, :1]}[which]
    return np.asarray(np.broadcast_to(part, x.shape))


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


def _typecast(x: NDArray[Any], source: float, target: float) -> NDArray[Any]:
    """DST has no block formats: their exponents are shared when they are packed. Formats by `FORMAT_NUMBERS`."""
    return x if int(target) == FORMAT_NUMBERS[DType.F32] else round_bf16(x)


_SOURCES = (
    TileOp("copy", 1, np.positive, (_COPY,)),
    TileOp("copy_dst", 1, np.positive, (_COPY_DST,)),
    TileOp("transpose", 1, np.transpose, (_TRANSPOSE,), elementwise=False),
    TileOp("fill", 0, lambda value: np.full((32, 32), value), (_FILL,), ("value",)),
    TileOp("typecast", 1, _typecast, (_TYPECAST,), ("source", "target")),
    *(_bcast(which) for which in ("row", "col", "scalar")),
    *(
        _bcast_binary(name, which, meaning)
        for name, meaning in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply))
        for which in ("row", "col", "scalar")
    ),
)


# -- accumulating over a loop ---------------------------------------------------------------------------
def _reduced(kind: str, axis: str, total: NDArray[Any], x: NDArray[Any], scaler: NDArray[Any]) -> NDArray[Any]:
    """`total` with the reduction of one more tile: in the first column, row or element, zero elsewhere.

    The scaler tile holds one number everywhere; its first element is taken. A sum over the whole tile is pooled twice,
    down the columns and along the row of their sums, and scaled twice (`reduce.h`: a mean of N takes 1/sqrt(N)).
    Sums are taken element after element.
    """
    lines = {"row": x, "col": x.T, "scalar": x.reshape(1, -1)}[axis]
    part = np.add.accumulate(lines, axis=1)[:, -1] if kind == "sum" else np.max(lines, axis=1)
    part = (part + 0.0) * scaler[0, 0]  # a sum of zeros begins at +0, and a maximum of zeros is +0
    part = part * scaler[0, 0] if (kind, axis) == ("sum", "scalar") else part
    made = np.zeros_like(x)
    before, after = ({"row": t[:, 0], "col": t[0], "scalar": t[0, :1]}[axis] for t in (total, made))
    after[...] = before + part if kind == "sum" else _larger(before, part)
    return made


def _product(total: NDArray[Any], a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """`total + a @ b`, over the depth one after the other: sums in another order round differently."""
    terms = (a[:, k : k + 1] * b[k : k + 1] for k in range(a.shape[1]))
    return np.asarray(total + sum(terms, np.zeros_like(total)))


def _reduce(kind: str, axis: str) -> TileOp:
    template = (f"PoolType::{kind.upper()}", f"ReduceDim::REDUCE_{axis.upper()}")
    init = Call("reduce_init", ("a_cb", "b_cb", "out_cb"), template)
    form = _fpu(init, "reduce_tile", template, reversed_sources=(kind, axis) == ("sum", "row"))
    initial = 0.0 if kind == "sum" else -np.inf
    meaning = partial(_reduced, kind, axis)
    return TileOp(f"reduce_{kind}_{axis}", 2, meaning, (form,), elementwise=False, accumulates=True, initial=initial)


def _matmul(name: str, transpose: str, meaning: Meaning) -> TileOp:
    """`matmul_t` multiplies with the transposed second operand, tile by tile and within tiles."""
    form = _fpu(Call("matmul_init", ("a_cb", "b_cb", transpose)), "matmul_tiles", reversed_sources=True)
    return TileOp(name, 2, meaning, (form,), elementwise=False, accumulates=True)


_ACCUMULATING = (
    _matmul("matmul", "0", _product),
    _matmul("matmul_t", "1", lambda total, a, b: _product(total, a, b.T)),
    *(_reduce(kind, axis) for kind in ("sum", "max") for axis in ("row", "col", "scalar")),
)

TILE_OPS: Mapping[str, TileOp] = MappingProxyType(
    {op.name: op for op in (*_UNARY, *_BINARY, *_SOURCES, *_ACCUMULATING)}
)
"""By name, as in `ttl.tile_<name>` and, on blocks, `ttl.<name>`."""
