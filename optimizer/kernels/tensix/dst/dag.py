"""One tile's worth of a fused computation: values are numbers, inputs first, then the nodes in program order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optimizer.errors import GraphError
from optimizer.kernels.tensix.tile_forms import Form, Place
from optimizer.kernels.tensix.tile_ops import TILE_OPS, TileOp


@dataclass(frozen=True)
class TileNode:
    """One tile op. `args` are values: inputs or earlier nodes."""

    op: str
    args: tuple[int, ...]
    attrs: tuple[tuple[str, float], ...] = ()

    @property
    def definition(self) -> TileOp:
        return TILE_OPS[self.op]


@dataclass(frozen=True)
class TileDag:
    """A body. Inputs lie in circular buffers and may be read any number of times; yields are packed at the end."""

    inputs: int
    nodes: tuple[TileNode, ...]
    yields: tuple[int, ...]
    dtype: str = "bf16"
    """Element type of values in DST."""
    input_dtypes: tuple[str, ...] = ()
    """Element types of the inputs, if they are not all `dtype`."""
    _consumers: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        consumers: list[list[int]] = [[] for _ in range(self.count)]
        for n, node in enumerate(self.nodes):
            value = self.inputs + n
            if any(not 0 <= a < value for a in node.args):
                raise GraphError(f"node {value} ({node.op}) reads a value that is not defined before it")
            if len(node.args) != node.definition.arity:
                raise GraphError(f"node {value} ({node.op}) has {len(node.args)} operands")
            for a in dict.fromkeys(node.args):
                consumers[a].append(value)
        object.__setattr__(self, "_consumers", tuple(map(tuple, consumers)))

    @property
    def count(self) -> int:
        """Number of values."""
        return self.inputs + len(self.nodes)

    def node(self, value: int) -> TileNode:
        return self.nodes[value - self.inputs]

    def is_input(self, value: int) -> bool:
        return value < self.inputs

    def dtype_of(self, value: int) -> str:
        """Element type of an input, or of a value in DST."""
        return self.input_dtypes[value] if value < len(self.input_dtypes) else self.dtype

    def consumers(self, value: int) -> tuple[int, ...]:
        """Nodes that read a value, ascending."""
        return self._consumers[value]

    @property
    def values(self) -> range:
        """The nodes' values."""
        return range(self.inputs, self.count)


def usable_forms(dag: TileDag, value: int) -> tuple[int, ...]:
    """Forms of a node that read only inputs from circular buffers and keep the element type exact."""
    node = dag.node(value)
    return tuple(
        i
        for i, form in enumerate(node.definition.forms)
        if _keeps(dag, node, form)
        and all(place is Place.DST or dag.is_input(a) for a, place in zip(node.args, form.places, strict=True))
        and not _reads_in_place_twice(node, form)
    )


def _keeps(dag: TileDag, node: TileNode, form: Form) -> bool:
    """Whether a form keeps the element types of its operands; one that reads DST does so at the width of DST."""
    if not form.dtypes:
        return True
    read = {
        dag.dtype_of(a) if place is Place.CB else dag.dtype for a, place in zip(node.args, form.places, strict=True)
    }
    return read <= set(form.dtypes)


def _reads_in_place_twice(node: TileNode, form: Form) -> bool:
    """`mul a a` with one operand in DST and the same one from its buffer: nothing is gained, and it is no input."""
    return form.in_place is not None and len(node.args) == 2 and node.args[0] == node.args[1]


def renumbered(dag: TileDag) -> tuple[TileDag, dict[int, int]]:
    """The body without dead nodes, equal nodes once, and every yield a node: a yielded input gets a `copy`.

    Returns it with the values of the given one in it.
    """
    numbers: dict[int, int] = {v: v for v in range(dag.inputs)}
    known: dict[TileNode, int] = {}
    nodes: list[TileNode] = []

    def add(node: TileNode) -> int:
        if node not in known:
            known[node] = dag.inputs + len(nodes)
            nodes.append(node)
        return known[node]

    needed = _needed(dag)
    for value in dag.values:
        if value in needed:
            node = dag.node(value)
            numbers[value] = add(TileNode(node.op, tuple(numbers[a] for a in node.args), node.attrs))
    yields = [add(TileNode("copy", (v,))) if dag.is_input(v) else numbers[v] for v in dag.yields]
    return TileDag(dag.inputs, tuple(nodes), tuple(yields), dag.dtype, dag.input_dtypes), numbers


def _needed(dag: TileDag) -> set[int]:
    found: set[int] = set()
    pending = list(dag.yields)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            if not dag.is_input(value):
                pending += dag.node(value).args
    return found


def sub_dag(dag: TileDag, members: Sequence[int]) -> tuple[TileDag, tuple[int, ...], tuple[int, ...]]:
    """The nodes `members` alone, with the values they take from elsewhere as inputs.

    Returns the part, the values of the whole that its inputs are, and those that its yields are: what others read.
    """
    inside = set(members)
    outside = sorted({a for v in members for a in dag.node(v).args if a not in inside})
    numbers = {v: i for i, v in enumerate(outside)} | {v: len(outside) + i for i, v in enumerate(members)}
    nodes = tuple(
        TileNode(dag.node(v).op, tuple(numbers[a] for a in dag.node(v).args), dag.node(v).attrs) for v in members
    )
    given = tuple(v for v in members if v in dag.yields or any(c not in inside for c in dag.consumers(v)))
    types = tuple(map(dag.dtype_of, outside)) if dag.input_dtypes else ()
    part = TileDag(len(outside), nodes, tuple(numbers[v] for v in given), dag.dtype, types)
    return part, tuple(outside), given
