"""Units on whole arrays against the units of one tile, which equal the simulator bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.formats import in_source
from optimizer.kernels.tensix.device.fpu import PHASES, Adder, added, multiplied
from optimizer.kernels.tensix.rounding import Array, round_bf16, rounded
from optimizer.values.emulation.units import Units, converted

BF16, F32 = DType.BF16, DType.F32


def numbers(dtype: DType, seed: int) -> Array:
    """Of many exponents, with zeros of both signs and equal magnitudes."""
    rng = np.random.default_rng(seed)
    made = (rng.standard_normal((64, 64)) * 4.0 ** rng.integers(-6, 6, (64, 64))).astype(np.float32)
    made[:, :2] = 0.0
    made[0, 2:8] = -0.0
    made[1] = np.float32(1.5)
    return round_bf16(made) if dtype is BF16 else in_source(made, F32, True)


@pytest.mark.parametrize("fidelity", PHASES)
@pytest.mark.parametrize(("wide", "dtype"), [(False, BF16), (True, BF16), (True, F32)])
def test_products_by_element(fidelity: str, wide: bool, dtype: DType) -> None:
    a, b = numbers(dtype, 1), numbers(dtype, 2)
    found = Units(fidelity, wide).times(a, b, (dtype, dtype))
    assert np.array_equal(found, multiplied(a, b, PHASES[fidelity], Adder(wide)))


@pytest.mark.parametrize(("wide", "dtype"), [(False, BF16), (True, BF16), (True, F32)])
def test_sums_by_element(wide: bool, dtype: DType) -> None:
    a, b = numbers(dtype, 1), numbers(dtype, 2)
    units = Units("HiFi4", wide)
    assert np.array_equal(units.plus(a, b, (dtype, dtype)), added(a, b, Adder(wide)))
    assert np.array_equal(units.minus(a, b, (dtype, dtype)), added(a, -b, Adder(wide)))


@pytest.mark.parametrize("dtype", [BF16, DType.BFP8_B, DType.BFP4_B, F32])
def test_what_the_host_stores(dtype: DType) -> None:
    values = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32)
    assert np.array_equal(converted(values, dtype), rounded(values, dtype))


def test_rows_that_are_no_whole_blocks_are_filled_with_zeros() -> None:
    values = np.random.default_rng(0).standard_normal((3, 21)).astype(np.float32)
    whole = np.pad(values, ((0, 0), (0, 11)))
    for dtype in (DType.BFP8_B, DType.BFP4_B):
        assert np.array_equal(converted(values, dtype), converted(whole, dtype)[:, :21])
        units = Units("HiFi4", True)
        assert np.array_equal(units.packed(values, dtype), units.packed(whole, dtype)[:, :21])


def test_the_packer_cuts_off_where_the_host_rounds() -> None:
    values = np.array([[1.0, *([0.7] * 15)]], np.float32)  # in steps of a quarter: 2.8
    assert converted(values, DType.BFP4_B)[0, 1] == 0.75
    assert Units("HiFi4", True).packed(values, DType.BFP4_B)[0, 1] == 0.5
