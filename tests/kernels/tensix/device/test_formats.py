"""Unpackers and packers: what is kept of numbers between L1, source registers and DST."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.formats import in_dst, in_source, packed
from optimizer.kernels.tensix.rounding import Array


def row(*values: float) -> Array:
    """Sixteen numbers, zeros after those that are given."""
    return np.array([*values, *[0.0] * (16 - len(values))], np.float32)[None, :]


@pytest.mark.parametrize(("wide", "kept"), [(True, 1 + 2**-10), (False, 1.0)])
def test_float32_is_cut_off_in_a_source_register(wide: bool, kept: float) -> None:
    given = row(1 + 2**-10 + 2**-11, -(1 + 2**-10 + 2**-11))
    assert in_source(given, DType.F32, wide)[0, :2].tolist() == [kept, -kept]


def test_what_goes_straight_to_dst_is_not_cut_off() -> None:
    given = row(1 + 2**-23)
    assert (in_dst(given, DType.F32, wide=True, straight=True) == given).all()
    assert in_dst(given, DType.F32, wide=True, straight=False)[0, 0] == 1.0


def test_the_packer_rounds_32_bits_to_bf16_away_from_zero() -> None:
    tie = 1 + 2**-8  # between 1 and 1 + 2^-7, where 1 is even
    assert packed(row(tie, -tie), True, DType.BF16)[0, :2].tolist() == [1 + 2**-7, -(1 + 2**-7)]


def test_zero_has_a_sign_in_32_bits_only() -> None:
    assert np.signbit(packed(row(-0.0), True, DType.F32)[0, 0])
    for wide, dtype in ((False, DType.F32), (True, DType.BF16), (False, DType.BFP8_B)):
        assert not np.signbit(packed(row(-0.0), wide, dtype)[0, 0])


def test_block_floats_round_ties_away_from_zero_and_cut_off_for_four_bits() -> None:
    """64 is the largest: 7 bits below its exponent are steps of 1, 3 bits steps of 16."""
    given = row(64.0, 2.5, -2.5, 31.0, -15.0, 127.0)
    assert packed(given, False, DType.BFP8_B)[0, :6].tolist() == [64.0, 3.0, -3.0, 31.0, -15.0, 127.0]
    assert packed(given, False, DType.BFP4_B)[0, :6].tolist() == [64.0, 0.0, 0.0, 16.0, 0.0, 112.0]
