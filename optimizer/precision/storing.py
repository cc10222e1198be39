"""How far normally distributed numbers move when they are kept in fewer bits, in closed form.

A number x of exponent e lies in [2^e, 2^(e+1)). All moments are of a standard normal distribution, whose mean square is
one, so that mean squares of errors are relative as they stand. The bits that a number loses are taken as uniformly
distributed and independent of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import erf, exp, inf, pi, sqrt

from optimizer.ir.dtype import DType

BLOCK = 16
"""Neighbours of a row that share an exponent in block formats."""
BLOCK_BITS = {DType.BFP8_B: 7, DType.BFP4_B: 3}
"""Bits of a magnitude in block formats (tt-metal `blockfloat_common.cpp`)."""
BF16_BITS = 8
"""Bits of a significand, the hidden one included."""
_OCTAVES = range(-30, 5)
"""Exponents that normally distributed numbers have, but for one in 10^9."""


@dataclass(frozen=True)
class Noise:
    """The error of a result of normal-like numbers."""

    gain: float
    """Mean relative error: the result comes out (1 + gain) times as large."""
    variance: float
    """Mean square of the rest of the error over the mean square of the result."""

    def then(self, other: Noise) -> Noise:
        """This error and, independently, another one after it."""
        return Noise((1 + self.gain) * (1 + other.gain) - 1, self.variance + other.variance)


EXACT = Noise(0.0, 0.0)


def _below(exponent: int) -> float:
    """Share of the numbers whose exponent is at most this."""
    return erf(2.0 ** (exponent + 1) / sqrt(2))


def _share(exponent: int) -> float:
    return _below(exponent) - _below(exponent - 1)


def _magnitude(exponent: int) -> float:
    """Mean of |x| over the numbers of an exponent, times their share."""
    return sqrt(2 / pi) * (exp(-(4.0**exponent) / 2) - exp(-(4.0 ** (exponent + 1)) / 2))


@cache
def square_of_octave() -> float:
    """Mean of 4^e over all numbers."""
    return sum(4.0**e * _share(e) for e in _OCTAVES)


@cache
def _square_of_largest_octave(sharing: int) -> float:
    """Mean of 4^e over blocks of so many numbers that are not zero, e being the largest exponent of one."""
    return sum(4.0**e * (_below(e) ** sharing - _below(e - 1) ** sharing) for e in _OCTAVES)


@cache
def rounding_noise(dtype: DType, sharing: int = BLOCK) -> Noise:
    """What storing a tensor in this element type does, from f32, to the nearest (as the host converts weights).

    `sharing` numbers of a block are not zero. Of integers and f32 nothing.
    """
    if dtype is DType.BF16:
        return Noise(0.0, square_of_octave() * 4.0 ** (1 - BF16_BITS) / 12)
    if dtype in BLOCK_BITS:
        return Noise(0.0, _square_of_largest_octave(sharing) * 4.0 ** (1 - BLOCK_BITS[dtype]) / 12)
    return EXACT


@cache
def cutting_noise(dtype: DType, bits: int, sharing: int = BLOCK) -> Noise:
    """What is lost of a tensor of this element type by taking the upper `bits` bits of every significand; `sharing`
    numbers of a block are not zero."""
    if dtype in BLOCK_BITS:
        return _cut_block(BLOCK_BITS[dtype], bits, sharing)
    held = {DType.BF16: float(BF16_BITS), DType.F32: inf}[dtype]
    if bits >= held:
        return EXACT
    step, least = 2.0 ** (1 - bits), 2.0 ** (1 - held)
    mean, square = (step - least) / 2, (step - least) * (2 * step - least) / 6
    gain = -mean * sum(2.0**e * _magnitude(e) for e in _OCTAVES)
    return Noise(gain, square * square_of_octave() - gain**2)


def _cut_block(held: int, bits: int, sharing: int) -> Noise:
    """Of a block format: a number n octaves below the largest of its block has n bits less to lose."""
    gain = square = 0.0
    for below in range(held - bits):
        step, least = 2.0 ** (1 - bits), 2.0 ** (1 - held + below)
        mean, mean_square = (step - least) / 2, (step - least) * (2 * step - least) / 6
        for e in _OCTAVES:
            others = _below(e + below) ** (sharing - 1)
            others -= _below(e + below - 1) ** (sharing - 1) if below else 0.0
            gain -= mean * 2.0**e * _magnitude(e) * others
            square += mean_square * 4.0**e * _share(e) * others
    return Noise(gain, max(0.0, square - gain**2))
