"""The front of time and correlation: what other error budgets would buy, each planned and measured like the one that
is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.errors import TimeLimitError
from optimizer.pipeline.error_budget import exact_work, measured, plan_ns
from optimizer.pipeline.judging import Judge
from optimizer.pipeline.work import Stage, Work
from optimizer.result.summary import FrontPoint, Precision

BUDGETS = (0.9999, 0.9995, 0.999, 0.995, 0.99, 0.98, 0.95)
"""Correlations that a front asks for, besides the user's own."""


@dataclass(frozen=True)
class ParetoFront(Stage):
    """Plans for other error budgets too, if the user asks for the front of time and correlation."""

    name: ClassVar[str] = "pareto-front"
    takes: ClassVar[tuple[str, ...]] = ("problem", "plan", "values", "judged", "precision", "origin")
    gives: ClassVar[tuple[str, ...]] = ("precision",)
    closing: ClassVar[bool] = True

    pareto: bool
    least_pcc: float | None
    again: tuple[Stage, ...]
    """From the problem to the written plan."""

    def apply(self, work: Work) -> None:
        if not self.pareto:
            return
        values, found = work.values, work.precision
        assert values is not None
        assert found is not None
        asked = None if found.given_up else self.least_pcc
        points = [_stated(asked, found, work)]
        if found.kept and not found.raised:
            judge = Judge(work.problem.graph, values, work.judged, work.clock)
            with suppress(TimeLimitError):  # the clock notes it, and the result says so
                if not found.given_up:
                    points.append(_point(None, exact_work(work, self.again), judge))
                points.extend(self._others(work, judge))
        work.precision = found.model_copy(update={"front": not_dominated(points)})

    def _others(self, work: Work, judge: Judge) -> Iterator[FrontPoint]:
        """The plans for the other budgets, with the sensitivities as the measured plan corrected them."""
        budget = work.problem.budget
        assert budget is not None
        for least_pcc in BUDGETS:
            if least_pcc == self.least_pcc or work.clock.search_is_over():
                continue
            other = work.fork()
            exact = work.plan.exact
            other.problem = replace(work.problem, budget=replace(budget, least_pcc=least_pcc), exact=exact)
            for stage in self.again:
                stage.apply(other)
            yield _point(least_pcc, other, judge)


def not_dominated(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """The points that no other is as fast and as exact as, the fastest first."""
    found: list[FrontPoint] = []
    for point in sorted(points, key=lambda p: (p.time_ns, -p.measured_pcc)):
        if not found or point.measured_pcc > found[-1].measured_pcc:
            found.append(point)
    return tuple(found)


def _point(least_pcc: float | None, work: Work, judge: Judge) -> FrontPoint:
    return _stated(least_pcc, measured(work, judge), work)


def _stated(least_pcc: float | None, found: Precision, work: Work) -> FrontPoint:
    return FrontPoint(
        least_pcc=least_pcc,
        predicted_pcc=found.predicted_pcc,
        measured_pcc=found.measured_pcc,
        time_ns=plan_ns(work, work.plan),
    )
