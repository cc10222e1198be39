"""Sums in destination registers of 16 bits, many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimizer.kernels.tensix.rounding import Array

_EXPONENT = np.uint32(0x7F800000)
_HALF, _UPPER = np.uint32(0x8000), np.uint32(0xFFFF0000)
_ROUNDING = np.float32(1.5 * 2.0**13)
"""Times a power of two 2^e, added and taken off: rounds a number to multiples of 2^(e - 10)."""
_NUDGE = np.float32(2.0**-17)
"""Times a power of two: makes ties go upwards."""


def in_narrow(values: Array) -> Array:
    """Rounded to bf16, ties away from zero, as a register of 16 bits takes a sum."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + _HALF) & _UPPER).view(np.float32)


def octaves(values: Array) -> Array:
    """2^e of numbers of exponent e; 0 of zeros."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return (bits & _EXPONENT).view(np.float32)


class NarrowSums:
    """Registers of 16 bits for results of one shape, with the memory that adding to them takes."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.held = np.zeros(shape, np.float32)
        self._top: NDArray[np.uint32] = np.empty(shape, np.uint32)
        self._other: NDArray[np.uint32] = np.empty(shape, np.uint32)
        self._aligned = np.empty(shape, np.float32)

    def add(self, term: Array) -> None:
        """A term and what is held, each rounded to 11 bits at the larger exponent of the two; their sum to 8 bits. The
        term is overwritten."""
        np.bitwise_and(term.view(np.uint32), _EXPONENT, out=self._other)
        self._add(term)

    def add_one(self, term: Array, octave: Array) -> None:
        """The same of a term whose exponent is stated: as the matrix unit has it of a product, before it is placed."""
        np.copyto(self._other, np.where(term == 0, np.float32(0), octave).view(np.uint32))
        self._add(term)

    def _add(self, term: Array) -> None:
        held, top, aligned = self.held, self._top, self._aligned
        np.bitwise_and(held.view(np.uint32), _EXPONENT, out=top)
        np.maximum(top, self._other, out=top)
        octave = top.view(np.float32)
        np.multiply(octave, _ROUNDING, out=aligned)
        held += aligned
        held -= aligned
        octave *= _NUDGE
        term += octave
        term += aligned
        term -= aligned
        held += term
        bits = held.view(np.uint32)
        bits += _HALF
        bits &= _UPPER
