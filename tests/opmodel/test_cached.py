"""The caching wrapper."""

from __future__ import annotations

import pytest

from optimizer.errors import OptionError
from optimizer.opmodel.base import OpConstraints, OpCost, OpModel, OpQuery
from optimizer.opmodel.cached import Answers, CachedOpModel


class Counting:
    """A backend that counts the questions it gets."""

    def __init__(self, inner: OpModel) -> None:
        self.name, self.device, self.l1_small_bytes = inner.name, inner.device, inner.l1_small_bytes
        self.launch = inner.launch
        self.inner = inner
        self.asked = 0

    def constraints(self, query: OpQuery) -> OpConstraints:
        self.asked += 1
        return self.inner.constraints(query)

    def cost(self, query: OpQuery) -> OpCost:
        self.asked += 1
        return self.inner.cost(query)

    def runtime_ns(self, query: OpQuery) -> int:
        return self.cost(query).time_ns


@pytest.fixture
def counting(analytical: OpModel) -> Counting:
    return Counting(analytical)


def relu(layouts, rows: int) -> OpQuery:
    return OpQuery("ttnn.relu", (layouts.tensor((rows, 64)),))


def test_equal_queries_ask_the_backend_once(counting: Counting, layouts) -> None:
    model = CachedOpModel(counting)
    first, second = model.constraints(relu(layouts, 64)), model.constraints(relu(layouts, 64))
    assert first == second
    assert first.valid
    assert counting.asked == 1


def test_cost_and_constraints_are_remembered_apart(counting: Counting, layouts) -> None:
    model = CachedOpModel(counting)
    query = relu(layouts, 64)
    model.constraints(query)
    assert model.runtime_ns(query) == model.cost(query).time_ns
    assert counting.asked == 2
    assert len(model) == 2


def test_questions_are_counted_by_stage(counting: Counting, layouts) -> None:
    model = CachedOpModel(counting)
    with model.stage("layouts"):
        model.constraints(relu(layouts, 32))
        with model.stage("verify"):
            model.constraints(relu(layouts, 32))
        model.constraints(relu(layouts, 64))
    found = model.statistics
    assert (found["layouts"].calls, found["layouts"].misses) == (2, 2)
    assert (found["verify"].calls, found["verify"].hits) == (1, 1)
    assert list(model.statistics_json()) == ["layouts", "verify"]


def test_a_failing_stage_ends(counting: Counting, layouts) -> None:
    model = CachedOpModel(counting)
    with pytest.raises(RuntimeError, match="stop"), model.stage("broken"):
        raise RuntimeError("stop")
    model.constraints(relu(layouts, 32))
    assert list(model.statistics) == ["other"]


def test_memory_is_bounded_and_keeps_the_latest(counting: Counting, layouts) -> None:
    model = CachedOpModel(counting, Answers(max_entries=2))
    for rows in (32, 64, 32, 96):  # 64 is the least recently used
        model.constraints(relu(layouts, rows))
    asked = counting.asked
    model.constraints(relu(layouts, 32))
    assert counting.asked == asked
    model.constraints(relu(layouts, 64))
    assert counting.asked == asked + 1


def test_room_for_nothing_is_refused() -> None:
    with pytest.raises(OptionError, match="max_entries"):
        Answers(max_entries=0)


def test_answers_are_handed_on_to_the_next_model(counting: Counting, layouts) -> None:
    answers = Answers()
    first = CachedOpModel(counting, answers).constraints(relu(layouts, 64))
    assert CachedOpModel(counting, answers).constraints(relu(layouts, 64)) == first
    assert counting.asked == 1


def test_launch_times_are_the_backends(counting: Counting) -> None:
    assert counting.launch is not None
    assert CachedOpModel(counting).launch == counting.launch
