"""How near the emulation of a case comes to what the simulator gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.emulation.cases import Case
from benchmarks.emulation.recording import Arrays
from optimizer.ir.dtype import DType
from optimizer.values.emulation.emulated import emulated
from optimizer.values.reference import reference

_BITS = {DType.BF16: 8, DType.BFP8_B: 7, DType.BFP4_B: 3, DType.F32: 24}
"""Bits of a significand; of block formats of the largest of a block."""
_BLOCK = 16


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
    between: float
    """Root mean square of the difference over that of the device's error."""

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
    sums = reference(case.query, operands)[0].terms > 1
    wrong = np.where(same, 0.0, a - exact)
    size = float(np.sqrt(((a - exact)[np.isfinite(a - exact)] ** 2).mean())) if wrong.size else 0.0
    between = float(np.sqrt((difference**2).mean())) / size if size else float(difference.max(initial=0) > 0)
    return Measured(
        float(same.mean()), float((difference / unit(got, dtype, sums)).max(initial=0)), error_of(got, exact),
        error_of(made, exact), between,
    )  # fmt: skip
