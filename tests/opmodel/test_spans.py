"""80 % intervals: of ops and plans from spans by kind of program, and that every kind has one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from optimizer.device import DeviceSpec
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.formulas import FORMULAS
from optimizer.opmodel.analytical.timing import spans
from optimizer.opmodel.base import Bound, CostPart, OpCost
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.spans import Interval, Span, of_op, of_plan, spans_of
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.wording.plan import figures

GRAPHS = Path(__file__).resolve().parents[2] / "fixtures" / "graphs"

KNOWN = SimpleNamespace(spans={"conv": Span(0.8, 1.3), "halo": Span(0.6, 1.4), "networks": Span(1.0, 1.0)})
SILENT = SimpleNamespace()


def _cost(*parts: tuple[str, float]) -> OpCost:
    return OpCost(round(sum(ns for _, ns in parts)), Bound.NOC, parts=tuple(CostPart(n, ns, 0.0) for n, ns in parts))


def test_programs_of_one_kind_are_off_together() -> None:
    assert of_op(_cost(("conv", 600.0), ("conv", 400.0)), KNOWN) == Interval(800, 1300)


def test_kinds_are_off_independently() -> None:
    # 200 and 30 ns below, 300 and 40 ns above: a right triangle's long side
    found = of_op(_cost(("conv", 1000.0), ("halo", 375.0)), KNOWN)
    assert found == Interval(round(1375 - (200**2 + 150**2) ** 0.5), round(1375 + (300**2 + 150**2) ** 0.5))


def test_a_plan_is_off_by_what_whole_networks_show_besides() -> None:
    model = SimpleNamespace(spans={**KNOWN.spans, "networks": Span(0.85, 1.4)})
    assert of_plan(1000, {"conv": 1000.0}, model) == Interval(750, 1500)


def test_exact_kinds_add_their_time_and_no_doubt() -> None:
    assert of_op(_cost(("view", 1.0), ("conv", 100.0)), KNOWN) == Interval(81, 131)


def test_a_backend_that_does_not_say_gives_no_interval() -> None:
    assert of_op(_cost(("conv", 1000.0)), SILENT) == Interval(None, None)
    assert of_plan(1000, {"conv": 1000.0}, SILENT) == Interval(None, None)


@pytest.mark.parametrize("arch", ["wormhole_b0", "blackhole"])
def test_every_kind_of_program_has_a_span_around_the_prediction(arch: str) -> None:
    found = spans(arch)
    assert set(found) == set(FORMULAS) - {"view", "transfer"} | {"networks"}
    assert all(0 < span.low <= 1 <= span.high for span in found.values())
    assert all(span.high - span.low > 0.05 for span in found.values())


def test_a_model_with_a_memory_says_what_its_backend_says() -> None:
    backend = registry.create("analytical", DeviceSpec.preset("p150"))
    assert spans_of(CachedOpModel(backend)) == spans("blackhole")


def test_a_result_states_its_interval_in_summary_ops_and_text() -> None:
    result = optimize_file(GRAPHS / "mlp.json", Options(policy="dram"))
    summary = result.summary_json()
    assert summary["predicted_low_ns"] < summary["predicted_time_ns"] < summary["predicted_high_ns"]
    told = [record.predicted for record in result.records.values() if record.predicted is not None]
    assert told
    assert all(p.low_ns < p.time_ns < p.high_ns for p in told if p.time_ns > 1)
    assert "80 % interval" in dict(figures(result.to_json()))
