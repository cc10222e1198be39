"""How near the emulation of a case comes to what the simulator gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulation_cases.cases import Case
from emulation_cases.recording import Arrays
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.values.emulation.emulated import emulated
from optimizer.values.reference import reference

_BITS = {DType.BF16: 8, DType.BFP8_B: 7, DType.BFP4_B: 3, DType.F32: 11}
"""Bits of a significand; of block formats of the largest of a block, of f32 what a source register holds."""
_BLOCK = 16
GAIN_APART, GAIN_OF_ERROR = 3e-4, 0.07
"""How far gains may be apart, whatever the error, and as a share of its root mean square."""
VARIANCES_APART = 1.25
"""Factor by which variances of errors may differ."""
LEFT_OUT = 1.2e-7
"""Variance of what the emulation leaves out: in sums of 32 bits, that eight products are added at the exponent of the
largest."""


@dataclass(frozen=True)
class Error:
    """Against float64."""

    gain: float
    variance: float

    def __str__(self) -> str:
        return f"{self.gain:+.5f}/{self.variance:.2e}"


@dataclass(frozen=True)
class Measured:
    """A case in both."""

    equal: float
    """Share of the elements that are the same."""
    units: float
    """Largest difference, in units of the last place of the result's element type; of block formats relative to the
    largest of a block."""
    device: Error
    emulation: Error
    allowed: int
    """Units that are expected: one, two of functions of the vector unit, whose polynomials are not all modelled."""
    between: float
    """Root mean square of the difference over that of the device's error."""

    @property
    def agrees(self) -> bool:
        """Every element within the units that are allowed, or the error's statistics the same.

        Where sums are made in another order, single elements differ by chance.
        """
        if self.units <= self.allowed:
            return True
        size = self.device.variance**0.5
        near = abs(self.emulation.gain - self.device.gain) <= max(GAIN_APART, GAIN_OF_ERROR * size)
        low, high = sorted((self.emulation.variance, self.device.variance))
        return bool(near and high <= VARIANCES_APART * low + LEFT_OUT)

    def record(self) -> dict[str, object]:
        """Plain data, rounded."""
        numbers = {
            "equal": self.equal, "units": self.units, "between": self.between, "gain": self.device.gain,
            "variance": self.device.variance, "emulated_gain": self.emulation.gain,
            "emulated_variance": self.emulation.variance,
        }  # fmt: skip
        return {name: float(f"{number:.4g}") for name, number in numbers.items()}

    def __str__(self) -> str:
        return (
            f"equal {self.equal:.4f} units {self.units:8.2f} sim {self.device} emu {self.emulation} "
            f"diff {self.between:.3f}"
        )


def error_of(got: NDArray[Any], exact: NDArray[Any]) -> Error:
    """A gain, and the rest of the error, as `precision.Noise` has them."""
    x, y = exact.astype(np.float64).ravel(), got.astype(np.float64).ravel()
    kept = np.isfinite(x) & np.isfinite(y)
    x, y = x[kept], y[kept]
    size = float(x @ x)
    if not size:
        return Error(0.0, float(y @ y))
    gain = float(x @ y) / size
    rest = y - gain * x
    return Error(gain - 1, float(rest @ rest) / size)


def unit(values: NDArray[Any], dtype: DType, sums: bool) -> NDArray[np.float64]:
    """One unit in the last place of every element; of `sums`, at least of one of usual size."""
    size = np.abs(values).astype(np.float64)
    if dtype.is_block_float:
        width = size.shape[-1]
        size = np.pad(size, [(0, 0)] * (size.ndim - 1) + [(0, -width % _BLOCK)])
        blocks = size.reshape(*size.shape[:-1], -1, _BLOCK)
        size = np.broadcast_to(blocks.max(axis=-1, keepdims=True), blocks.shape).reshape(size.shape)[..., :width]
    size = np.maximum(size, np.sqrt((size[np.isfinite(size)] ** 2).mean())) if sums else size
    if not dtype.is_float:
        return np.ones_like(size)
    return np.ldexp(1.0, np.frexp(size)[1] - _BITS[dtype])


def measured(case: Case, operands: Arrays, results: Arrays) -> Measured:
    """The first result of a case."""
    got = results[0]
    made = emulated(case.query, operands)[0]
    exact = reference(case.query, operands)[0].value
    if made.shape != got.shape:
        raise ValueError(f"shape {made.shape}, not {got.shape}")
    a, b = got.astype(np.float64), made.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    difference = np.where(same, 0.0, np.abs(a - b))
    dtype = case.result
    sums = opdef(case.query.op).cost_class is not CostClass.ELTWISE
    wrong = np.where(same, 0.0, a - exact)
    size = float(np.sqrt(((a - exact)[np.isfinite(a - exact)] ** 2).mean())) if wrong.size else 0.0
    between = float(np.sqrt((difference**2).mean())) / size if size else float(difference.max(initial=0) > 0)
    return Measured(
        float(same.mean()), float((difference / unit(got, dtype, sums)).max(initial=0)), error_of(got, exact),
        error_of(made, exact), 2 if opdef(case.query.op).cost_class is CostClass.ELTWISE else 1, between,
    )  # fmt: skip
