"""The vector unit (SFPU): how its float32 results are stored.

It computes in float32, and what it stores in a DST of 16 bits it cuts off. Most kernels of tt-metal therefore round a
result themselves before (`float32_to_bf16_rne`); those of `CUT_OFF` do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from optimizer.kernels.tensix.device.formats import bits_of, truncated, without_denormals
from optimizer.kernels.tensix.rounding import Array, round_bf16
from optimizer.kernels.tensix.tile_forms import Form
from optimizer.kernels.tensix.tile_ops import NEAREST, TileOp

CUT_OFF = frozenset(
    {
        "hardsigmoid", "softsign", "add_scalar", "sub_scalar", "mul_scalar", "div_scalar", "max_scalar", "min_scalar",
        "clamp", "leaky_relu", "acosh", "atanh", "erf", "erfc", "fmod", "xlogy", "fill",
    }
)  # fmt: skip
"""Ops whose results are cut off at 16 bits. Sums and differences are, too, but for a call that asks for `NEAREST`."""
_OF_TILES = ("add", "sub", "rsub")
SUMS = frozenset({*_OF_TILES, "add_scalar", "sub_scalar", "rsub_scalar"})
PRODUCTS = frozenset({"mul", "leaky_relu", "square", "mul_scalar", "div_scalar"})
"""Ops that are one multiply-add. A zero that it makes has no sign, but of a sum on Blackhole, where -0 - 0 is -0."""


def rounds(name: str, form: Form) -> bool:
    """Whether a call rounds its result to bf16 before it stores it in a DST of 16 bits."""
    return NEAREST in form.call.template if name in _OF_TILES else name not in CUT_OFF


def computed(op: TileOp, tiles: Sequence[Array], numbers: Mapping[str, float]) -> Array:
    """Float32 results: the op's meaning, but that a zero with a sign is a condition that holds, and less than one
    without."""
    if op.name == "where":
        tiles = (np.where(bits_of(tiles[0]) != 0, np.float32(1), np.float32(0)), *tiles[1:])
    found = op.evaluate(tiles, numbers)
    if op.name not in ("max", "min"):
        return found
    first, second = (np.signbit(tile) for tile in tiles)
    negative = first & second if op.name == "max" else first | second
    zeros = (tiles[0] == 0) & (tiles[1] == 0)
    return np.where(zeros, np.where(negative, np.float32(-0.0), np.float32(0.0)), found)


def stored(values: Array, wide: bool, nearest: bool, signless: bool) -> Array:
    """Float32 results of an op in DST; `signless`: without a sign of zero."""
    values = without_denormals(values, keep_sign=not signless)
    if wide:
        return values
    return round_bf16(values) if nearest else truncated(values)
