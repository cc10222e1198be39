"""A core's units on whole arrays: sums and products by element, functions of the vector unit, packing.

As `kernels/tensix/device` has them for one tile, which is equal bit for bit to the simulator; here in f32, many
elements at a time. The tests compare the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device import formats
from optimizer.kernels.tensix.device.fpu import PHASES, Adder, multiply_accumulate
from optimizer.kernels.tensix.device.sfpu import stored
from optimizer.kernels.tensix.rounding import BLOCK_BITS, Array, round_bf16, round_block_float
from optimizer.precision.blocks import TILE
from optimizer.values.emulation.products import DEPTH, Sums, kept, passes, product
from optimizer.values.emulation.registers import NarrowSums, in_narrow, octaves

BLOCK = 16
"""Neighbours of a row that share an exponent."""
_FIRST = 5
"""Bits that the first pass takes of source register A."""
_ALIGNING = np.float32(1.5 * 2.0**13)
"""Times 2^e, added and taken off: rounds to multiples of 2^(e - 10)."""
_HUGE = np.float32(2.0**100)
"""Beside numbers from here on, masks mostly, others are as good as zero; they would overflow on the way."""
_PART = 1 << 22
"""Elements that are stored in another type at a time."""
_TIE = np.float32(2.0**-21)
"""Times 2^e: makes ties go away from zero."""


def whole_blocks(values: Array) -> Array:
    """With zeros, so that rows are whole blocks."""
    if values.ndim == 0:
        return np.pad(values.reshape(1), (0, BLOCK - 1))
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % BLOCK)])


def _first_columns(values: Array, like: Array) -> Array:
    return values[:1].reshape(()) if like.ndim == 0 else values[..., : like.shape[-1]]


def by_rows(stored_as: Callable[[Array], Array], values: Array) -> Array:
    """What an element type makes of an array, some rows at a time: a large one at once takes many times its memory."""
    if values.ndim < 2 or values.size <= _PART:
        return stored_as(values)
    rows = values.reshape(-1, values.shape[-1])
    step = max(1, _PART // rows.shape[1])
    made = np.empty(rows.shape, np.float32)
    for top in range(0, len(rows), step):
        made[top : top + step] = stored_as(rows[top : top + step])
    return made.reshape(values.shape)


def converted(values: NDArray[Any], dtype: DType) -> Array:
    """Numbers as the host stores them in an element type: to the nearest, ties to even."""
    return by_rows(lambda part: _converted(part, dtype), np.asarray(values, np.float32))


def _converted(values: Array, dtype: DType) -> Array:
    if dtype is DType.BF16:
        return round_bf16(values)
    if dtype in BLOCK_BITS:
        return _first_columns(round_block_float(whole_blocks(values), BLOCK_BITS[dtype]), values)
    return values


@dataclass(frozen=True)
class Units:
    """How a program has set the units."""

    fidelity: str
    """As tt-metal spells it."""
    wide: bool
    """Destination registers have 32 bits."""

    @property
    def between(self) -> DType:
        """Element type of most kernels' circular buffers for what they keep between steps."""
        return DType.F32 if self.wide else DType.BF16

    # -- matrix unit ------------------------------------------------------------------------------------------
    def matmul(self, a: Array, b: Array, dtypes: tuple[DType, DType], sums: Sums | None = None) -> Array:
        """a @ b: operand A goes through source register B, operand B through A."""
        return product(a, b, dtypes, sums or Sums(self.fidelity, self.wide))

    def total(self, x: Array, dtype: DType, scaler: float = 1.0) -> Array:
        """Sums of rows, [..., 1], times a scaler that bf16 holds: a product with a column of it, made exactly, as what
        rounding adds to a long sum of one sign is seen in all that is divided by it."""
        rows = formats.in_source(x, dtype, self.wide).reshape(-1, x.shape[-1])
        rows = np.pad(rows, ((0, 0), (0, -rows.shape[1] % TILE)))
        column = np.full((DEPTH, 1), scaler, np.float32)
        narrow = not (kept(column, _FIRST) - column).any()  # passes over the scaler's lower bits add nothing
        phases = [p for p in range(PHASES[self.fidelity]) if not (narrow and p & 1)]
        held = np.zeros((rows.shape[0], 1), np.float32)
        for tile in range(0, rows.shape[1], TILE):
            for phase in phases:
                for first in range(tile, tile + TILE, DEPTH):
                    taken = np.ascontiguousarray(rows[:, first : first + DEPTH])
                    held = multiply_accumulate(held, taken, column, phase, Adder(self.wide))
        return held.reshape(*x.shape[:-1], 1)

    def plus(self, a: Array, b: Array, dtypes: tuple[DType, DType]) -> Array:
        """a + b: the smaller one is rounded to the larger one's last bit of 11, ties away from zero."""
        a, b = (formats.in_source(x, dtype, self.wide) for x, dtype in zip((a, b), dtypes, strict=True))
        a, b = np.broadcast_arrays(a, b)
        swap = np.abs(a) < np.abs(b)
        large, small = np.where(swap, b, a), np.where(swap, a, b)
        octave = octaves(large)
        nudged = small + np.copysign(octave * _TIE, small)
        aligning = octave * _ALIGNING
        found = np.where(octave < _HUGE, large + ((nudged + aligning) - aligning), large)
        return found if self.wide else in_narrow(found)

    def minus(self, a: Array, b: Array, dtypes: tuple[DType, DType]) -> Array:
        """a - b."""
        return self.plus(a, -b, dtypes)

    def times(self, a: Array, b: Array, dtypes: tuple[DType, DType]) -> Array:
        """a * b by element: a goes through source register A, b through B; pass after pass is added up."""
        a, b = (formats.in_source(x, dtype, self.wide) for x, dtype in zip((a, b), dtypes, strict=True))
        a, b = np.broadcast_arrays(a, b)
        parts = passes(b, a, self.fidelity)
        if self.wide:
            return sum((x * y for x, y in parts[1:]), parts[0][0] * parts[0][1])
        octave = octaves(a) * octaves(b)
        registers = NarrowSums(a.shape)
        for index, (x, y) in enumerate(parts):
            registers.add_one(x * y, octave * np.float32(2.0 ** -(5 * (index & 1) + 7 * (index >> 1))))
        return registers.held

    # -- vector unit ------------------------------------------------------------------------------------------
    def function(self, values: NDArray[Any], nearest: bool = True) -> Array:
        """Results of the vector unit in destination registers; `nearest`: its kernel rounds them to bf16 before."""
        with np.errstate(over="ignore", invalid="ignore"):
            return stored(np.asarray(values, np.float32), self.wide, nearest, signless=True)

    # -- packer -----------------------------------------------------------------------------------------------
    def packed(self, values: Array, dtype: DType) -> Array:
        """Destination registers in a circular buffer of an element type."""
        return by_rows(lambda part: self._packed(part, dtype), np.asarray(values))

    def _packed(self, values: Array, dtype: DType) -> Array:
        if dtype not in BLOCK_BITS:
            return formats.packed(values, self.wide, dtype)
        return _first_columns(formats.packed(whole_blocks(values), self.wide, dtype), values)

    def unpacked(self, values: Array, dtype: DType) -> Array:
        """A circular buffer's numbers in destination registers, through a source register."""
        return formats.in_source(values, dtype, self.wide)
