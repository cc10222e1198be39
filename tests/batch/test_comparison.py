"""Pivot, Pareto front and failures of made-up records; the front against its definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.batch.comparison import failures, pareto, pivot


def record(model: str, policy: str, time_ns: int | None, peak_bytes: int = 0, board: str = "n150") -> dict[str, Any]:
    common = {"name": f"{model}-{policy}", "model": model, "board": board, "policy": policy}
    if time_ns is None:
        return {**common, "ok": False, "error": {"code": "infeasible", "message": f"{model} cannot run"}}
    return {**common, "ok": True, "predicted_time_ns": time_ns, "l1_peak_bytes": peak_bytes}


def test_a_pivot_has_a_row_per_model_and_a_column_per_point() -> None:
    records = [record("b", "dram", 100), record("b", "fast", 50), record("a", "dram", 300), record("a", "fast", 600)]
    found = pivot([*records, record("c", "fast", 7), record("c", "dram", None)], ["policy"])
    assert found.points == ("policy=dram", "policy=fast")
    assert found.rows == (("a", (300, 600)), ("b", (100, 50)), ("c", (None, 7)))


def test_ratios_are_geometric_means_of_models_that_have_both() -> None:
    records = [record("a", "dram", 100), record("a", "fast", 50), record("b", "dram", 100), record("b", "fast", 200)]
    found = pivot([*records, record("c", "dram", None), record("c", "fast", 1)], ["policy"])
    assert found.ratios == pytest.approx((1.0, 1.0))


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), max_size=12))
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]]) -> None:
    records = [record("m", str(n), *point) for n, point in enumerate(points)]
    kept = [(r["predicted_time_ns"], r["l1_peak_bytes"]) for r in pareto(records)]
    unbeaten = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    assert kept == sorted(unbeaten)


def test_boards_have_fronts_of_their_own() -> None:
    records = [record("m", "dram", 10, 5), record("m", "dram", 5, 5, board="p150")]
    assert [r["board"] for r in pareto(records)] == ["n150", "p150"]


def test_a_model_that_fails_alike_everywhere_is_told_once() -> None:
    records = [record("a", "dram", None), record("b", "dram", 1), record("a", "fast", None)]
    assert failures(records) == [("a", "a cannot run", 2)]
