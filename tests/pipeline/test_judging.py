"""The error of a plan that counts: that of the samples, and what other inputs may have."""

from __future__ import annotations

import pytest

from optimizer.pipeline.judging import Measured


@pytest.mark.parametrize(
    ("errors", "has_margin", "counts"),
    [
        ((0.01, 0.03, 0.02), False, 0.03),
        ((0.01,), True, 0.01),
        ((0.01,) * 8, True, 0.01),
        ((0.01, 0.011, 0.012, 0.01, 0.011, 0.012, 0.01, 0.011), True, 0.01513),
        ((0.005, 0.02, 0.01, 0.01, 0.005, 0.02, 0.01, 0.01), True, 0.0979),
        ((0.0, 0.001, 0.001, 0.0), True, 0.00457),
    ],
)
def test_what_other_inputs_may_have_counts_too(errors: tuple[float, ...], has_margin: bool, counts: float) -> None:
    assert Measured((), errors, has_margin).error == pytest.approx(counts, rel=0.01)
