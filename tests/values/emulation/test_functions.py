"""Functions of the vector unit."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.families.elementwise.reference import UNARY
from optimizer.kernels.tensix.rounding import round_bf16
from optimizer.values.emulation.functions import (
    IN_16_BITS,
    activation,
    applied,
    computed,
    exp_approximate,
    exp_of_16_bits,
    rsqrt_approximate,
)
from optimizer.values.emulation.units import Units

NUMBERS = round_bf16(np.linspace(-8, 8, 4099, dtype=np.float32))


def test_a_table_of_bf16_numbers_gives_what_the_function_gives() -> None:
    spread = np.random.default_rng(0).permutation(np.tile(NUMBERS, 40))
    for x in (NUMBERS, spread):  # small and large: by the numbers that occur, and by all
        assert np.array_equal(applied(np.sin, x), np.sin(x.astype(np.float64)).astype(np.float32))


def test_the_exponential_of_16_bits() -> None:
    x = np.linspace(-80, 80, 10_001)
    assert np.abs(exp_of_16_bits(x) / np.exp(x) - 1).max() == pytest.approx(0.0017, abs=0.0002)
    assert exp_of_16_bits(np.array([-1e9])).max() < 1e-37


def test_approximate_functions() -> None:
    x = np.linspace(-8, 0, 4001)
    assert np.abs(exp_approximate(x) / np.exp(x) - 1).max() == pytest.approx(0.04, abs=0.015)
    x = np.geomspace(1e-6, 1e6, 4001)
    assert np.abs(rsqrt_approximate(x) * np.sqrt(x) - 1).max() == pytest.approx(0.0009, abs=0.0002)


@pytest.mark.parametrize("name", IN_16_BITS)
def test_kernels_of_16_bits_are_near_the_function(name: str) -> None:
    narrow, wide = (computed(Units("HiFi4", w), NUMBERS, name, UNARY[name]) for w in (False, True))
    assert np.abs(narrow - wide).max() <= 2**-8 * np.maximum(1, np.abs(wide)).max()
    assert not np.array_equal(narrow, wide)


def test_results_of_16_bits_are_rounded_to_the_nearest_or_cut_off() -> None:
    units, x = Units("HiFi4", False), round_bf16(np.array([0.7], np.float32))
    exact = np.array([0.7 * 0.7], np.float32) * 0 + x * x
    assert computed(units, x, "square", np.square) == round_bf16(exact)
    assert computed(units, x, "pow_scalar", np.square) == (exact.view(np.uint32) & np.uint32(0xFFFF0000)).view(
        np.float32
    )


def test_no_activation_changes_nothing() -> None:
    assert activation(Units("HiFi4", False), NUMBERS, None) is NUMBERS
    assert activation(Units("HiFi4", False), NUMBERS, "relu").min() == 0
