"""The matrix unit: phases of products, sums of eight, roundings in DST."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.kernels.tensix.device.fpu import PHASES, Adder, added, multiplied, multiply_accumulate
from optimizer.kernels.tensix.rounding import Array

WIDE, NARROW = Adder(True), Adder(False)


def one(value: float) -> Array:
    return np.array([[value]], np.float32)


@pytest.mark.parametrize(
    ("fidelity", "product"),
    [("LoFi", 1.0), ("HiFi2", 1 + 2**-7), ("HiFi3", (1 + 2**-7) + 2**-7), ("HiFi4", (1 + 2**-7) ** 2)],
)
def test_a_phase_brings_the_lower_bits_of_one_factor(fidelity: str, product: float) -> None:
    """1 + 2^-7 has its lowest bit beyond the 5 bits of source A and beyond the 7 of source B."""
    factor = one(1 + 2**-7)
    assert multiplied(factor, factor, PHASES[fidelity], WIDE)[0, 0] == np.float32(product)


def test_a_small_addend_is_rounded_to_the_last_of_eleven_bits() -> None:
    assert added(one(1.0), one(2**-11), WIDE)[0, 0] == 1 + 2**-10
    assert added(one(1.0), one(2**-12), WIDE)[0, 0] == 1.0
    assert added(one(1.0), one(-1.0), WIDE)[0, 0] == 0.0


def test_a_dst_of_16_bits_rounds_ties_away_from_zero() -> None:
    assert added(one(1.0), one(2**-8), NARROW)[0, 0] == 1 + 2**-7
    assert added(one(-1.0), one(-(2**-8)), NARROW)[0, 0] == -(1 + 2**-7)


def test_a_wormhole_makes_another_power_of_two_of_a_sum_of_minus_one_in_the_last_place() -> None:
    """1 in DST, and -(1 + 2^-23) in eight products: their sum at the exponent of 1 is -1 in the last place."""
    factors = np.zeros((1, 16), np.float32)
    factors[0, 0] = -1.0
    held, ones = one(1 - 2**-23), np.ones((16, 1), np.float32)
    right = multiply_accumulate(held, factors, ones, 0, Adder(True, least_slips=False))[0, 0]
    slipped = multiply_accumulate(held, factors, ones, 0, Adder(True))[0, 0]
    assert right == -(2.0**-23)
    assert slipped == -16.0
