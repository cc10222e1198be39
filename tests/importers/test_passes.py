"""Single passes: properties on random graphs, and what they must leave alone."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.importers.passes import REQUIRED, passes, run_passes
from optimizer.importers.passes.heads import concat_heads
from optimizer.importers.passes.linear import fuse_activation
from optimizer.importers.passes.movement import Factors, Step, merge_movement
from optimizer.importers.passes.simplify import common_subexpressions
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Graph, Op, Value, ValueKind
from optimizer.ir.vocabulary import opdef

Shape = tuple[int, ...]


def empty(*shapes: Shape) -> Graph:
    """A graph with inputs i0, i1, ... of these shapes."""
    graph = Graph("test", [f"i{k}" for k in range(len(shapes))])
    for k, shape in enumerate(shapes):
        graph.add_value(Value(f"i{k}", shape, DType.F32, ValueKind.INPUT))
    return graph


def add(graph: Graph, name: str, *inputs: str, **attrs: Attr) -> str:
    """Append an op; its value is called after it."""
    op_id = graph.fresh_id(name)
    op = Op(op_id, f"ttnn.{name}", inputs, (f"{op_id}_out",), attrs, op_id, (op_id,))
    shape = opdef(op.op).infer_shapes(op, tuple(graph.value(v).shape for v in inputs))[0]
    graph.add_value(Value(op.outputs[0], shape, DType.F32, ValueKind.ACTIVATION))
    graph.add_op(op)
    return op.outputs[0]


@st.composite
def reshaped(draw: st.DrawFn, shape: Shape) -> Shape:
    """Another shape of as many elements."""
    left = prod(shape)
    dims: list[int] = []
    while left > 1 and len(dims) < 4:
        divisors = [d for d in range(1, left + 1) if left % d == 0]
        dims.append(draw(st.sampled_from(divisors)))
        left //= dims[-1]
    return (*dims, left)


@st.composite
def chains(draw: st.DrawFn) -> tuple[Shape, list[Step]]:
    """A shape and a few reshapes and permutes of it."""
    start = shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    steps: list[Step] = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.booleans()):
            shape = draw(reshaped(shape))
            steps.append(("reshape", shape))
        else:
            dims = tuple(draw(st.permutations(range(len(shape)))))
            shape = tuple(shape[d] for d in dims)
            steps.append(("permute", dims))
    return start, steps


def apply(array: np.ndarray, steps: list[Step]) -> np.ndarray:
    for kind, argument in steps:
        array = array.reshape(argument) if kind == "reshape" else array.transpose(argument)
    return array


@given(chains())
def test_shortest_movement_moves_every_element_to_the_same_place(case: tuple[Shape, list[Step]]) -> None:
    shape, steps = case
    factors = Factors(shape)
    array = np.arange(prod(shape)).reshape(shape)

    if all(factors.apply(step) for step in steps):
        short = factors.shortest()

        assert len(short) <= 3
        assert np.array_equal(apply(array, short), apply(array, steps))


@given(chains())
def test_merged_graph_moves_every_element_to_the_same_place(case: tuple[Shape, list[Step]]) -> None:
    shape, steps = case
    graph = empty(shape)
    value = add(graph, "relu", "i0")
    for kind, argument in steps:
        value = add(graph, kind, value, **{"shape" if kind == "reshape" else "dims": argument})
    graph.outputs = [value]

    merge_movement.apply(graph)

    merged = [(op.op.removeprefix("ttnn."), op.attrs.get("shape") or op.attrs.get("dims")) for op in graph.ops()][1:]
    array = np.arange(prod(shape)).reshape(shape)
    assert len(merged) <= len(steps)
    assert np.array_equal(apply(array, merged), apply(array, steps))  # type: ignore[arg-type]


def test_value_that_is_returned_survives_merging() -> None:
    graph = empty((2, 3))
    middle = add(graph, "permute", "i0", dims=(1, 0))
    last = add(graph, "permute", middle, dims=(1, 0))
    graph.outputs = [middle, last]

    merge_movement.apply(graph)

    assert graph.outputs[0] == middle
    assert all(graph.producer(v) is not None for v in graph.outputs)


def test_shared_movement_is_not_duplicated() -> None:
    graph = empty((2, 3, 4))
    turned = add(graph, "permute", add(graph, "relu", "i0"), dims=(2, 0, 1))
    graph.outputs = [add(graph, "neg", turned), add(graph, "exp", add(graph, "reshape", turned, shape=(4, 6)))]

    merge_movement.apply(graph)

    assert [op.op for op in graph.ops()].count("ttnn.permute") == 1


def test_common_subexpressions_differ_by_attributes() -> None:
    graph = empty((4, 4))
    values = [add(graph, "add", "i0", scalar=s) for s in (1.0, 1.0, 2.0)]
    graph.outputs = [add(graph, "add", add(graph, "add", *values[:2]), values[2])]

    assert common_subexpressions.apply(graph) == 1


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_activation_fuses_into_a_binary_op_once(activation: str) -> None:
    graph = empty((4, 4), (4, 4))
    graph.outputs = [add(graph, activation, add(graph, activation, add(graph, "add", "i0", "i1")))]

    fuse_activation.apply(graph)

    assert [op.op for op in graph.ops()] == ["ttnn.add", f"ttnn.{activation}"]


def test_power_takes_no_activation() -> None:
    graph = empty((4, 4), (4, 4))
    graph.outputs = [add(graph, "relu", add(graph, "pow", "i0", "i1"))]

    assert fuse_activation.apply(graph) == 0


def test_heads_of_odd_size_are_joined_by_plain_ops() -> None:
    graph = empty((1, 4, 32, 40))
    joined = add(graph, "permute", add(graph, "reshape", "i0", shape=(1, 4, 32, 40)), dims=(0, 2, 1, 3))
    graph.outputs = [add(graph, "reshape", joined, shape=(1, 32, 160))]

    assert concat_heads.apply(graph) == 0


def test_running_the_passes_again_changes_nothing() -> None:
    graph = empty((2, 8, 64))
    weight = graph.add_value(Value("w", (64, 64), DType.F32, ValueKind.PARAMETER)).id
    hidden = add(graph, "relu", add(graph, "matmul", "i0", weight))
    turned = add(graph, "permute", add(graph, "reshape", hidden, shape=(2, 8, 2, 32)), dims=(0, 2, 1, 3))
    graph.outputs = [add(graph, "exp", turned)]
    run_passes(graph)
    before = list(graph.ops())

    assert run_passes(graph) == {}
    assert list(graph.ops()) == before


def test_passes_have_names_and_text() -> None:
    for step in passes():
        assert step.name
        assert step.apply.__doc__


def test_every_pass_is_described(project_root: Path) -> None:
    page = (project_root / "docs" / "graph-passes.md").read_text(encoding="utf-8")

    named = set(re.findall(r"`([a-z-]+)`", page.split("## ")[0]))

    assert {step.name for step in passes()} <= named
    assert all(f"`{name}` (required)" in page for name in REQUIRED)
