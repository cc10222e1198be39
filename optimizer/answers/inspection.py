"""What the importer understood of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.importers.model import OpenSizesError
from optimizer.options import Options
from optimizer.pipeline import import_model, survey_model

if TYPE_CHECKING:
    from optimizer.importers.model import ImportedModel
    from optimizer.importers.onnx_file import Survey, SurveyedTensor


def inspection(source: Path | bytes, options: Options, name: str | None = None) -> dict[str, Any]:
    """What the importer understands of a model; of one whose sizes have no number, what can be told without."""
    try:
        return _imported(import_model(source, options, name))
    except OpenSizesError:
        return _surveyed(survey_model(source, options))


def _imported(model: ImportedModel) -> dict[str, Any]:
    graph, report = model.graph, model.report

    def described(value_ids: Iterable[str]) -> list[dict[str, Any]]:
        values = [graph.value(v) for v in value_ids]
        return [{"id": v.id, "shape": list(v.shape), "dtype": v.dtype.value} for v in values]

    run_ops = graph.run_ops()
    return {
        "name": graph.name,
        "sha256": model.sha256,
        "inputs": described(graph.inputs),
        "outputs": described(graph.outputs),
        "open_dims": {},
        "ops": dict(sorted(Counter(op.op for op in run_ops).items())),
        "ops_on_weights_only": len(graph) - len(run_ops),
        "parameter_count": report.parameter_count,
        "parameter_bytes": report.parameter_bytes,
        "foreign_ops": dict(sorted(report.foreign_ops.items())),
        "fused": dict(report.fused),
        "unsupported": [{"op": op, "nodes": list(nodes)} for op, nodes in report.unsupported],
        "dtype_conversions": dict(report.dtype_conversions),
        "warnings": list(report.warnings),
        "schedule": [
            {"id": op.id, "op": op.op, "name": op.name, "outputs": described(op.outputs), "origin": list(op.origin)}
            for op in run_ops
        ],
    }


def _surveyed(found: Survey) -> dict[str, Any]:
    """The same of a model some of whose sizes have no number: names stand for them, and what they decide is null."""

    def described(tensors: Iterable[SurveyedTensor]) -> list[dict[str, Any]]:
        return [{"id": t.name, "shape": None if t.dims is None else list(t.dims), "dtype": t.dtype} for t in tensors]

    unknown = ("ops", "ops_on_weights_only", "parameter_bytes", "fused", "dtype_conversions", "schedule")
    return {
        "name": found.name,
        "sha256": found.sha256,
        "inputs": described(found.inputs),
        "outputs": described(found.outputs),
        "open_dims": {name: list(inputs) for name, inputs in found.open_dims.items()},
        "parameter_count": found.parameter_count,
        "foreign_ops": dict(found.foreign_ops),
        "unsupported": [{"op": op, "nodes": list(nodes)} for op, nodes in found.unsupported],
        "warnings": list(found.warnings),
        **dict.fromkeys(unknown),
    }
