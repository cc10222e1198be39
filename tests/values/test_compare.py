"""Figures of agreement."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.errors import ShapeError
from optimizer.values.compare import compare

X = np.linspace(-2, 3, 101)


def test_equal_values_agree() -> None:
    found = compare(X, X)

    assert (found.pcc, found.relative_error, found.ratio, found.largest_error) == (1.0, 0.0, 1.0, 0.0)


def test_a_gain_shows_in_the_ratio_and_not_in_the_pcc() -> None:
    found = compare(1.54 * X, X)

    assert found.pcc == pytest.approx(1.0)
    assert found.ratio == pytest.approx(1.54)
    assert found.relative_error == pytest.approx(0.54)
    assert not found.acceptable(0.99, 0.1)


def test_an_offset_shows_in_the_error() -> None:
    found = compare(X + 1, X)

    assert found.pcc == pytest.approx(1.0)
    assert found.largest_error == pytest.approx(1.0)


def test_what_is_not_a_number_is_never_acceptable() -> None:
    broken = X.copy()
    broken[3] = np.nan

    assert not compare(broken, X).acceptable(0.0, np.inf)


def test_constants_have_no_correlation() -> None:
    assert compare(np.ones(4), np.ones(4)).pcc == 1.0
    assert compare(np.ones(4), np.zeros(4)).pcc == 0.0


def test_equal_infinities_agree() -> None:
    masked = np.where(X > 0, X, -np.inf)

    assert compare(masked, masked).acceptable(1.0, 0.0)


def test_shapes_must_be_equal() -> None:
    with pytest.raises(ShapeError, match="101"):
        compare(X, X[None])


def test_few_numbers_are_judged_by_their_error_and_not_by_their_correlation() -> None:
    turned = compare(np.array([0.99, 1.0]), np.array([1.0, 0.99]))
    wrong = compare(np.array([1.0, 4.0]), np.array([1.0, 2.0]))

    assert turned.pcc == -1.0
    assert turned.acceptable(0.99, 0.1)
    assert wrong.pcc == 1.0
    assert wrong.as_pcc() == pytest.approx(1 / np.sqrt(1 + 4 / 5))
    assert not wrong.acceptable(0.99, np.inf)


def test_equal_numbers_are_judged_by_their_error() -> None:
    constant = np.full(64, 3.1)

    near = compare(np.full(64, 3.09375), constant)

    assert near.as_pcc() == pytest.approx(1 / np.sqrt(1 + (0.00625 / 3.1) ** 2))
    assert compare(np.full(64, 3.1), constant).as_pcc() == 1.0
