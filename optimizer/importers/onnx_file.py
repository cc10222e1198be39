"""The ONNX importer: file bytes to a `Graph` in TTNN's vocabulary, or, while sizes of the inputs have no number, to
what can be said of the model all the same: names, types, ops, shapes by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING

from optimizer.importers import onnx_front_end
from optimizer.importers.finishing import finish, name_outputs
from optimizer.importers.model import Budget, ImportedModel, ImportOptions
from optimizer.importers.onnx_checks import op_key
from optimizer.importers.onnx_dims import NAMELESS, Dim, named_sizes
from optimizer.importers.onnx_front_end import FrontEndModel
from optimizer.importers.onnx_lowering import Lowering
from optimizer.importers.onnx_node import NodeReader
from optimizer.importers.onnx_ops import table
from optimizer.importers.onnx_refusals import reason
from optimizer.importers.passes import run_passes
from optimizer.ir.graph import Graph, ValueKind

if TYPE_CHECKING:
    import onnx_ir as ir


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


_INVENTED = re.compile(r"_d[0-9]+")
"""What shape inference calls a size without a name."""


@dataclass(frozen=True)
class SurveyedTensor:
    """An input or output."""

    name: str
    dims: tuple[Dim, ...] | None
    """Numbers, and names where there is none; None: not even their count is known."""
    dtype: str | None
    """On the device; None: unknown, as behind a custom op whose result the file does not describe."""


@dataclass(frozen=True)
class Survey:
    """A model as far as it is known."""

    name: str
    sha256: str
    inputs: tuple[SurveyedTensor, ...]
    outputs: tuple[SurveyedTensor, ...]
    open_dims: Mapping[str, tuple[str, ...]]
    """Name of a size -> the inputs that have it. Nameless ones are in the inputs' shapes only."""
    foreign_ops: Mapping[str, int]
    unsupported: tuple[tuple[str, tuple[str, ...]], ...]
    """Op types without a TTNN counterpart, with the nodes' names. Attributes may rule out more."""
    parameter_count: int
    warnings: tuple[str, ...]


def survey(data: bytes, options: ImportOptions) -> Survey:
    """Read a model and infer its shapes by name. InputError as of an import, but for sizes without a number."""
    budget = Budget(options.limits, len(data), options.checkpoint)
    proto = onnx_front_end.parse(data)
    name = options.name or proto.graph.name or "model"
    front = onnx_front_end.fold(proto, options, budget, open_sizes=True)
    reader = NodeReader(front, options)
    graph = front.model.graph
    fed = [value for value in graph.inputs if value.name not in front.parameters]
    counts: Counter[str] = Counter()
    lacking: dict[str, list[str]] = {}
    known = table()
    for node in graph:
        key = op_key(node)
        counts[key] += 1
        if key not in known:
            lacking.setdefault(f"onnx.{key}", []).append(node.name or f"{node.op_type}_{node.outputs[0].name}")
    return Survey(
        name=name,
        sha256=sha256(data).hexdigest(),
        inputs=tuple(_tensor(value, reader, front) for value in fed),
        outputs=tuple(_tensor(value, reader, front) for value in graph.outputs),
        open_dims=named_sizes(front.open_inputs),
        foreign_ops=dict(sorted(counts.items())),
        unsupported=tuple((op, tuple(names)) for op, names in sorted(lacking.items())),
        parameter_count=_parameter_count(front),
        warnings=front.notes,
    )


def _tensor(value: ir.Value, reader: NodeReader, front: FrontEndModel) -> SurveyedTensor:
    """Sizes that the library has named itself are nameless."""
    own = {dim for entry in front.open_inputs for dim in entry.dims or ()}
    stated = next((entry for entry in front.open_inputs if entry.name == value.name), None)
    dims: tuple[Dim, ...] | None = None
    if stated is not None:
        dims = stated.dims
    elif value.shape is not None:
        dims = tuple(dim if isinstance(dim, int) else str(dim.value or NAMELESS) for dim in value.shape)
        dims = tuple(NAMELESS if _INVENTED.fullmatch(str(dim)) and dim not in own else dim for dim in dims)
    dtype = None if value.dtype is None else reader.dtype(value).value
    return SurveyedTensor(value.name or NAMELESS, dims, dtype)


def _parameter_count(front: FrontEndModel) -> int:
    """Elements of the weights that something reads."""
    graph = front.model.graph
    weights = [value for value in graph.inputs if value.name in front.parameters]
    weights += [value for name, value in graph.initializers.items() if name in front.weights]
    return sum(prod(int(str(d)) for d in value.shape) for value in weights if value.uses() and value.shape is not None)
