"""The JSON importer: graphs written by hand or by other tools, in the schema of `graph.json`.

Layouts, configs, predictions and summaries of an annotated graph are accepted and ignored; the copies
between layouts that the optimizer inserted are taken out again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from math import prod
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optimizer.errors import (
    DTypeError,
    FormatError,
    GraphError,
    LimitError,
    OptionError,
    ShapeError,
    UnknownNameError,
    near,
)
from optimizer.importers.finishing import finish
from optimizer.importers.model import ImportedModel, ImportLimits, ImportOptions
from optimizer.ir.attribute_kinds import check_kinds
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, ForeignTensor, Graph, Op, Value, ValueKind
from optimizer.ir.making import results_of
from optimizer.ir.sizes import check_shape
from optimizer.ir.topological import topological_order
from optimizer.ir.vocabulary import CONVERT, COPY, FETCH, SEND, op_names, opdef
from optimizer.process.json_document import decoded
from optimizer.wording.documents import other_kind

SCHEMAS = ("ttopt.graph/1", "ttopt.annotated-graph/1")
INSERTED_ROLES = ("reshard", "spill", "load", "layout", "transfer")
INSERTED = (COPY, CONVERT, FETCH, SEND)
"""Ops that only bring a tensor elsewhere or into other pages, where their role is one of these."""
SHOWN_FAULTS = 5
"""Wrong fields that an error names."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ModelSection(_Strict):
    """What the graph is called and where it begins and ends."""

    name: str = "model"
    sha256: str | None = None
    inputs: list[str] = Field(description="ids of the values fed on every run, in call order")
    outputs: list[str] = Field(description="ids of the values returned, in return order")
    output_names: list[str] | None = Field(default=None, description="what the model calls them; each name once")


class StandsForSection(_Strict):
    """A tensor of another file, which an annotated graph says that a value equals."""

    name: str
    shape: list[int]
    dims: list[int]


class ValueSection(_Strict):
    """One tensor. The shape of a value computed by a known op may be left out."""

    shape: list[int] | None = None
    dtype: DType | None = None
    kind: ValueKind | None = None
    data: list[float | bool] | None = Field(default=None, description="elements of a constant, row-major")
    layout: Any = Field(default=None, description="ignored on import")
    stands_for: StandsForSection | None = Field(
        default=None, description="kept: the value is this tensor, its dims in this order, reshaped"
    )


class OpSection(_Strict):
    """One operation of the TTNN vocabulary, or an opaque one whose output values state their shapes."""

    id: str
    op: str
    name: str = ""
    origin: list[str] = []
    inputs: list[str]
    outputs: list[str]
    attrs: dict[str, Any] = {}
    config: Any = Field(default=None, description="ignored on import")
    role: Literal["compute", "reshard", "spill", "load", "layout", "view", "transfer", "host"] | None = None
    chain: Any = Field(default=None, description="ignored on import")
    predicted: Any = Field(default=None, description="ignored on import")
    reason: Any = Field(default=None, description="ignored on import")


class GraphDocument(_Strict):
    """A graph to optimize."""

    schema_: Literal["ttopt.graph/1", "ttopt.annotated-graph/1"] = Field(default="ttopt.graph/1", alias="schema")
    model: ModelSection
    values: dict[str, ValueSection] = {}
    ops: list[OpSection]
    device: Any = Field(default=None, description="ignored on import")
    options: Any = Field(default=None, description="ignored on import")
    chains: Any = Field(default=None, description="ignored on import")
    reservations: Any = Field(default=None, description="ignored on import")
    summary: Any = Field(default=None, description="ignored on import")
    timings: Any = Field(default=None, description="ignored on import")


def read(data: bytes, options: ImportOptions) -> ImportedModel:
    """Import a JSON graph; any error is an InputError that names the place."""
    document = parse(data)
    if len(document.ops) > options.limits.max_nodes:
        raise LimitError(
            f"{len(document.ops)} ops exceed the limit of {options.limits.max_nodes}", limit=options.limits.max_nodes
        )
    graph, dropped = build(document, options)
    warnings = [f"{dropped} copies between layouts were taken out"] if dropped else []
    foreign: dict[str, int] = {}
    for op in document.ops:
        foreign[op.op] = foreign.get(op.op, 0) + 1
    model = finish(
        graph,
        _output_names(document.model),
        sha256=sha256(data).hexdigest(),
        foreign_ops=foreign,
        fused={},
        conversions={},
        warnings=warnings,
        reasons={op.name or op.id: _no_such_op(op.op) for op in document.ops if opdef(op.op).opaque},
    )
    return replace(model, is_result=document.schema_ == SCHEMAS[1])


def _output_names(model: ModelSection) -> list[str]:
    """What the outputs are called, of a result also where copies of them were made."""
    names = model.output_names
    if names is not None and not len(set(names)) == len(names) == len(model.outputs):
        raise GraphError(f"'output_names' must name {len(model.outputs)} outputs, each once", node="model")
    return model.outputs if names is None else names


def _no_such_op(name: str) -> str:
    """Why an op of a document is opaque."""
    return f"'{name}' is no op of the vocabulary{near(name, op_names())}"


def parse(data: bytes) -> GraphDocument:
    """Bytes to a validated document; FormatError names the first few offending fields."""
    raw = decoded(data)
    if not isinstance(raw, dict):
        raise FormatError("the JSON document must be an object")
    try:
        return GraphDocument.model_validate(raw)
    except ValidationError as error:
        if raw.get("summary") is not None and all(e["type"] == "extra_forbidden" for e in error.errors()):
            return _without_unknown(raw, error)
        if (other := other_kind(raw, "optimize")) is not None:
            raise FormatError(f"{other}; docs/formats.md describes graphs") from None
        places = [_fault(problem) for problem in error.errors()]
        shown = "; ".join(places[:SHOWN_FAULTS])
        shown += f"; and {len(places) - SHOWN_FAULTS} more" if len(places) > SHOWN_FAULTS else ""
        raise FormatError(f"not a graph of schema {SCHEMAS[0]}: {shown}") from None


def _fault(problem: Mapping[str, Any]) -> str:
    """`ops.0: no field 'inptus' is known, did you mean 'inputs'?`; of a wrong value what it should be."""
    *path, last = problem["loc"]
    place = ".".join(map(str, path))
    where = f"{place}: " if place else ""
    if problem["type"] == "missing":
        return f"{where}the field '{last}' is missing"
    if problem["type"] == "extra_forbidden":
        return f"{where}no field '{last}' is known{near(str(last), _field_names(path))}"
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def _field_names(path: Sequence[str | int]) -> list[str]:
    """Of the section that a place is in."""
    sections: dict[str, type[BaseModel]] = {"model": ModelSection, "ops": OpSection, "values": ValueSection}
    section = sections[str(path[0])] if path else GraphDocument
    section = StandsForSection if "stands_for" in path[2:] else section
    return [info.alias or name for name, info in section.model_fields.items()]


def _without_unknown(raw: dict[str, Any], error: ValidationError) -> GraphDocument:
    """A result of another version may have fields that this one does not know; in hand-made graphs they are typos."""
    for problem in error.errors():
        place: Any = raw
        *path, last = problem["loc"]
        for step in path:
            place = place[step]
        del place[last]
    return GraphDocument.model_validate(raw)


def build(document: GraphDocument, options: ImportOptions) -> tuple[Graph, int]:
    """A document as a graph in schedule order, and the number of layout copies left out."""
    graph = Graph(document.model.name)
    ops, alias = _without_copies(document)
    produced = _producers(ops)
    for name, given in options.input_shapes.items():
        stated = document.values.get(name)
        if name not in document.model.inputs or stated is None or list(given) != stated.shape:
            raise ShapeError(
                f"a JSON graph has static shapes; that of '{name}' in 'input_shapes' does not agree",
                node=name,
                alternatives=document.model.inputs,
            )
    if options.dims:
        raise OptionError(f"--dim {next(iter(options.dims))}: a JSON graph has static shapes", node="dims")
    for value_id, section in document.values.items():
        if value_id not in produced and value_id not in alias:
            _add_source(graph, value_id, section, document, options.limits)
    graph.inputs = list(document.model.inputs)
    for value_id in document.model.inputs:
        if value_id not in graph.values:
            place = "is computed by an op" if value_id in produced else "is not in 'values'"
            raise GraphError(f"input '{value_id}' {place}", node=value_id)
    for op in _topological(ops, produced, graph):
        _add_op(graph, op, document, options.limits)
    graph.outputs = [alias.get(v, v) for v in document.model.outputs]
    for value_id in graph.outputs:
        if value_id not in graph.values:
            raise GraphError(f"output '{value_id}' is neither a value nor computed", node=value_id)
    return graph, len(alias)


def _without_copies(document: GraphDocument) -> tuple[list[OpSection], dict[str, str]]:
    """Ops without the inserted copies, and which value each copy stands for."""
    alias: dict[str, str] = {}
    kept: list[OpSection] = []
    for op in document.ops:
        inserted = op.role in INSERTED_ROLES and op.op in INSERTED
        if inserted and len(op.inputs) == len(op.outputs) == 1:
            alias[op.outputs[0]] = op.inputs[0]
        else:
            kept.append(op)
    for value_id in alias:
        target, steps = alias[value_id], 0
        while target in alias and steps <= len(alias):
            target, steps = alias[target], steps + 1
        if steps > len(alias):
            raise GraphError("copies between layouts form a cycle", node=value_id)
        alias[value_id] = target
    if alias:
        kept = [op.model_copy(update={"inputs": [alias.get(v, v) for v in op.inputs]}) for op in kept]
    return kept, alias


def _producers(ops: list[OpSection]) -> dict[str, str]:
    produced: dict[str, str] = {}
    seen: set[str] = set()
    for op in ops:
        if op.id in seen:
            raise GraphError(f"two ops have the id '{op.id}'", node=op.id)
        seen.add(op.id)
        for value_id in op.outputs:
            if value_id in produced:
                raise GraphError(
                    f"value '{value_id}' is produced by '{produced[value_id]}' and '{op.id}'", node=value_id
                )
            produced[value_id] = op.id
    return produced


def _add_source(
    graph: Graph, value_id: str, section: ValueSection, document: GraphDocument, limits: ImportLimits
) -> None:
    """An input, parameter or constant."""
    if section.shape is None:
        raise ShapeError(f"'{value_id}' states no shape", node=value_id)
    is_input = value_id in document.model.inputs
    default = ValueKind.INPUT if is_input else ValueKind.CONSTANT if section.data is not None else ValueKind.PARAMETER
    kind = section.kind or default
    if (kind is ValueKind.INPUT) != is_input:
        raise GraphError(
            f"'{value_id}' has kind {kind} but is {'' if is_input else 'not '}listed in model.inputs", node=value_id
        )
    if kind is ValueKind.ACTIVATION:
        raise GraphError(f"'{value_id}' is an activation that no op computes", node=value_id)
    if kind is ValueKind.CONSTANT and section.data is None:
        raise GraphError(f"'{value_id}' is a constant without 'data'; a weight is of kind parameter", node=value_id)
    check_shape(value_id, section.shape, limits.max_elements, limits.max_rank)
    shape = tuple(section.shape) or (1,)
    data = None
    if section.data is not None:
        if kind is not ValueKind.CONSTANT or len(section.data) != prod(shape):
            raise ShapeError(
                f"'{value_id}': {len(section.data)} elements for a {kind} of shape {list(shape)}", node=value_id
            )
        data = tuple(section.data)
        _check_elements(value_id, data, section.dtype or DType.BF16)
    stands_for = _stands_for(value_id, section, shape)
    graph.add_value(Value(value_id, shape, section.dtype or DType.BF16, kind, data, stands_for))


def _stands_for(value_id: str, section: ValueSection, held: tuple[int, ...]) -> ForeignTensor | None:
    stated = section.stands_for
    return None if stated is None else ForeignTensor.from_json(stated.model_dump(), f"stands_for of {value_id}", held)


def _topological(ops: list[OpSection], produced: dict[str, str], graph: Graph) -> list[OpSection]:
    """Ops in an order in which producers come first, as near to the document's as possible."""
    for op in ops:
        for value_id in op.inputs:
            if value_id not in produced and value_id not in graph.values:
                raise GraphError(f"reads '{value_id}', which is neither a value nor computed", node=op.id)
    at = {op.id: position for position, op in enumerate(ops)}
    needs = [{at[produced[v]] for v in op.inputs if v in produced} for op in ops]
    return [ops[position] for position in topological_order(needs, lambda position: ops[position].id)]


def _check_elements(value_id: str, data: tuple[float, ...], dtype: DType) -> None:
    """Elements of integer types are whole numbers within their range."""
    wrong = next((element for element in data if not dtype.holds(element)), None)
    if wrong is not None:
        raise DTypeError(f"'{value_id}': element {wrong!r} is no {dtype}", node=value_id)


def _add_op(graph: Graph, section: OpSection, document: GraphDocument, limits: ImportLimits) -> None:
    row = opdef(section.op)
    attrs = {name: _attr(value, f"{section.id}.attrs.{name}") for name, value in section.attrs.items()}
    name, origin = section.name or section.id, tuple(section.origin)
    op = Op(section.id, section.op, tuple(section.inputs), tuple(section.outputs), attrs, name, origin)
    row.check_attrs(op)
    check_kinds(row, op)
    stated = [document.values.get(v) or ValueSection() for v in section.outputs]
    own = None
    if row.opaque:
        if any(s.shape is None for s in stated):
            raise UnknownNameError("op (one outside the vocabulary must state its output shapes)", section.op,
                                   op_names(), node=section.id)  # fmt: skip
        own = [(tuple(s.shape or (1,)), s.dtype or DType.BF16) for s in stated]
    results = results_of(graph, op, own)
    if len(results) != len(op.outputs):
        raise GraphError(f"{op.op} has {len(results)} results, {len(op.outputs)} are named", node=op.id)
    for value_id, (shape, dtype, kind), given in zip(op.outputs, results, stated, strict=True):
        check_shape(value_id if row.opaque else op.id, shape, limits.max_elements, limits.max_rank)
        if given.shape is not None and tuple(given.shape or (1,)) != shape:
            raise ShapeError(f"'{value_id}' states {given.shape}, {section.op} gives {list(shape)}", node=section.id)
        if given.dtype not in (None, dtype):
            raise DTypeError(
                f"'{value_id}' states {given.dtype}, {section.op} gives {dtype}; ttnn.typecast changes element types",
                node=section.id,
                alternatives=[dtype],
            )
        graph.add_value(Value(value_id, shape, dtype, kind, stands_for=_stands_for(value_id, given, shape)))
    graph.add_op(op)


def _attr(value: Any, place: str) -> Attr:
    """A JSON value as an attribute: numbers, strings, booleans, null and nested lists of them."""
    if isinstance(value, list):
        return tuple(_attr(v, place) for v in value)
    if isinstance(value, dict):
        raise FormatError("objects are no attribute values", node=place)
    return value  # type: ignore[no-any-return]  # decoded JSON
