"""Moments of stored numbers against the numbers themselves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.formats import packed, truncated
from optimizer.kernels.tensix.rounding import rounded
from optimizer.precision.noise import packing_noise
from optimizer.precision.storing import EXACT, Noise, cutting_noise, rounding_noise

Array = NDArray[np.float32]
NUMBERS = np.random.default_rng(3).standard_normal((1024, 512)).astype(np.float32)


def measured(before: Array, after: Array) -> Noise:
    x, y = before.astype(np.float64), after.astype(np.float64)
    size = float((x * x).sum())
    gain = float((x * y).sum()) / size
    return Noise(gain - 1, float(((y - gain * x) ** 2).sum()) / size)


def close(stated: Noise, found: Noise) -> bool:
    """Within 5 % of the variance, and a gain within a tenth of the error's size."""
    near = abs(stated.gain - found.gain) <= 0.1 * np.sqrt(found.variance) + 1e-6
    return bool(near and 0.95 <= stated.variance / found.variance <= 1.05)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.BFP8_B, DType.BFP4_B])
@pytest.mark.parametrize(
    ("noise", "made"), [(rounding_noise, rounded), (packing_noise, lambda x, dtype: packed(x, True, dtype))]
)
def test_stored_numbers(noise: Callable[[DType], Noise], made: Callable[[Array, DType], Array], dtype: DType) -> None:
    found = measured(NUMBERS, made(NUMBERS, dtype))
    assert close(noise(dtype), found), found


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [(DType.BF16, 5), (DType.BF16, 7), (DType.BFP8_B, 5), (DType.F32, 5), (DType.F32, 7), (DType.F32, 10)],
)
def test_numbers_cut_off(dtype: DType, bits: int) -> None:
    held = rounded(NUMBERS, dtype)
    found = measured(held, truncated(held, np.uint32((0xFFFFFFFF << (24 - bits)) & 0xFFFFFFFF)))
    assert abs(cutting_noise(dtype, bits).gain / found.gain - 1) < 0.03
    assert abs(cutting_noise(dtype, bits).variance / found.variance - 1) < 0.08


@pytest.mark.parametrize(("dtype", "bits"), [(DType.BF16, 8), (DType.BFP8_B, 7), (DType.BFP4_B, 5)])
def test_what_fits_is_not_cut_off(dtype: DType, bits: int) -> None:
    held = rounded(NUMBERS, dtype)
    assert np.array_equal(truncated(held, np.uint32((0xFFFFFFFF << (24 - bits)) & 0xFFFFFFFF)), held)
    assert cutting_noise(dtype, bits) == EXACT


def test_one_error_after_another() -> None:
    first, second = Noise(0.1, 1e-4), Noise(-0.1, 2e-4)
    both = first.then(second)
    assert (both.gain, both.variance) == (pytest.approx(-0.01), pytest.approx(3e-4))


@pytest.mark.parametrize("dtype", [DType.BFP8_B, DType.BFP4_B])
@pytest.mark.parametrize("sharing", [1, 4])
def test_numbers_of_blocks_that_are_zero_otherwise(sharing: int, dtype: DType) -> None:
    apart = np.zeros((1024, 512), np.float32)
    apart.reshape(-1, 16)[:, :sharing] = NUMBERS.reshape(-1, 16)[:, :sharing]
    found = measured(apart, rounded(apart, dtype))
    stated = rounding_noise(dtype, sharing)
    assert stated.variance == pytest.approx(found.variance, rel=0.2 if sharing == 1 else 0.05), found
