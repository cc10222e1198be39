"""Magic numbers against division itself."""

from __future__ import annotations

import pytest
from gfx942.expr.division import Magic, narrow_magic, wide_magic
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import StateError
from tests.samples import examples


def quotient(x: int, magic: Magic) -> int:
    multiplier = magic.multiplier + (magic.add << 32)
    return x * multiplier >> magic.power


def hard_numbers(divisor: int, high: int) -> list[int]:
    last = high // divisor * divisor
    near = [divisor, 2 * divisor, last, high + 1]
    return [x for n in near for x in (n - 1, n) if 0 <= x <= high]


@pytest.mark.parametrize("high", [1, 6, 63, 100, 1000, 4095])
def test_small_divisions_are_exact(high: int) -> None:
    for divisor in range(2, 130):
        for magic in (narrow_magic(divisor, high), wide_magic(divisor, high)):
            assert magic is not None
            assert all(quotient(x, magic) == x // divisor for x in range(high + 1))


@given(st.integers(2, 2**32 - 1), st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(300), deadline=None)
def test_large_divisions_are_exact(divisor: int, high: int, x: int) -> None:
    magic = wide_magic(divisor, high)
    assert magic.multiplier < 2**32
    assert all(quotient(n, magic) == n // divisor for n in (*hard_numbers(divisor, high), x % (high + 1)))


@given(st.integers(2, 2**24), st.integers(1, 2**24 - 1))
@settings(max_examples=examples(300), deadline=None)
def test_narrow_products_fit_the_word(divisor: int, high: int) -> None:
    magic = narrow_magic(divisor, high)
    if magic is not None:
        assert magic.multiplier < 2**24
        assert magic.multiplier * high < 2**32
        assert all(quotient(n, magic) == n // divisor for n in hard_numbers(divisor, high))


def test_one_multiplication_where_the_range_allows_it() -> None:
    assert not wide_magic(7, 2**31).add
    assert wide_magic(7, 2**32 - 1).add


@pytest.mark.parametrize(("divisor", "high"), [(1, 5), (0, 5), (2**32, 5), (3, 0), (3, 2**32)])
def test_what_is_no_division_of_words_is_refused(divisor: int, high: int) -> None:
    with pytest.raises(StateError):
        wide_magic(divisor, high)
