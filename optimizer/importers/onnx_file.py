"""The ONNX importer: file bytes to a `Graph` in TTNN's vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from optimizer.importers import onnx_front_end
from optimizer.importers.finishing import finish, name_outputs
from optimizer.importers.model import Budget, ImportedModel, ImportOptions
from optimizer.importers.onnx_lacking import reason
from optimizer.importers.onnx_lowering import Lowering
from optimizer.importers.onnx_ops import table
from optimizer.importers.passes import run_passes
from optimizer.ir.graph import Graph, ValueKind


def read(data: bytes, options: ImportOptions) -> ImportedModel:
    """Import ONNX bytes; any error is an InputError that names the node."""
    budget = Budget(options.limits, len(data), options.checkpoint)
    proto = onnx_front_end.parse(data)
    front = onnx_front_end.fold(proto, options, budget)
    name = options.name or proto.graph.name or "model"
    lowering = Lowering(front, options, budget, name, table(), reason)
    graph = lowering.run()
    outputs = [v.name or "" for v in front.model.graph.outputs]
    fused = run_passes(graph, causal=frozenset(lowering.causal), fuse=options.fuse, checkpoint=options.checkpoint)
    warnings = [*front.notes, *lowering.warnings, *_approximations(graph, fused, lowering.foreign_ops)]
    _forget_weights(graph, front.weights)
    imported = finish(
        graph,
        outputs,
        sha256=sha256(data).hexdigest(),
        foreign_ops=lowering.foreign_ops,
        fused=fused,
        conversions=Counter(lowering.conversions),
        warnings=warnings,
        reasons=lowering.reasons,
    )
    name_outputs(imported.graph, outputs)
    return imported


def _approximations(graph: Graph, fused: Mapping[str, int], foreign_ops: Mapping[str, int]) -> list[str]:
    """What the fused graph computes a little differently from the file."""
    notes = []
    if rewritten := fused.get("centred-variance"):
        notes.append(f"{rewritten} variance(s) written as mean(x^2) - mean(x)^2 are computed as mean((x - mean(x))^2)")
    if fused.get("attention") and foreign_ops.get("IsNaN") and not any(op.op == "ttnn.isnan" for op in graph.ops()):
        notes.append("attention rows whose keys are all masked give the mean of the values instead of zero")
    return notes


def _forget_weights(graph: Graph, weights: frozenset[str]) -> None:
    """Small float initializers are weights like the large ones: their elements stay in the model's file."""
    for value in list(graph.values.values()):
        if value.kind is ValueKind.CONSTANT and value.id in weights and value.dtype.is_float and value.volume > 1:
            graph.set_value(replace(value, kind=ValueKind.PARAMETER, data=None))
