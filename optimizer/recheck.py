"""Finished results verified and priced again: what `ttopt check` and `ttopt price` answer."""

from __future__ import annotations

from typing import Any

from optimizer.opmodel.base import OpModel
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.result import OptimizedGraph
from optimizer.summary import Predictor, l1_resident_fraction
from optimizer.verify import VerifyReport, verify


def check_record(result: OptimizedGraph, opmodel: str | None = None) -> dict[str, Any]:
    """`{ok, steps, errors, peak_l1_bytes, peak_cb_bytes, board, opmodel}`; the OpModel defaults to the result's."""
    name = opmodel or result.options.opmodel
    report = verify(result, _model(result, name))
    return {
        "ok": report.ok,
        "steps": len(report.steps),
        "errors": _errors(report),
        "peak_l1_bytes": report.peak_l1_bytes,
        "peak_cb_bytes": max((step.cb_bytes for step in report.steps), default=0),
        "board": result.device.name,
        "opmodel": name,
    }


def price_record(result: OptimizedGraph) -> dict[str, Any]:
    """What a result costs by the cost model as it stands; the figures are null unless it verifies."""
    model = _model(result, result.options.opmodel)
    report = verify(result, model)
    record: dict[str, Any] = {"verified": report.ok, "errors": _errors(report)}
    totals = Predictor(result.graph, result.layouts, model).totals(result.records) if report.ok else None
    return {
        **record,
        "predicted_time_ns": totals and totals.time_ns,
        "dram_read_bytes_total": totals and totals.dram_read_bytes,
        "dram_write_bytes_total": totals and totals.dram_write_bytes,
        "l1_peak_bytes": report.peak_l1_bytes if totals else None,
        "l1_resident_fraction": l1_resident_fraction(result) if totals else None,
        "by_class": totals and dict(totals.by_class_ns),
    }


def _model(result: OptimizedGraph, name: str) -> OpModel:
    return CachedOpModel(create(name, result.device, result.options.l1_small_bytes))


def _errors(report: VerifyReport) -> list[dict[str, str]]:
    return [{"op": place, "message": message} for place, message in report.errors]
