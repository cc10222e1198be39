"""`pareto`: what other error budgets cost, beside the one that is asked for."""

from __future__ import annotations

import itertools
from functools import cache

import pytest

from optimizer.errors import OptionError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.pipeline.pareto import not_dominated
from optimizer.result.summary import FrontPoint, Precision

SIZE = 512


def layers() -> Graph:
    b = GraphBuilder("layers")
    v = b.input("x", (1, 1, 64, SIZE))
    for n in range(3):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (SIZE, SIZE)), name=f"product{n}")
    return b.finish(b.op("ttnn.relu", v, name="last"))


@cache
def precision(least_pcc: float, *, pareto: bool) -> Precision:
    found = optimize(layers(), "n150", Options(least_pcc=least_pcc, pareto=pareto)).summary.precision
    assert found is not None
    return found


@pytest.mark.slow
def test_every_point_of_the_front_is_faster_and_less_exact_than_the_next() -> None:
    front = precision(0.98, pareto=True).front

    assert len(front) >= 3
    for faster, slower in itertools.pairwise(front):
        assert faster.time_ns < slower.time_ns
        assert faster.measured_pcc < slower.measured_pcc


@pytest.mark.slow
def test_the_front_ends_with_the_plan_in_bf16_and_has_what_was_asked_for() -> None:
    alone = precision(0.98, pareto=False)

    found = precision(0.98, pareto=True)

    assert (found.measured_pcc, found.predicted_pcc) == (alone.measured_pcc, alone.predicted_pcc)
    assert found.front[-1].least_pcc is None
    assert found.front[-1].time_ns == found.exact_ns
    assert [p.measured_pcc for p in found.front if p.least_pcc == 0.98] == [found.measured_pcc]
    assert alone.front == ()


def test_a_front_is_that_of_an_error_budget() -> None:
    with pytest.raises(OptionError, match=r"pareto.*least_pcc 0\.99"):
        Options(pareto=True)


def test_points_that_another_beats_are_left_out() -> None:
    good, late, wrong = (
        FrontPoint(least_pcc=None, predicted_pcc=1.0, measured_pcc=pcc, time_ns=ns)
        for pcc, ns in ((0.99, 10), (0.98, 12), (0.999, 20))
    )

    assert not_dominated([wrong, late, good]) == (good, wrong)


def test_a_plan_whose_outputs_have_nothing_in_common_with_the_model_is_a_point_like_any_other() -> None:
    """0 stands for outputs that are no numbers too."""
    broken, sound = (
        FrontPoint(least_pcc=0.95, predicted_pcc=0.95, measured_pcc=0.0, time_ns=5),
        FrontPoint(least_pcc=0.99, predicted_pcc=0.99, measured_pcc=0.99, time_ns=5),
    )

    assert not_dominated([broken, sound]) == (sound,)
