"""An error budget in numbers: correlations, errors, units."""

from __future__ import annotations

import pytest

from optimizer.errors import OptionError
from optimizer.precision.budget import UNITS, ErrorBudget, error_of_pcc, pcc_of_error


@pytest.mark.parametrize("pcc", [0.5, 0.9, 0.99, 0.99999])
def test_errors_and_correlations_are_two_names_of_the_same(pcc: float) -> None:
    assert pcc_of_error(error_of_pcc(pcc)) == pytest.approx(pcc)


def test_an_error_of_the_whole_budget_takes_all_units() -> None:
    budget = ErrorBudget(0.99, {"v": 2.0})

    assert budget.units("v", budget.most_error / 2.0) == UNITS == budget.capacity


def test_units_are_rounded_up() -> None:
    assert ErrorBudget(0.99, {"v": 1.0}).units("v", 1e-15) == 1


def test_a_value_that_reaches_no_output_adds_nothing() -> None:
    assert ErrorBudget(0.99, {}).units("v", 1.0) == 0


def test_a_correction_scales_all_errors() -> None:
    assert ErrorBudget(0.99, {"v": 1.0}, scale=3.0).error("v", 0.5) == 1.5


@pytest.mark.parametrize("pcc", [0.3, 1.0, 1.5])
def test_a_budget_that_says_nothing_is_refused(pcc: float) -> None:
    with pytest.raises(OptionError, match="least_pcc"):
        ErrorBudget(pcc)
