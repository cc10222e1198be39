"""Sizes that an ONNX file gives names instead of numbers, and the inputs that have them.

A name stands for one number wherever it occurs, `batch` or an expression such as `past_sequence_length + 1`; the user
gives it once (`--dim batch=1`), or the whole shape of an input.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from shlex import quote

import onnx

from optimizer.errors import GraphError, OptionError, ShapeError, UnknownNameError
from optimizer.importers.model import Budget, OpenSizesError
from optimizer.importers.onnx_checks import captured, copied, keep_only
from optimizer.process.json_document import LARGEST_INTEGER

NAMELESS = "?"
LONGEST = 200
"""Characters of an expression that is worked out."""
_OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_PLAIN = (ast.Expression, ast.BinOp, ast.Name, ast.Load, *_OPERATORS)
Dim = int | str


@dataclass(frozen=True)
class OpenInput:
    """An input whose shape is not known."""

    name: str
    dims: tuple[Dim, ...] | None
    """None: not even how many there are."""


@dataclass(frozen=True)
class Sizes:
    """What the inputs of a model say of its sizes."""

    known: Mapping[str, int]
    """The number of each name that has one."""
    open_inputs: tuple[OpenInput, ...]
    """Inputs that something reads and that lack numbers."""
    given: tuple[onnx.ValueInfoProto, ...]
    """As the file states them, the inputs to which the user gave sizes."""


def declared(info: onnx.ValueInfoProto) -> tuple[Dim, ...]:
    """An int for each size that has a number, its name (`?` for a nameless one) for each that has none."""
    found: list[Dim] = []
    for dim in info.type.tensor_type.shape.dim:
        numbered = dim.HasField("dim_value") and dim.dim_value != -1  # as which some exporters write "any"
        found.append(dim.dim_value if numbered else (dim.dim_param or NAMELESS))
    return tuple(found)


def symbols(dims: Iterable[Dim]) -> list[str]:
    """The names in sizes, each once: of an expression, those it is made of."""
    found: dict[str, None] = {}
    for dim in dims:
        if isinstance(dim, str) and dim != NAMELESS:
            tree = _parsed(dim)
            inner = [] if tree is None else [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
            found.update(dict.fromkeys(inner or [dim]))
    return list(found)


def resolved(dim: Dim, known: Mapping[str, int]) -> int | None:
    """The number of a size; None where a name in it is not known."""
    if isinstance(dim, int):
        return dim
    if dim in known:
        return known[dim]
    tree = _parsed(dim)
    return None if tree is None else _value(tree.body, known)


def _parsed(dim: str) -> ast.Expression | None:
    """An expression of names, whole numbers and + - * / %; None of anything else, which is a name as it stands."""
    if len(dim) > LONGEST or dim.isidentifier():
        return None
    try:
        tree = ast.parse(dim, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    numbers = [n for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    plain = all(isinstance(n, (*_PLAIN, ast.Constant)) for n in ast.walk(tree))
    return tree if plain and all(type(n.value) is int for n in numbers) else None


def _is_expression(dim: str) -> bool:
    """Whether a name is an identifier or an expression, which may call functions: `floor(h / 2)`."""
    if dim.isidentifier():
        return True
    try:
        tree = ast.parse(dim, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    known = (*_PLAIN, ast.Constant, ast.Call, ast.UnaryOp, ast.USub)
    return all(isinstance(node, known) for node in ast.walk(tree))


def _value(node: ast.expr, known: Mapping[str, int]) -> int | None:
    if isinstance(node, ast.Constant):
        return int(str(node.value))
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _value(node.left, known), _value(node.right, known)
    if left is None or right is None or (right == 0 and not isinstance(node.op, ast.Add | ast.Sub | ast.Mult)):
        return None
    found: int = _OPERATORS[type(node.op)](left, right)
    return found


def bind_inputs(
    graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int], budget: Budget
) -> Sizes:
    """Give every input, and every other stated shape, the numbers that are known.

    GraphError for an input that is no tensor, ShapeError and UnknownNameError
    for numbers that do not fit the model.
    """
    names = [i.name for i in graph.input]
    for name, shape in shapes.items():
        if name not in names:
            raise ShapeError(f"--input-shapes names '{name}', which is no input of the model", alternatives=names)
        if any(d <= 0 for d in shape):
            raise ShapeError(f"--input-shapes {name}: dims must be positive, not {list(shape)}", node=name)
    unread = unread_inputs(graph)
    _check_outputs(graph)
    tensors = [info for info in graph.input if _is_tensor(info, unread)]
    described = (*tensors, *graph.value_info, *graph.output)
    stated = [dim for info in described for dim in declared(info)]
    budget.work("the sizes of inputs", len(stated) + sum(len(dim) for dim in stated if isinstance(dim, str)))
    if dims:
        _check_names(dims, stated)
    known = _known(tensors, shapes, dims)
    found: list[OpenInput] = []
    given: list[onnx.ValueInfoProto] = []
    for info in tensors:
        if info.name in shapes or (known and not all(isinstance(dim, int) for dim in declared(info))):
            given.append(copied(info))
        if info.name in shapes:
            _set_shape(info, shapes[info.name])
            continue
        sizes = _substitute(info, known)
        if (sizes is None or any(isinstance(dim, str) for dim in sizes)) and info.name not in unread:
            found.append(OpenInput(info.name, sizes))
    for info in (*graph.value_info, *graph.output):
        _substitute(info, known)
    return Sizes(known, tuple(found), tuple(given))


def _substitute(info: onnx.ValueInfoProto, known: Mapping[str, int]) -> tuple[Dim, ...] | None:
    """Write the numbers that are known into a stated shape, and return it; None where there is none.

    A name that shape inference would take for an expression with a slip in it, such as `batch size`, is not written.
    """
    if not info.type.tensor_type.HasField("shape"):
        return None
    sizes: list[Dim] = []
    for dim in declared(info):
        number = resolved(dim, known)
        if isinstance(dim, str) and number is not None and not 0 < number <= LARGEST_INTEGER:
            raise ShapeError(f"size '{dim}' of '{info.name}' would be {number}", node=info.name)
        sizes.append(dim if number is None else number)
    _set_shape(info, [dim if isinstance(dim, int) or _is_expression(dim) else NAMELESS for dim in sizes])
    return tuple(sizes)


def unread_inputs(graph: onnx.GraphProto) -> set[str]:
    """Inputs that neither a node nor the caller reads."""
    read = {name for node in graph.node for name in [*node.input, *captured(node)]} | {o.name for o in graph.output}
    return {i.name for i in graph.input} - read


def _is_tensor(info: onnx.ValueInfoProto, unread: set[str]) -> bool:
    """GraphError for an input of another kind that something reads."""
    if info.type.HasField("tensor_type"):
        return True
    if info.name in unread:
        return False
    raise _no_tensor("input", info)


def _check_outputs(graph: onnx.GraphProto) -> None:
    """GraphError for an output that is a sequence or the like; one without a type may be a tensor."""
    for info in graph.output:
        if info.type.WhichOneof("value") not in (None, "tensor_type"):
            raise _no_tensor("output", info)


def _no_tensor(what: str, info: onnx.ValueInfoProto) -> GraphError:
    kind = str(info.type.WhichOneof("value") or "typeless").removesuffix("_type").replace("_", " ")
    return GraphError(
        f"{what} '{info.name}' is of the ONNX type '{kind}', only tensors can be represented; export the model with an "
        f"{what} for each tensor",
        node=info.name,
    )


def _check_names(dims: Mapping[str, int], stated: list[Dim]) -> None:
    known = symbols(stated)
    for name in dims:
        if name not in known and name not in stated:
            if not known:
                raise OptionError(f"--dim {name}: the model gives no size a name", node="dims")
            raise UnknownNameError("size of the model", name, known, node="dims")


def _known(
    tensors: list[onnx.ValueInfoProto], shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> dict[str, int]:
    """The numbers of names: those given, and those that follow from the whole shapes given."""
    known = dict(dims)
    for info in tensors:
        if info.name not in shapes or not info.type.tensor_type.HasField("shape"):
            continue
        given, sizes = shapes[info.name], declared(info)
        if len(given) != len(sizes):
            raise ShapeError(
                f"--input-shapes {info.name} gives rank {len(given)}, the model says {list(sizes)} (rank {len(sizes)})",
                node=info.name,
            )
        for dim, number in zip(sizes, given, strict=True):
            if isinstance(dim, str) and dims.get(dim, number) != number:
                raise ShapeError(
                    f"'dims' says {dim}={dims[dim]}, but in 'input_shapes' of '{info.name}' it is {number}",
                    node=info.name,
                )
            if isinstance(dim, str) and dim != NAMELESS:
                known[dim] = number
    return known


def _set_shape(info: onnx.ValueInfoProto, sizes: Iterable[Dim]) -> None:
    shape = info.type.tensor_type.shape
    del shape.dim[:]
    shape.SetInParent()
    for size in sizes:
        dim = shape.dim.add()
        if isinstance(size, int):
            dim.dim_value = size
        elif size != NAMELESS:
            dim.dim_param = size


def drop_unread(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Take out unread inputs that are no numeric tensor of static shape; returns their names."""
    unread = unread_inputs(graph)

    def is_static(info: onnx.ValueInfoProto) -> bool:
        tensor = info.type.tensor_type if info.type.HasField("tensor_type") else None
        numeric = tensor is not None and tensor.elem_type != onnx.TensorProto.STRING and tensor.HasField("shape")
        return numeric and all(isinstance(dim, int) for dim in declared(info))

    dropped = keep_only(graph.input, lambda info: info.name not in unread or is_static(info))
    return tuple(info.name for info in dropped)


def named_sizes(inputs: Iterable[OpenInput]) -> dict[str, tuple[str, ...]]:
    """Name of a size -> the inputs that have it."""
    places: dict[str, list[str]] = {}
    for entry in inputs:
        for name in symbols(entry.dims or ()):
            places.setdefault(name, []).append(entry.name)
    return {name: tuple(found) for name, found in places.items()}


def refuse_open(inputs: Iterable[OpenInput]) -> None:
    """OpenSizesError that names the sizes and says how each gets a number, where an input lacks one."""
    listed = list(inputs)
    if not listed:
        return
    places = named_sizes(listed)
    nameless = [entry for entry in listed if entry.dims is None or NAMELESS in entry.dims]
    named = [f"'{name}' of {', '.join(found[:3])}" for name, found in places.items()]
    flags = [f"--dim {quote(f'{name}=1')}" for name in places]
    flags += [f"--input-shapes {quote(e.name)}:{','.join(map(str, e.dims)) if e.dims else NAMELESS}" for e in nameless]
    what = "; ".join([*named, *(f"input '{e.name}'" for e in nameless)])
    raise OpenSizesError(
        f"sizes of the model have no number: {what}; give one for each, such as {' '.join(flags)}", node=listed[0].name
    )
