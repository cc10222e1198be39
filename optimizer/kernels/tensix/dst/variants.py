"""Bodies that compute the same with other slots: copies shared, or values computed again instead of kept."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.errors import StateError
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode
from optimizer.kernels.tensix.dst.live_sets import LiveSets
from optimizer.kernels.tensix.tile_forms import Unit

MOST_APART = 4
"""Values that are tried one by one."""


def recomputed_products(dag: TileDag) -> Iterator[TileDag]:
    """Bodies that may be cheaper: an FPU op on inputs alone, computed again, costs less than a copy of its result."""
    again = [v for v in _computable(dag) if any(form.unit is Unit.FPU for form in dag.node(v).definition.forms)]
    if len(again) > 1:
        yield _recomputed(dag, frozenset(again))
    if len(again) <= MOST_APART:
        yield from (_recomputed(dag, frozenset((v,))) for v in again)


def share_copies(dag: TileDag) -> TileDag | None:
    """The body with results that are inputs read by other nodes from DST too; None if there are none."""
    copies = {dag.node(v).args[0]: v for v in dag.values if dag.node(v).op == "copy"}
    if not any(len(dag.consumers(a)) > 1 for a in copies):
        return None
    order = [*copies.values(), *(v for v in dag.values if v not in copies.values())]
    numbers = {v: v for v in range(dag.inputs)} | {v: dag.inputs + n for n, v in enumerate(order)}
    nodes = []
    for v in order:
        node = dag.node(v)
        args = node.args if v in copies.values() else tuple(copies.get(a, a) for a in node.args)
        nodes.append(TileNode(node.op, tuple(numbers[a] for a in args), node.attrs))
    try:
        shared = TileDag(dag.inputs, tuple(nodes), tuple(numbers[v] for v in dag.yields), dag.dtype, dag.input_dtypes)
        LiveSets(shared)
    except StateError:
        return None  # some op reads the input from its circular buffer only
    return shared


def recompute(dag: TileDag) -> TileDag | None:
    """The body with every node that reads only inputs and has several readers computed once per reader."""
    shared = _computable(dag)
    return _recomputed(dag, frozenset(shared)) if shared else None


def _computable(dag: TileDag) -> list[int]:
    """Nodes with several readers, the packer among them, that read only inputs."""
    shared = (v for v in dag.values if len(dag.consumers(v)) + (v in dag.yields) > 1)
    return [v for v in shared if all(map(dag.is_input, dag.node(v).args))]


def _recomputed(dag: TileDag, shared: frozenset[int]) -> TileDag:
    """The body with these nodes computed once per reader."""
    numbers: dict[int, int] = {v: v for v in range(dag.inputs)}
    nodes: list[TileNode] = []

    def add(node: TileNode) -> int:
        nodes.append(node)
        return dag.inputs + len(nodes) - 1

    for v in dag.values:
        node = dag.node(v)
        if v in shared and v not in dag.yields:
            continue
        args = {a: add(dag.node(a)) if a in shared else numbers[a] for a in dict.fromkeys(node.args)}
        numbers[v] = add(TileNode(node.op, tuple(args[a] for a in node.args), node.attrs))
    return TileDag(dag.inputs, tuple(nodes), tuple(numbers[v] for v in dag.yields), dag.dtype, dag.input_dtypes)
