"""What the passes share: reading small patterns and replacing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps

from optimizer.ir.graph import Attr, Graph, Op
from optimizer.ir.making import make_op
from optimizer.ir.vocabulary import opdef

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Pass:
    """One rewrite of the graph; near-linear in its size."""

    name: str
    apply: Callable[[Graph], int]
    """Rewrites the graph in place; returns the number of rewrites."""


def rewrites_each(name: str, *ops: str) -> Callable[[Callable[[Graph, Op], int]], Pass]:
    """Make a pass of a function that rewrites around one op and returns how often; `ttnn.` is left out in `ops`."""

    def made(visit: Callable[[Graph, Op], int]) -> Pass:
        @wraps(visit)
        def apply(graph: Graph) -> int:
            rewrites = 0
            for op in graph.ops():
                if op.op.removeprefix("ttnn.") in ops and graph.has_op(op.id):
                    rewrites += visit(graph, op)
            return finish(graph, rewrites)

        return Pass(name, apply)

    return made


def by_weights(graph: Graph, product: Op) -> bool:
    """Whether what a product takes beside its first operand is a matrix of weights, and a bias of weights if any."""
    weights = product.inputs[1:]
    return len(graph.value(weights[0]).shape) == 2 and all(graph.is_static(v) for v in weights)


def is_scalar_op(op: Op, *names: str) -> bool:
    """Whether an op is one of the named binary ops with a scalar right-hand side."""
    return op.op.removeprefix("ttnn.") in names and len(op.inputs) == 1 and op.attrs.get("scalar") is not None


def other_operand(op: Op, value_id: str) -> str:
    """Of an op of two operands, the one beside this."""
    return op.inputs[1 - op.inputs.index(value_id)]


def reduced_dims(graph: Graph, op: Op) -> tuple[int, ...]:
    """The dims that a reduction is over, counted from the front, in order."""
    rank = len(graph.value(op.inputs[0]).shape)
    dim = opdef(op.op).attr(op, "dim")
    given = range(rank) if dim is None else dim if isinstance(dim, tuple) else (dim,)
    return tuple(sorted({int(d) % rank for d in given}))  # type: ignore[arg-type]


def permuted_dims(op: Op) -> Shape:
    """Dims of a permute, counted from the front."""
    return tuple(int(d) % len(op.attr("dims")) for d in op.attr("dims"))


def close(a: float, b: float, tolerance: float = 1e-3) -> bool:
    """Equal up to a relative tolerance: constants in files are rounded to f32, f16 or bf16."""
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def origins(ops: Iterable[Op]) -> tuple[str, ...]:
    """Foreign names of several ops, each once, in order."""
    return tuple(dict.fromkeys(name for op in ops for name in op.origin))


def emit(
    graph: Graph, like: Op, name: str, inputs: Sequence[str], attrs: Mapping[str, Attr], *, output: str | None = None
) -> str:
    """Add an op beside `like` (same origin and place in the schedule); returns its value.

    `output` names an existing value without producer, or a new one.
    """
    op_id = graph.fresh_id(f"{like.id}_{name}")
    label = f"{like.name}.{op_id.removeprefix(f'{like.id}_')}"
    outputs = () if output is None else (output,)
    op = Op(op_id, f"ttnn.{name}", tuple(inputs), outputs, dict(attrs), label, like.origin)
    return make_op(graph, op, at=like.id).outputs[0]


def fuse(graph: Graph, root: Op, main: Op, name: str, inputs: Sequence[str], attrs: Mapping[str, Attr],
         absorbed: Sequence[Op]) -> Op:  # fmt: skip
    """Replace `root` by one op called like `main`; what it absorbed goes when nothing else reads it.

    The new op computes root's outputs; its origin is that of everything absorbed, main and root.
    """
    absorbed_origin = origins([*absorbed, main, root])
    at = root.id
    graph.remove_op(root.id)
    keep_main = main.id != root.id and any(graph.is_read(v) for v in main.outputs)
    if main.id != root.id and not keep_main:
        graph.remove_op(main.id)
    op_id = graph.fresh_id(main.id) if keep_main else main.id
    label = f"{main.name}.{name}" if keep_main else main.name
    op = Op(op_id, f"ttnn.{name}" if "." not in name else name, tuple(inputs), root.outputs, dict(attrs), label,
            absorbed_origin)  # fmt: skip
    graph.add_op(op, at=at)
    drop_dead(graph, [op.id for op in absorbed] + ([main.id] if keep_main else []))
    return op


def drop_dead(graph: Graph, op_ids: Iterable[str]) -> None:
    """Remove the named ops that nothing reads, and then what only they read."""
    stack = list(op_ids)
    while stack:
        op_id = stack.pop()
        if not graph.has_op(op_id):
            continue
        op = graph.op(op_id)
        if any(graph.is_read(v) for v in op.outputs):
            continue
        feeders = [p.id for v in op.inputs if (p := graph.producer(v)) is not None]
        graph.remove_op(op_id)
        stack.extend(feeders)


def computes_otherwise(graph: Graph, value_id: str) -> str:
    """From now on a value has other elements than the tensor of the model that it is named after.

    It gets a name of its own, which is returned, and stands for nothing. Values that the graph returns keep theirs.
    """
    value, producer = graph.value(value_id), graph.producer(value_id)
    assert producer is not None
    assert not graph.is_output(value_id)
    new = graph.add_value(replace(value, id=graph.fresh_id(f"{value_id}_rewritten"), stands_for=None)).id
    graph.replace_op(replace(producer, outputs=tuple(new if v == value_id else v for v in producer.outputs)))
    graph.replace_uses(value_id, new)
    del graph.values[value_id]
    return new


def reshape(graph: Graph, like: Op, value_id: str, shape: Shape, output: str | None = None) -> str:
    """Reshape unless the shape is right already."""
    if output is None and graph.value(value_id).shape == shape:
        return value_id
    return emit(graph, like, "reshape", [value_id], {"shape": shape}, output=output)


def permute(graph: Graph, like: Op, value_id: str, dims: Shape, output: str | None = None) -> str:
    """Permute unless the dims are in order already."""
    if output is None and list(dims) == sorted(dims):
        return value_id
    return emit(graph, like, "permute", [value_id], {"dims": dims}, output=output)


def finish(graph: Graph, rewrites: int) -> int:
    """Restore schedule order and drop what became dead after `rewrites` rewrites."""
    if rewrites:
        graph.prune()
        graph.sort()
    return rewrites
