"""What a file states of its values, taken out before shapes are inferred and compared with what was inferred after.

Element types and numbers of outputs, inputs and weights have to be right: where they are not, the file means something
else than what would be computed. Names of sizes are labels that exporters let users choose, and shapes of values in
between go stale when other tools change a graph; what is wrong about these is a remark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import onnx
import onnx.defs
import onnx_ir as ir

from optimizer.errors import DTypeError, ShapeError
from optimizer.importers.onnx_checks import keep_only, opset_versions, plain_domain
from optimizer.importers.onnx_dims import NAMELESS, Dim, Sizes, declared, resolved
from optimizer.importers.onnx_operands import node_place

IN_BETWEEN = "value"
SHOWN_STALE = 3
"""Statements that a remark repeats."""
_REMEDY = "export the model again, or take the wrong statement out of the file"


@dataclass(frozen=True)
class Stated:
    """The type that a file states of a value."""

    name: str
    what: str
    """`output`, `weight` or `IN_BETWEEN`."""
    kind: str
    """`tensor`, `sequence`, ..."""
    element: str | None
    """Element type of a tensor, in small letters; None where it is left open."""
    dims: tuple[Dim, ...] | None
    """None: no shape."""

    @classmethod
    def of(cls, info: onnx.ValueInfoProto, what: str) -> Stated | None:
        """None where nothing is stated."""
        kind = info.type.WhichOneof("value")
        if kind is None:
            return None
        tensor = info.type.tensor_type
        names = onnx.TensorProto.DataType.DESCRIPTOR.values_by_number
        element = names[tensor.elem_type].name.lower() if tensor.elem_type in names and tensor.elem_type else None
        dims = declared(info) if tensor.HasField("shape") else None
        return cls(info.name, what, kind.removesuffix("_type"), element, dims)


def take_out(proto: onnx.ModelProto) -> tuple[Stated, ...]:
    """What is stated of outputs, weights and values in between; only that of ops that nobody can infer stays."""
    graph, foreign = proto.graph, _foreign(proto)
    weights = {t.name for t in graph.initializer}
    found = [Stated.of(info, "output") for info in graph.output]
    found += [Stated.of(info, "weight") for info in (*graph.input, *graph.value_info) if info.name in weights]
    found += [Stated.of(info, IN_BETWEEN) for info in graph.value_info if info.name not in weights]
    keep_only(graph.value_info, lambda info: info.name in foreign)
    for output in graph.output:
        if output.name not in foreign and output.type.HasField("tensor_type"):
            output.type.Clear()
    return tuple(stated for stated in found if stated is not None)


def _foreign(proto: onnx.ModelProto) -> set[str]:
    """Results of ops that ONNX does not know."""
    versions = opset_versions(proto)
    found: set[str] = set()
    for node in proto.graph.node:
        domain = plain_domain(node.domain)
        if not onnx.defs.has(node.op_type, versions.get(domain, 1), domain):
            found.update(node.output)
    return found


def restate_sources(graph: onnx.GraphProto) -> None:
    """An output that no node computes has the type of the input or initializer that it is."""
    sources = {i.name: i for i in graph.input}
    for tensor in graph.initializer:
        sources[tensor.name] = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
    for output in graph.output:
        if output.name in sources:
            output.type.CopyFrom(sources[output.name].type)


def compared(
    model: ir.Model, statements: Iterable[Stated], sizes: Sizes, as_stated: Callable[[], ir.Model | None]
) -> tuple[str, ...]:
    """Remarks on statements that may be stale; DTypeError or ShapeError where one contradicts what is computed.

    Where the user gave inputs other sizes, numbers have to be right for those that the file states: `as_stated` gives
    the model with these, or None where they do not fit.
    """
    values, names = _values(model), dict(sizes.known)
    wrong: list[tuple[Stated, ir.Value]] = []
    stale: list[str] = []
    labels: list[str] = []
    for stated in statements:
        value = values.get(stated.name)
        if value is None:
            continue
        if not _same_type(stated, value):
            raise DTypeError(f"{_told(stated, value)}; {_REMEDY}", node=stated.name)
        if not _same_shape(stated, value):
            if stated.what == IN_BETWEEN:
                stale.append(_told(stated, value))
            else:
                wrong.append((stated, value))
        elif stated.what != IN_BETWEEN and not _fits(stated, value, names):
            labels.append(_told(stated, value))
    if wrong and sizes.given:
        own = as_stated()
        found = {} if own is None else _values(own)
        stale += [_told(*pair) for pair in wrong]
        wrong = [(stated, found[stated.name]) for stated, _ in wrong if stated.name in found]
        wrong = [pair for pair in wrong if not _same_shape(*pair)]
    for stated, value in wrong:
        raise ShapeError(f"{_told(stated, value)}; {_REMEDY}", node=stated.name)
    return (
        *_listed("names of sizes contradict each other in the file, and are not read", labels),
        *_listed("the file states stale shapes, which are not read", stale),
    )


def _values(model: ir.Model) -> dict[str | None, ir.Value]:
    graph = model.graph
    found = {v.name: v for v in (*graph.inputs, *graph.initializers.values())}
    return found | {v.name: v for node in graph for v in node.outputs}


def _same_type(stated: Stated, value: ir.Value) -> bool:
    kind, element = _type_of(value)
    return kind is None or (kind == stated.kind and stated.element in (None, element))


def _same_shape(stated: Stated, value: ir.Value) -> bool:
    """Whether as many sizes are stated, and those that have a number on both sides are equal."""
    if stated.dims is None or value.shape is None:
        return True
    if len(stated.dims) != len(value.shape):
        return False
    both = zip(stated.dims, value.shape, strict=True)
    return not any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in both)


def _fits(stated: Stated, value: ir.Value, names: dict[str, int]) -> bool:
    """Whether the names of a statement stand for one number each, those seen before for the same."""
    for dim, size in zip(stated.dims or (), value.shape or (), strict=False):
        if isinstance(dim, int) or dim == NAMELESS or not isinstance(size, int):
            continue
        number = resolved(dim, names)
        if number is None:
            names[dim] = size
        elif number != size:
            return False
    return True


def _type_of(value: ir.Value) -> tuple[str | None, str | None]:
    """Kind and element type as `Stated` has them; None where they are not known."""
    if value.type is None:
        return None, None
    if isinstance(value.type, ir.TensorType):
        return "tensor", value.type.dtype.name.lower()
    return type(value.type).__name__.removesuffix("Type").lower(), None


def _told(stated: Stated, value: ir.Value) -> str:
    """Both types, and what computes the value."""
    node = value.producer()
    source = "it is" if node is None else f"{node_place(node)} gives"
    found = _shown(_type_of(value)[1] or str(value.type), value.shape)
    given = _shown(stated.element or stated.kind, stated.dims)
    return f"{stated.what} '{stated.name}' is stated as {given}, but {source} {found}"


def _shown(element: str, dims: Iterable[object] | None) -> str:
    return element if dims is None else f"{element} [{', '.join(str(dim) for dim in dims)}]"


def _listed(what: str, texts: list[str]) -> Iterator[str]:
    if texts:
        more = f", and {len(texts) - SHOWN_STALE} more" if len(texts) > SHOWN_STALE else ""
        yield f"{what}: {'; '.join(texts[:SHOWN_STALE])}{more}"
