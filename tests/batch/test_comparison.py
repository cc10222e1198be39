"""Pivot, Pareto front and failures of made-up records; the front against its definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.batch.comparison import failures, pareto, pivot

SWEEP = {"policy": ["dram", "fast"]}


def record(model: str, policy: str, time_ns: int | None, peak_bytes: int = 0, board: str = "n150") -> dict[str, Any]:
    common = {"name": f"{model}-{policy}", "model": model, "board": board, "policy": policy}
    if time_ns is None:
        return {**common, "ok": False, "error": {"code": "infeasible", "message": f"{model} cannot run"}}
    return {**common, "ok": True, "predicted_time_ns": time_ns, "l1_peak_bytes": peak_bytes}


def test_a_pivot_has_a_row_per_model_and_a_column_per_point() -> None:
    records = [record("b", "dram", 100), record("b", "fast", 50), record("a", "dram", 300), record("a", "fast", 600)]
    found = pivot([*records, record("c", "fast", 7), record("c", "dram", None)], SWEEP)
    assert found.points == ("policy=dram", "policy=fast")
    assert found.rows == (("a", (300, 600)), ("b", (100, 50)), ("c", (None, 7)))


def test_ratios_are_geometric_means_of_models_that_have_both() -> None:
    records = [record("a", "dram", 100), record("a", "fast", 50), record("b", "dram", 100), record("b", "fast", 200)]
    found = pivot([*records, record("c", "dram", None), record("c", "fast", 1)], SWEEP)
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
    assert failures(records) == [("a", (("a cannot run", 2),))]


def test_a_model_that_fails_in_several_ways_is_named_once() -> None:
    records = [record("a", "dram", None), record("b", "dram", None), record("a", "fast", None)]
    records[2]["error"] = {"code": "too-large", "message": "no room"}
    assert failures(records) == [("a", (("a cannot run", 1), ("no room", 1))), ("b", (("b cannot run", 1),))]


def test_the_first_point_is_that_of_the_sweep_whatever_ran_there() -> None:
    found = pivot([record("a", "fast", 1), record("a", "dram", None)], SWEEP)
    assert (found.points, found.rows) == (("policy=dram", "policy=fast"), (("a", (None, 1)),))
    assert found.ratios == (None, None)


def test_mappings_are_points_too() -> None:
    sweep = {"dims": [{"batch": 1}, {"batch": 8}]}
    records = [record("a", "fast", 2 + batch["batch"]) | {"dims": batch} for batch in sweep["dims"]]
    assert pivot(records, sweep).points == ("dims=batch=1", "dims=batch=8")
    assert pivot(records, sweep).rows == (("a", (3, 10)),)
