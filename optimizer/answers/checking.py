"""Finished results verified and priced again: what `ttopt check` and `ttopt price` answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.limit.predictions import l1_resident_fraction
from optimizer.opmodel.base import OpModel, ProgramRunner
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.result import OptimizedGraph
from optimizer.verify import Error, VerifyReport, verify


def check_record(
    result: OptimizedGraph, opmodel: str | None = None, model: Path | bytes | None = None
) -> dict[str, Any]:
    """A result verified from scratch, and all it states of itself compared with what is recomputed.

    `{ok, steps, errors, peak_l1_bytes, peak_cb_bytes,
    peak_dram_bank_bytes, board, custom_board, opmodel, model, not_checked}`. The OpModel
    defaults to the result's. With `model`, the file that the result came from or its bytes, the graph is also compared
    with that model, imported again; `model` in the record says whether they agree, null if none was given.

    A backend that runs programs replays the whole emitted program, all tensors in place; the others answer
    op by op.
    """
    name = opmodel or result.options.opmodel
    backend = create(name, result.device, result.options.l1_small_bytes)
    if isinstance(backend, ProgramRunner):
        record = _replay_record(result, backend)
    else:
        cached = CachedOpModel(backend)
        report = verify(result, cached)
        own = report.errors or list(_misstated(result, cached, report, name == result.options.opmodel))
        record = {
            "ok": not own,
            "steps": len(report.steps),
            "errors": _errors(own),
            "peak_l1_bytes": report.peak_l1_bytes,
            "peak_cb_bytes": max((step.cb_bytes for step in report.steps), default=0),
            "peak_dram_bank_bytes": report.peak_dram_bank_bytes,
            "board": result.device.name,
            "opmodel": name,
        }
    record["custom_board"] = result.options.board.endswith(".json")
    record["model"] = None
    if model is not None:
        _add_model(record, result, model)
    record["not_checked"] = _not_checked(result, name, model is not None)
    return record


def _misstated(result: OptimizedGraph, model: OpModel, report: VerifyReport, same_opmodel: bool) -> list[Error]:
    """What a result that verifies states otherwise than it is."""
    from optimizer.verify import figures, option_rules, plan_records

    stated = figures.Stated(result, model, report, *_kernels(result))
    return [
        *figures.compared(stated, same_opmodel),
        *plan_records.chains(result),
        *plan_records.reservations(result),
        *option_rules.broken_options(result),
    ]


def _add_model(record: dict[str, Any], result: OptimizedGraph, model: Path | bytes) -> None:
    """Put into a record whether the graph computes a model."""
    from optimizer.answers.model_comparison import model_errors

    errors = model_errors(result, model)
    record["model"] = {"ok": not errors, "sha256_stated": result.model.get("sha256") is not None}
    record["ok"] = record["ok"] and not errors
    record["errors"] += _errors(errors)


def _not_checked(result: OptimizedGraph, opmodel: str, with_model: bool) -> list[str]:
    """What the record's `ok` says nothing of."""
    from optimizer.verify.figures import NOT_RECOMPUTED
    from optimizer.verify.option_rules import options_not_seen

    found = [] if with_model else ["whether the graph computes the model: only with --model"]
    found += options_not_seen(result, with_model)
    if not result.summary_json():
        return [*found, "the document states no figures"]
    if opmodel != result.options.opmodel:
        found.append(f"figures: predicted by {result.options.opmodel}, checked by {opmodel}")
    return [*found, *NOT_RECOMPUTED]


def _replay_record(result: OptimizedGraph, model: OpModel) -> dict[str, Any]:
    """As `check_record`, from a replay; `l1` compares the plan's L1 with the real one, step by step."""
    from optimizer.pipeline.replay import replay
    from optimizer.verify.option_rules import broken_options

    own = verify(result, _model(result, "analytical"))
    report = replay(result, model, {step.op: step for step in own.steps})
    errors = [{"op": step.op, "message": step.message} for step in report.failures]
    if report.stopped_at is not None:
        errors.append({"op": report.stopped_at, "message": "the replay could not go on after this op"})
    broken = list(broken_options(result)) if own.ok else []
    errors += _errors(broken)
    return {
        "ok": report.ok and not broken,
        "steps": len(report.steps),
        "errors": errors,
        "peak_l1_bytes": report.peak_l1_bytes,
        "peak_cb_bytes": report.peak_cb_bytes,
        "peak_dram_bank_bytes": own.peak_dram_bank_bytes,
        "board": result.device.name,
        "opmodel": model.name,
        "l1": report.l1_record(),
        "verify_errors": _errors(own.errors),
    }


def price_record(result: OptimizedGraph) -> dict[str, Any]:
    """What a result costs by the cost model as it stands; the figures are null unless it verifies."""
    from optimizer.verify.figures import Stated

    model = _model(result, result.options.opmodel)
    report = verify(result, model)
    record: dict[str, Any] = {"verified": report.ok, "errors": _errors(report.errors)}
    stated = Stated(result, model, report, *_kernels(result)) if report.ok else None
    totals = stated and stated.totals
    return {
        **record,
        "predicted_time_ns": totals and totals.time_ns,
        "dram_read_bytes_total": totals and totals.dram_read_bytes,
        "dram_write_bytes_total": totals and totals.dram_write_bytes,
        "l1_peak_bytes": report.peak_l1_bytes if totals else None,
        "l1_resident_fraction": l1_resident_fraction(result) if totals else None,
        "by_class": totals and dict(totals.by_class_ns),
        "limit": stated and stated.limit.to_json(),
    }


def _kernels(result: OptimizedGraph) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...]]:
    """The regions that a result's program runs as kernels, and the groups that it does not, found again."""
    from optimizer.fusion.binding import fused_records

    return fused_records(result) if result.options.fuse_kernels else ((), ())


def _model(result: OptimizedGraph, name: str) -> OpModel:
    return CachedOpModel(create(name, result.device, result.options.l1_small_bytes))


def _errors(errors: list[Error]) -> list[dict[str, str]]:
    return [{"op": place, "message": message} for place, message in errors]
