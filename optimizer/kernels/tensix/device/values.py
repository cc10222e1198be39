"""What one tile op leaves in DST, in the form in which it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.compute_config import compute_config
from optimizer.kernels.tensix.device import sfpu
from optimizer.kernels.tensix.device.formats import UPPER_16, UPPER_19, in_dst, in_source, truncated, without_denormals
from optimizer.kernels.tensix.device.fpu import PHASES, Adder, added, multiplied, multiply_accumulate
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.rounding import Array
from optimizer.kernels.tensix.tile_forms import Form, Place, Unit
from optimizer.kernels.tensix.tile_meanings import repeated
from optimizer.kernels.tensix.tile_ops import TileOp
from optimizer.kernels.tensix.types import TILE

FACE = 16
"""Rows and columns of a face, four of which make a tile; the FPU multiplies faces."""


@dataclass(frozen=True)
class Operand:
    """A tile that an op reads."""

    tile: Array
    dtype: DType
    """Element type of its circular buffer; of one in DST, of the op's buffer, in whose registers it goes."""
    straight: bool = False
    """Unpacked to DST past the source registers."""


@dataclass(frozen=True)
class Units:
    """How the host has set a kernel's units."""

    wide: bool
    """DST has 32 bits."""
    phases: int
    """Passes of the FPU over a product."""
    least_slips: bool = True
    """A Wormhole's FPU takes a sum of -1 in the last place for another power of two (tenstorrent/tt-metal #38306)."""
    signless_sums: bool = True
    """A zero that a Wormhole's SFPU adds up has no sign; a Blackhole's is that of IEEE 754."""

    @staticmethod
    def of(program: Op, arch: str) -> Units:
        """As a program is compiled for an architecture."""
        config = compute_config(program, arch)
        wormhole = arch == "wormhole_b0"
        return Units(config.fp32_dest_acc_en, PHASES[config.math_fidelity], wormhole, wormhole)

    def result(
        self, op: TileOp, form: Form, operands: Sequence[Operand], numbers: Mapping[str, float], held: Array | None
    ) -> Array:
        """The tile in DST. `held`: what the slot holds of an accumulating op."""
        if form.unit is Unit.SFPU:
            value = sfpu.computed(op, [x.tile for x in operands], numbers)
            signless = op.name in sfpu.PRODUCTS or (self.signless_sums and op.name in sfpu.SUMS)
            return sfpu.stored(value, self.wide, sfpu.rounds(op.name, form), signless)
        if form.unit is Unit.UNPACK:
            (x,) = operands
            return op.evaluate([in_dst(x.tile, x.dtype, self.wide, x.straight)], numbers)
        sources = [self._source(x, place) for x, place in zip(operands, form.places, strict=True)]
        if op.accumulates:
            return self._accumulated(op.name, sources[0], sources[1], operands[0].dtype, held)
        kind, *how = op.name.split("_bcast_")
        first, second = sources[0], repeated(how[0], sources[1]) if how else sources[1]
        if kind == "mul":
            return multiplied(first, second, self.phases, self._adder)
        return added(first, -second if kind == "sub" else second, self._adder)

    @property
    def _adder(self) -> Adder:
        return Adder(self.wide, self.least_slips)

    def _source(self, x: Operand, place: Place) -> Array:
        """An operand in its source register; DST goes there at the width of the op's buffer."""
        if place is Place.CB:
            return in_source(x.tile, x.dtype, self.wide)
        return without_denormals(truncated(x.tile, self._kept(x.dtype)))

    def _kept(self, dtype: DType) -> np.uint32:
        """Bits of DST that a source register takes while it is set to an element type."""
        return UPPER_19 if self.wide and dtype is DType.F32 else UPPER_16

    # -- sums ----------------------------------------------------------------------------------------------
    def _accumulated(self, name: str, first: Array, second: Array, dtype: DType, held: Array | None) -> Array:
        total = np.zeros((TILE, TILE), np.float32) if held is None else held.copy()
        if name.startswith("matmul"):
            return self._product(total, first, second.T if name == "matmul_t" else second)
        _, kind, axis = name.split("_")
        scaler = np.full((FACE, FACE), second[0, 0], np.float32)
        if kind == "max":
            return self._largest(axis, first, held)
        if axis == "row":
            return self._sum_of_rows(total, first, scaler)
        if axis == "col":
            return self._sum_of_columns(total, first, scaler)
        return self._sum_of_all(total, first, scaler, dtype)

    def _product(self, total: Array, first: Array, second: Array) -> Array:
        """total + first @ second: phase after phase, and in each the two halves of the depth one after the other."""
        for phase in range(self.phases):
            for depth in _halves():
                for columns in _halves():
                    total[:, columns] = multiply_accumulate(
                        total[:, columns], first[:, depth], second[depth, columns], phase, self._adder
                    )
        return total

    def _sum_of_rows(self, total: Array, x: Array, scaler: Array) -> Array:
        """A product with the scaler, of which the first column is kept."""
        for phase in range(self.phases):
            for depth in _halves():
                total[:, :1] = multiply_accumulate(total[:, :1], x[:, depth], scaler[:, :1], phase, self._adder)
        return total

    def _sum_of_columns(self, total: Array, x: Array, scaler: Array) -> Array:
        """Face after face, each with all phases."""
        for rows in _halves():
            for columns in _halves():
                total[:1, columns] = self._pooled(total[:1, columns], x[rows, columns], scaler)
        return total

    def _sum_of_all(self, total: Array, x: Array, scaler: Array, dtype: DType) -> Array:
        """Columns of all faces, then their sums once more, which go through a source register in between."""
        row = np.zeros((1, FACE), np.float32)
        for rows in _halves():
            for columns in _halves():
                row = self._pooled(row, x[rows, columns], scaler)
        again = np.ascontiguousarray(without_denormals(truncated(row, self._kept(dtype))).T)
        total[:1, :1] = self._pooled(total[:1, :1], again, scaler)
        return total

    def _pooled(self, held: Array, face: Array, scaler: Array) -> Array:
        for phase in range(self.phases):
            held = multiply_accumulate(held, scaler[:1], face, phase, self._adder)
        return held

    def _largest(self, axis: str, x: Array, held: Array | None) -> Array:
        """Maxima, exact: sources hold no more than DST. What DST of 32 bits held is cut off at 19."""
        made = np.zeros((TILE, TILE), np.float32)
        where: tuple[slice, slice] = {
            "row": (slice(None), slice(1)), "col": (slice(1), slice(None)), "scalar": (slice(1), slice(1)),
        }[axis]  # fmt: skip
        over = {"row": (1,), "col": (0,), "scalar": (0, 1)}[axis]
        found = x.max(axis=over, keepdims=True)
        made[where] = found if held is None else np.maximum(found, truncated(held, UPPER_19)[where])
        return made


def _halves() -> tuple[slice, slice]:
    return slice(FACE), slice(FACE, TILE)
