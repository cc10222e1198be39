"""Matrix products against the matrix unit of one tile, instruction by instruction."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.device.fpu import PHASES, Adder, multiply_accumulate
from optimizer.kernels.tensix.rounding import Array, round_bf16
from optimizer.precision.blocks import TILE, Blocks
from optimizer.values.emulation.products import DEPTH, Sums, product

BF16 = (DType.BF16, DType.BF16)
ROWS, COLUMNS, DEEP = 64, 48, 256


def operands(offset: float = 0.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    a = rng.standard_normal((ROWS, DEEP)) + offset
    b = rng.standard_normal((DEEP, COLUMNS)) + offset
    return round_bf16(a.astype(np.float32)), round_bf16(b.astype(np.float32))


def by_instructions(a: Array, b: Array, phases: int, wide: bool) -> Array:
    """Tile after tile, phase after phase, the halves of the depth one after the other."""
    held = np.zeros((ROWS, COLUMNS), np.float32)
    for tile in range(0, DEEP, TILE):
        for phase in range(phases):
            for first in range(tile, tile + TILE, DEPTH):
                taken = slice(first, first + DEPTH)
                for column in range(0, COLUMNS, DEPTH):
                    these = slice(column, column + DEPTH)
                    held[:, these] = multiply_accumulate(
                        held[:, these], a[:, taken], b[taken, these], phase, Adder(wide)
                    )
    return held


def error(found: Array, a: Array, b: Array) -> tuple[float, float]:
    """Gain, and the variance of the rest."""
    exact = a.astype(np.float64) @ b.astype(np.float64)
    gain = float((found * exact).sum() / (exact**2).sum())
    return gain - 1, float(((found - gain * exact) ** 2).sum() / (exact**2).sum())


@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi2", "HiFi4"])
@pytest.mark.parametrize("offset", [0.0, 0.5])
def test_sums_of_16_bits_err_as_the_unit_does(fidelity: str, offset: float) -> None:
    a, b = operands(offset)
    gain, variance = error(product(a, b, BF16, Sums(fidelity, False))[0], a, b)
    true_gain, true_variance = error(by_instructions(a, b, PHASES[fidelity], False), a, b)
    assert gain == pytest.approx(true_gain, abs=0.05 * np.sqrt(true_variance))
    assert variance == pytest.approx(true_variance, rel=0.08)


@pytest.mark.parametrize("fidelity", ["LoFi", "HiFi2", "HiFi3", "HiFi4"])
def test_sums_of_32_bits_are_the_units_but_for_its_alignment(fidelity: str) -> None:
    a, b = operands()
    found, true = product(a, b, BF16, Sums(fidelity, True)), by_instructions(a, b, PHASES[fidelity], True)
    assert float(((found - true) ** 2).mean() / (true**2).mean()) < 2e-7


def test_single_products_are_within_a_unit() -> None:
    a, b = operands()
    a, b = a[:, :DEPTH].copy(), b[:DEPTH].copy()
    a[:, 1:], b[1:] = 0.0, 0.0
    held = np.concatenate(
        [
            multiply_accumulate(np.zeros((ROWS, 16), np.float32), a, b[:, c : c + 16], 0, Adder(False))
            for c in (0, 16, 32)
        ],
        axis=1,
    )
    found = product(a, b, BF16, Sums("LoFi", False))[0]
    assert np.allclose(found, held, rtol=2**-7, atol=0)
    assert (found == held).mean() > 0.9


def test_partial_sums_that_the_packer_adds_err_less() -> None:
    a, b = operands()
    alone, added = (product(a, b, BF16, Sums("HiFi2", False, Blocks(1, adds, True)))[0] for adds in (False, True))
    assert error(added, a, b)[1] < error(alone, a, b)[1]
    assert np.array_equal(alone, product(a, b, BF16, Sums("HiFi2", False))[0])


def test_products_of_several_matrices() -> None:
    a, b = operands()
    stacked = np.stack([a, 2 * a]), np.stack([b, b])
    found = product(*stacked, BF16, Sums("HiFi2", False))
    assert np.array_equal(found[1], 2 * found[0])
    assert np.array_equal(found[0], product(a, b, BF16, Sums("HiFi2", False))[0])
