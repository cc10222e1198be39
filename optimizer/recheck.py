"""Finished results verified and priced again: what `ttopt check` and `ttopt price` answer."""

from __future__ import annotations

from typing import Any

from optimizer.opmodel.base import OpModel, ProgramRunner
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.result import OptimizedGraph
from optimizer.summary import Predictor, l1_resident_fraction
from optimizer.verify import VerifyReport, verify


def check_record(result: OptimizedGraph, opmodel: str | None = None) -> dict[str, Any]:
    """`{ok, steps, errors, peak_l1_bytes, peak_cb_bytes, board, opmodel}`; the OpModel defaults to the result's.

    A backend that runs programs replays the whole emitted program, all tensors in place; the others answer
    op by op.
    """
    name = opmodel or result.options.opmodel
    model = create(name, result.device, result.options.l1_small_bytes)
    if isinstance(model, ProgramRunner):
        return _replay_record(result, model)
    report = verify(result, CachedOpModel(model))
    return {
        "ok": report.ok,
        "steps": len(report.steps),
        "errors": _errors(report),
        "peak_l1_bytes": report.peak_l1_bytes,
        "peak_cb_bytes": max((step.cb_bytes for step in report.steps), default=0),
        "board": result.device.name,
        "opmodel": name,
    }


def _replay_record(result: OptimizedGraph, model: OpModel) -> dict[str, Any]:
    """As `check_record`, from a replay; `l1` compares the plan's L1 with the real one, step by step."""
    from optimizer.replay import replay

    own = verify(result, _model(result, "analytical"))
    report = replay(result, model, {step.op: step for step in own.steps})
    errors = [{"op": step.op, "message": step.message} for step in report.failures]
    if report.stopped_at is not None:
        errors.append({"op": report.stopped_at, "message": "the replay could not go on after this op"})
    return {
        "ok": report.ok,
        "steps": len(report.steps),
        "errors": errors,
        "peak_l1_bytes": report.peak_l1_bytes,
        "peak_cb_bytes": report.peak_cb_bytes,
        "board": result.device.name,
        "opmodel": model.name,
        "l1": report.l1_record(),
        "verify_errors": _errors(own),
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
