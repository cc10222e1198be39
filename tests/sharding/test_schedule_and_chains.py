"""Depth-first order and the four chain rules."""

from __future__ import annotations

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind
from optimizer.layouts.legal_op_configs import LegalConfigs, OpCandidate
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE
from optimizer.sharding.chains.chain_building import build_chains
from optimizer.sharding.schedule import depth_first_schedule

SHAPE = (1, 1, 64, 64)


def graph_of(edges: dict[str, tuple[str, list[str]]], outputs: list[str]) -> Graph:
    """op name -> (vocabulary name, operands); every op computes the value of its own name."""
    graph = Graph("g", ["x"], outputs)
    graph.add_value(Value("x", SHAPE, DType.BF16, ValueKind.INPUT))
    for name in edges:
        graph.add_value(Value(name, SHAPE, DType.BF16, ValueKind.ACTIVATION))
    for name, (op, inputs) in edges.items():
        graph.add_op(Op(f"op_{name}", f"ttnn.{op}", tuple(inputs), (name,)))
    return graph


def chains_of(graph: Graph) -> list[list[str]]:
    sharded = LegalConfigs((OpCandidate(DRAM_TILE),), sharded=(OpCandidate(L1_TILE),))
    plain = LegalConfigs((OpCandidate(DRAM_TILE),))
    legal = {op.id: plain if op.op == "ttnn.cumsum" else sharded for op in graph.ops()}
    return [[o.removeprefix("op_") for o in c.ops] for c in build_chains(graph, depth_first_schedule(graph), legal)]


def test_a_branch_is_followed_to_its_end() -> None:
    graph = graph_of(
        {
            "a": ("relu", ["x"]), "l1": ("relu", ["a"]), "r1": ("relu", ["a"]), "l2": ("relu", ["l1"]),
            "r2": ("relu", ["r1"]), "join": ("add", ["l2", "r2"]),
        },
        ["join"],
    )  # fmt: skip
    order = [op.removeprefix("op_") for op in depth_first_schedule(graph)]
    assert order == ["a", "r1", "r2", "l1", "l2", "join"]


def test_a_fork_ends_the_chain() -> None:
    graph = graph_of({"a": ("relu", ["x"]), "b": ("relu", ["a"]), "c": ("add", ["b", "a"])}, ["c"])
    assert chains_of(graph) == [["a"], ["b", "c"]]


def test_the_chain_goes_on_through_operand_0_only() -> None:
    graph = graph_of({"a": ("relu", ["x"]), "b": ("add", ["x", "a"]), "c": ("relu", ["b"])}, ["c"])
    assert chains_of(graph) == [["a"], ["b", "c"]]


def test_concat_is_a_chain_of_its_own() -> None:
    graph = graph_of({"a": ("relu", ["x"]), "b": ("concat", ["a"]), "c": ("relu", ["b"])}, ["c"])
    assert chains_of(graph) == [["a"], ["b"], ["c"]]


def test_ops_without_sharded_candidates_break_the_chain() -> None:
    graph = graph_of({"a": ("relu", ["x"]), "b": ("cumsum", ["a"]), "c": ("relu", ["b"])}, ["c"])
    assert chains_of(graph) == [["a"], ["c"]]


def test_a_returned_value_ends_the_chain() -> None:
    graph = graph_of({"a": ("relu", ["x"]), "b": ("relu", ["a"])}, ["a", "b"])
    assert chains_of(graph) == [["a"], ["b"]]


@given(data=st.data(), count=st.integers(1, 25))
def test_the_schedule_is_topological_and_complete(data: st.DataObject, count: int) -> None:
    names = [f"v{i}" for i in range(count)]
    edges = {}
    for i, name in enumerate(names):
        earlier = st.sampled_from(["x", *names[:i]])
        edges[name] = ("add", [data.draw(earlier), data.draw(earlier)])
    graph = graph_of(edges, names)
    order = depth_first_schedule(graph)
    flow = nx.DiGraph([(f"op_{u}", f"op_{v}") for v, (_, us) in edges.items() for u in us if u != "x"])
    flow.add_nodes_from(order)
    position = {op: i for i, op in enumerate(order)}
    assert sorted(order) == sorted(f"op_{n}" for n in names)
    assert all(position[u] < position[v] for u, v in flow.edges)
