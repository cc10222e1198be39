"""Constants that turn a division by a constant into a multiplication and a shift.

Source: Granlund and Montgomery, "Division by Invariant Integers using Multiplication" (PLDI 1994); Warren, "Hacker's
Delight", chapter 10. With `m = ceil(2^p / d)` and `e = m*d - 2^p`,

    floor(x*m / 2^p) == floor(x/d)   for 0 <= x <= high

if and only if `(x mod d) * 2^p + x*e < d * 2^p` for all those `x`. It is hardest for the greatest `x` of remainder
`d - 1` and, where `high` ends within a period, for `high` itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.errors import StateError

WORD = 32
NARROW = 24
"""Bits of each factor of the fast vector multiplication."""


@dataclass(frozen=True, slots=True)
class Magic:
    """`floor(x/d) == x * multiplier >> power`. `add`: the multiplier has a 33rd bit, which is left out."""

    multiplier: int
    power: int
    add: bool = False


def narrow_magic(divisor: int, high: int) -> Magic | None:
    """For a product of 24-bit factors that fits 32 bits; None where there is none."""
    if high >= 1 << NARROW:
        return None
    return next((m for m in _candidates(divisor, high, range(WORD)) if _is_narrow(m, high)), None)


def _is_narrow(magic: Magic, high: int) -> bool:
    return magic.multiplier < 1 << NARROW and magic.multiplier * high < 1 << WORD


def wide_magic(divisor: int, high: int) -> Magic:
    """For the high word of a 32 x 32 bit product; with `add` for divisors that need 33 bits.

    StateError for divisors and ranges that are none: `divisor` is from 2 to 2^32 - 1, `high` below 2^32.
    """
    if not 2 <= divisor < 1 << WORD or not 0 < high < 1 << WORD:
        raise StateError(f"division of 0..{high} by {divisor} is not one of unsigned words")
    powers = range(WORD, 2 * WORD)
    found = next((m for m in _candidates(divisor, high, powers) if m.multiplier < 1 << WORD), None)
    if found is not None:
        return found
    magic = next(m for m in _candidates(divisor, high, powers) if m.multiplier < 1 << (WORD + 1))
    return Magic(magic.multiplier - (1 << WORD), magic.power, add=True)


def _candidates(divisor: int, high: int, powers: range) -> Iterator[Magic]:
    hardest = [x for x in (high - (high + 1) % divisor, high) if x >= 0]
    for power in powers:
        multiplier = -(-(1 << power) // divisor)
        excess = multiplier * divisor - (1 << power)
        if all((x % divisor << power) + x * excess < divisor << power for x in hardest):
            yield Magic(multiplier, power)
