"""The matrix unit (FPU) in whole numbers: sums and products of source registers, added to what DST holds.

A multiplier takes 5 bits of a significand of source A and 7 of source B, so a product takes up to four passes, the
*phases* of a fidelity: phase 1 and 3 take A's lower bits, 2 and 3 B's. Every phase adds to DST, and is rounded there.

Terms are triples of sign, biased exponent and a significand whose leading bit has the weight 2^23, as float32 has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer.kernels.tensix.device.formats import bits_of
from optimizer.kernels.tensix.rounding import Array

Whole = NDArray[np.int64]
PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
"""Passes of a math fidelity."""
_BIAS = 127
_LEAST_KEPT = 13
"""Bits below the 11 of a significand that a DST of 16 bits loses before terms are added."""
_NARROW_BITS = 16
"""Bits of a float32 that a DST of 16 bits does not hold."""
_FAR = 31
"""Bits by which a term that is shifted down vanishes."""
GROUP = 8
"""Products that are added before they reach DST; two groups make the 16 of one instruction."""


@dataclass(frozen=True)
class _Terms:
    """Numbers of one kind."""

    sign: Whole
    exponent: Whole
    significand: Whole


def _terms(values: Array) -> _Terms:
    bits = bits_of(values).astype(np.int64)
    exponent = (bits >> 23) & 255
    return _Terms(bits >> 31, exponent, np.where(exponent > 0, (bits & 0x7FFFFF) | 0x800000, 0))


def _halves(count: Whole) -> Whole:
    """Half of what so many dropped bits are worth."""
    return np.left_shift(1, np.maximum(count, 1) - 1)


def _aligned(term: _Terms, top: Whole, downwards: bool, wide: bool) -> Whole:
    """A significand at the common exponent, with its sign. Ties go away from zero, of negative terms towards it."""
    tie = term.sign if downwards else np.zeros_like(term.sign)
    down = top - term.exponent
    shifted = (term.significand + _halves(down) - tie) >> np.minimum(down, _FAR)
    made = np.where(down == 0, term.significand, np.where(down < _FAR, shifted, 0))
    if not wide:
        made = (made + (1 << (_LEAST_KEPT - 1)) - tie) >> _LEAST_KEPT << _LEAST_KEPT
    return np.where(term.sign, -made, made)


@dataclass(frozen=True)
class Adder:
    """How sums are made."""

    wide: bool
    """DST has 32 bits."""
    least_slips: bool = True
    """A negative sum of one in the last place is normalised the wrong way (tenstorrent/tt-metal #38306)."""


def _accumulated(terms: Sequence[_Terms], held: Array, adder: Adder) -> Array:
    """What DST holds after terms were added to it."""
    wide = adder.wide
    dst = _terms(held)
    top = dst.exponent
    for term in terms:
        top = np.maximum(top, term.exponent)
    total = _aligned(dst, top, False, wide)
    for term in terms:
        total = total + _aligned(term, top, True, wide)
    sign, size = (total < 0).astype(np.int64), np.abs(total)
    up = 24 - np.frexp(size.astype(np.float64))[1].astype(np.int64)
    up = np.where(adder.least_slips & (sign == 1) & (size == 1), up - 27, up)
    exponent = top - up
    up = up if wide else up - _NARROW_BITS
    shifted = np.where(up < 0, (size + _halves(-up)) >> np.maximum(-up, 0), size << np.maximum(up, 0))
    shifted = shifted if wide else shifted << _NARROW_BITS
    exponent = exponent + ((shifted >> 24) & 1)
    found = np.where(exponent >= 255, 255 << 23, (exponent << 23) | (shifted & 0x7FFFFF)) | (sign << 31)
    found = np.where((top <= 0) | (size == 0) | (exponent <= 0), 0, found)
    return found.astype(np.uint32).view(np.float32)


def added(a: Array, b: Array, adder: Adder) -> Array:
    """a + b: the smaller one is rounded to the larger one's last bit of 11, ties away from zero."""
    a, b = np.broadcast_arrays(a, b)
    swap = np.abs(a) < np.abs(b)
    large, small = _terms(np.where(swap, b, a)), _terms(np.where(swap, a, b))
    down = large.exponent - small.exponent
    first, second = large.significand >> _LEAST_KEPT, small.significand >> _LEAST_KEPT
    second = np.where(down == 0, second, np.where(down < 12, (second + _halves(down)) >> np.minimum(down, 12), 0))
    size = np.where(large.sign == small.sign, first + second, first - second) << _LEAST_KEPT
    return _accumulated([_Terms(large.sign, large.exponent, size)], np.zeros(a.shape, np.float32), adder)


def _product(a: _Terms, b: _Terms, phase: int) -> _Terms:
    """Signs, exponents and 12 bits of the product of a phase, before it is placed."""
    first, second = a.significand >> _LEAST_KEPT, b.significand >> _LEAST_KEPT
    first = (first >> 1) & 31 if phase & 1 else first >> 6
    second = (second & 15) << 3 if phase & 2 else second >> 4
    exponent = a.exponent + b.exponent - _BIAS - (5 if phase & 1 else 0) - (7 if phase & 2 else 0)
    zero = (a.exponent == 0) | (b.exponent == 0)
    return _Terms(np.where(zero, 0, a.sign ^ b.sign), np.where(zero, 0, exponent), np.where(zero, 0, first * second))


def multiplied(a: Array, b: Array, phases: int, adder: Adder) -> Array:
    """a * b by element, added up in a clear DST phase by phase."""
    a, b = np.broadcast_arrays(a, b)
    first, second = _terms(a), _terms(b)
    held = np.zeros(a.shape, np.float32)
    for phase in range(phases):
        part = _product(first, second, phase)
        lost = part.exponent <= 0
        term = _Terms(
            np.where(lost, 0, part.sign),
            np.maximum(part.exponent, 0),
            np.where(lost, 0, part.significand << _LEAST_KEPT),
        )
        held = _accumulated([term], held, adder)
    return held


def _groups(part: _Terms) -> Iterator[_Terms]:
    """Sums of eight products each, at the largest exponent of the eight, ties away from zero."""
    for first in range(0, part.exponent.shape[-1], GROUP):
        sign, exponent, size = (x[..., first : first + GROUP] for x in (part.sign, part.exponent, part.significand))
        top = exponent.max(axis=-1)
        down = np.minimum(top[..., None] - exponent, 30)
        shifted = ((size << 1) + np.left_shift(1, down)) >> (down + 1)
        total = np.where(sign == 1, -shifted, shifted).sum(axis=-1)
        lost = top <= 0
        yield _Terms(
            np.where(lost, 0, total < 0).astype(np.int64),
            np.where(lost, 0, top),
            np.where(lost, 0, np.abs(total) << _LEAST_KEPT),
        )


def multiply_accumulate(held: Array, b: Array, a: Array, phase: int, adder: Adder) -> Array:
    """One instruction: held + b @ a of rows x 16 and 16 x 16 elements, `a` of source register A, of one phase."""
    columns = np.ascontiguousarray(a.T)
    part = _product(_terms(columns[None, :, :]), _terms(b[:, None, :]), phase)
    return _accumulated(list(_groups(part)), held, adder)
