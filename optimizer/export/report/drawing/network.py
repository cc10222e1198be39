"""What is drawn: the ops of a run in schedule order, and the inputs and outputs of the graph."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from optimizer.export.facts import MOVES
from optimizer.result import OptimizedGraph, Role


class NodeKind(StrEnum):
    OP = "op"
    COPY = "copy"
    """An op that moves or converts its operand: reshard, spill, load, layout, transfer, view."""
    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True)
class Node:
    kind: NodeKind
    position: int | None = None
    """Of an op: its index in the schedule."""
    value: str = ""
    """Of an input or output: the value."""


@dataclass(frozen=True)
class Network:
    nodes: tuple[Node, ...]
    """Every node after those it reads."""
    edges: tuple[tuple[int, int], ...]
    """(from, to), each pair once, in the order of what is read."""
    links: frozenset[tuple[int, int]]
    """Edges along which a chain goes on."""


def network(result: OptimizedGraph) -> Network:
    """Nodes and edges of a result. What is computed once, of weights only, is left out."""
    once = prepared(result)
    ops = [(at, op) for at, op in enumerate(result.graph.ops()) if at not in once]
    read = {v for _, op in ops for v in op.inputs} | set(result.graph.outputs)
    inputs = [v for v in dict.fromkeys(result.graph.inputs) if v in read]
    nodes = [Node(NodeKind.INPUT, value=v) for v in inputs]
    chains: list[str | None] = [None] * len(nodes)
    made = {v: at for at, v in enumerate(inputs)}
    edges: dict[tuple[int, int], None] = {}
    for at, op in ops:
        record = result.records[op.id]
        edges |= dict.fromkeys((made[v], len(nodes)) for v in op.inputs if v in made)
        made |= dict.fromkeys(op.outputs, len(nodes))
        nodes.append(Node(NodeKind.COPY if record.role in (*MOVES, Role.VIEW) else NodeKind.OP, at))
        chains.append(record.chain)
    for v in result.graph.outputs:
        if v in made:
            edges[made[v], len(nodes)] = None
            nodes.append(Node(NodeKind.OUTPUT, value=v))
            chains.append(None)
    return Network(tuple(nodes), tuple(edges), frozenset(_links(chains, list(edges))))


def prepared(result: OptimizedGraph) -> frozenset[int]:
    """Positions of the ops that run once, on weights only."""
    graph = result.graph
    return frozenset(at for at, op in enumerate(graph.ops()) if graph.is_const_eval(op))


def _links(chains: list[str | None], edges: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """For every node the edge from the latest node of its own chain that it reads."""
    latest: dict[int, int] = {}
    for source, target in edges:
        if chains[source] is not None and chains[source] == chains[target]:
            latest[target] = max(source, latest.get(target, source))
    return {(source, target) for target, source in latest.items()}
