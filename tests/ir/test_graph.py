"""Graph editing keeps its indices, its order and its errors."""

from __future__ import annotations

import pytest

from optimizer.errors import GraphError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op, Value, ValueKind


def chain(*names: str) -> Graph:
    """x -> relu -> ... one op per name; op `a` computes value `va`."""
    graph = Graph("chain", ["x"], [f"v{names[-1]}"])
    graph.add_value(Value("x", (32, 32), DType.BF16, ValueKind.INPUT))
    source = "x"
    for name in names:
        graph.add_value(Value(f"v{name}", (32, 32), DType.BF16, ValueKind.ACTIVATION))
        graph.add_op(Op(name, "ttnn.relu", (source,), (f"v{name}",)))
        source = f"v{name}"
    return graph


def test_producer_and_consumers_follow_edits() -> None:
    graph = chain("a", "b")
    graph.replace_uses("va", "x")
    assert graph.op("b").inputs == ("x",)
    assert [op.id for op in graph.consumers("x")] == ["a", "b"]
    assert graph.consumers("va") == ()
    producer = graph.producer("vb")
    assert producer is not None
    assert producer.id == "b"


def test_replace_uses_covers_graph_outputs() -> None:
    graph = chain("a", "b")
    graph.replace_uses("vb", "va")
    assert list(graph.outputs) == ["va"]
    assert graph.prune() == 1
    assert [op.id for op in graph.ops()] == ["a"]
    assert "vb" not in graph.values


def test_use_count_counts_operand_positions_and_outputs() -> None:
    graph = chain("a")
    graph.add_value(Value("s", (32, 32), DType.BF16, ValueKind.ACTIVATION))
    graph.add_op(Op("add", "ttnn.add", ("va", "va"), ("s",)))
    assert graph.use_count("va") == 3


def test_sort_puts_an_op_added_late_in_its_anchors_place() -> None:
    graph = chain("a", "b", "c")
    graph.add_value(Value("t", (32, 32), DType.BF16, ValueKind.ACTIVATION))
    graph.add_op(Op("cast", "ttnn.neg", ("va",), ("t",)), at="b")
    graph.replace_op(Op("b", "ttnn.relu", ("t",), ("vb",)))
    graph.sort()
    assert [op.id for op in graph.ops()] == ["a", "cast", "b", "c"]


def test_a_cycle_is_named() -> None:
    graph = chain("a", "b")
    graph.replace_op(Op("a", "ttnn.relu", ("vb",), ("va",)))
    with pytest.raises(GraphError, match=r"a cycle: (a -> b -> a|b -> a -> b)"):
        graph.sort()


def test_two_producers_are_refused() -> None:
    graph = chain("a")
    with pytest.raises(GraphError, match="produced by 'a' and by 'b'"):
        graph.add_op(Op("b", "ttnn.relu", ("x",), ("va",)))


def test_weights_only_ops_are_not_part_of_a_run() -> None:
    graph = chain("a")
    graph.add_value(Value("w", (32, 32), DType.BF16, ValueKind.PARAMETER))
    graph.add_value(Value("wt", (32, 32), DType.BF16, ValueKind.PARAMETER))
    graph.add_op(Op("prepare", "ttnn.neg", ("w",), ("wt",)))
    assert [op.id for op in graph.run_ops()] == ["a"]


def test_copy_is_independent() -> None:
    graph = chain("a", "b")
    twin = graph.copy()
    twin.replace_uses("va", "x")
    assert graph.op("b").inputs == ("va",)


def test_long_chains_do_not_recurse() -> None:
    graph = chain(*[f"n{i}" for i in range(20_000)])
    graph.sort()
    assert graph.prune() == 0
    assert len(graph) == 20_000
