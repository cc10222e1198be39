"""Every distinct query of a plan, executed and judged: on the simulator where there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.ir.builder import GraphBuilder
from optimizer.opmodel.base import OpQuery
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph
from optimizer.values import check
from optimizer.values.check import check_values, sample, value_queries
from optimizer.values.reference import reference

Array = NDArray[Any]


@pytest.fixture(scope="module")
def plan() -> OptimizedGraph:
    """Four equal layers and a softmax."""
    builder = GraphBuilder("layers")
    x = builder.input("x", (1, 64, 128))
    for k in range(4):
        w = builder.parameter(f"w{k}", (128, 128))
        x = builder.op("ttnn.relu", builder.op("ttnn.matmul", x, w))
    graph = builder.finish(builder.op("ttnn.softmax", x))
    return optimize(graph, DeviceSpec.preset("n150"), Options())


class FakeSession:
    """A device that computes what `gives` says; it dies on ops of `dies`."""

    def __init__(self, gives: Callable[[OpQuery, Array], Array], dies: str = "") -> None:
        self.gives, self.dies, self.alive = gives, dies, True

    def evaluate(
        self, query: OpQuery, operands: Sequence[Array], _: Sequence[Sequence[float]]
    ) -> tuple[list[Array], list[Array]]:
        if query.op == self.dies:
            self.alive = False
            raise ExecutionError(f"{query.op}: the device's process ended (SIGABRT): no such instruction")
        return list(operands), [self.gives(query, r.value) for r in reference(query, operands)]


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[FakeSession]]:
    """Replaces the device; returns the sessions that will have been opened."""

    def install(gives: Callable[[OpQuery, Array], Array], dies: str = "") -> list[FakeSession]:
        opened: list[FakeSession] = []

        def opening(*_: object) -> AbstractContextManager[FakeSession]:
            opened.append(FakeSession(gives, dies))
            return nullcontext(opened[-1])

        monkeypatch.setattr(check, "open_execution", opening)
        return opened

    return install


def test_equal_queries_are_one(plan: OptimizedGraph) -> None:
    found = value_queries(plan)

    assert sum(len(ops) for ops in found.values()) == len(list(plan.graph.ops()))
    assert len(found) < len(list(plan.graph.ops()))


def test_right_values_are_right(plan: OptimizedGraph, device: Callable[..., list[FakeSession]]) -> None:
    device(lambda _, value: value)

    report = check_values(plan)

    assert report.ok
    assert report.record()["right"] == len(value_queries(plan))
    assert report.record()["worst"] == 0.0


def test_a_wrong_op_is_named(plan: OptimizedGraph, device: Callable[..., list[FakeSession]]) -> None:
    device(lambda query, value: value * 1.2 if query.op == "ttnn.softmax" else value)

    report = check_values(plan)

    assert not report.ok
    assert {c.query.op for c in report.wrong} == {"ttnn.softmax"}
    assert report.by_op()["ttnn.softmax"]["gain"] == pytest.approx(0.2)


def test_a_device_that_dies_is_opened_again(plan: OptimizedGraph, device: Callable[..., list[FakeSession]]) -> None:
    opened = device(lambda _, value: value, dies="ttnn.matmul")

    report = check_values(plan)

    assert {c.query.op for c in report.not_run} == {"ttnn.matmul"}
    assert "no such instruction" in (report.not_run[0].problem or "")
    assert len(opened) == 1 + len(report.not_run)
    assert report.record()["right"] == len(value_queries(plan)) - len(report.not_run)


def test_another_shape_is_a_problem(plan: OptimizedGraph, device: Callable[..., list[FakeSession]]) -> None:
    device(lambda _, value: value[..., :-1])

    assert len(check_values(plan).not_run) == len(value_queries(plan))


def test_a_sample_has_at_most_so_many_of_a_class(plan: OptimizedGraph) -> None:
    taken = list(sample([plan, plan], 1))

    assert len({(query.op, check.layout_class(query)) for query, _ in taken}) == len(taken)


def test_on_the_simulator(plan: OptimizedGraph, needs_simulator: None) -> None:
    report = check_values(plan)

    assert report.not_run == []
    assert report.wrong == []
    assert np.isfinite(report.record()["worst"])
