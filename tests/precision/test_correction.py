"""Which scale of the sensitivities is tried next."""

from __future__ import annotations

from math import sqrt

import pytest

from optimizer.precision.correction import FARTHEST, MARGIN, Trial, next_scale

MOST = 0.02


def test_a_first_miss_is_corrected_by_what_it_missed_by() -> None:
    assert next_scale([Trial(1.0, 0.02, 0.03)], MOST) == pytest.approx(1.5 * MARGIN)


def test_two_misses_are_extended_to_where_the_budget_is_met() -> None:
    """The error falls with the root of the scale here."""
    trials = [Trial(scale, 0.02, 0.03 / sqrt(scale)) for scale in (1.0, 1.5)]
    found = next_scale(trials, MOST)
    assert found is not None
    assert 0.03 / sqrt(found) == pytest.approx(MOST / MARGIN)


@pytest.mark.parametrize("fallen", [1e-3, 1e-12])
def test_misses_that_hardly_fall_are_not_extended_without_end(fallen: float) -> None:
    found = next_scale([Trial(1.0, 0.02, 0.03), Trial(1.5, 0.02, 0.03 * (1 - fallen))], MOST)
    assert found == pytest.approx(1.5 * FARTHEST)


def test_misses_that_rise_are_corrected_by_the_last() -> None:
    found = next_scale([Trial(1.0, 0.02, 0.03), Trial(1.5, 0.02, 0.04)], MOST)
    assert found == pytest.approx(1.5 * 2 * MARGIN)


def test_between_a_miss_and_a_plan_within_the_budget_the_middle_is_tried() -> None:
    trials = [Trial(1.0, 0.02, 0.033), Trial(1.75, 0.017, 0.007)]
    assert next_scale(trials, MOST) == pytest.approx(sqrt(1.75))


def test_a_correction_that_lies_between_is_taken() -> None:
    trials = [Trial(1.0, 0.02, 0.033), Trial(1.75, 0.0195, 0.015)]
    assert next_scale(trials, MOST) == pytest.approx(1.75 * 0.015 / 0.0195 * MARGIN)


def test_much_room_that_was_expected_to_be_used_lowers_the_scale() -> None:
    assert next_scale([Trial(1.0, 0.02, 0.005)], MOST) == pytest.approx(0.25 * MARGIN)


def test_room_that_nothing_wants_ends_the_search() -> None:
    assert next_scale([Trial(1.0, 0.001, 0.003)], MOST) is None


def test_a_miss_above_a_plan_within_the_budget_ends_the_search() -> None:
    assert next_scale([Trial(1.0, 0.02, 0.01), Trial(0.6, 0.02, 0.03), Trial(1.2, 0.02, 0.021)], MOST) is None
