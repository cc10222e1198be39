"""The plan: everything in DRAM to compare with, what the policy finds, and the graph that is written by it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.limit.predictions import Predictor
from optimizer.pipeline.work import Stage, Work
from optimizer.result import OptimizedGraph
from optimizer.sharding.fallbacks import note_fallbacks
from optimizer.sharding.overriding import note_overrides
from optimizer.sharding.registry import create_policy
from optimizer.transform.apply import ApplyPlan
from optimizer.transform.reservations import placed_reservations


@dataclass(frozen=True)
class Baseline(Stage):
    """Plans, writes and prices the same graph with everything in DRAM; with a time limit that is the first result."""

    name: ClassVar[str] = "baseline"
    takes: ClassVar[tuple[str, ...]] = ("problem", "origin", "imported", "rewritten")
    gives: ClassVar[tuple[str, ...]] = ("baseline", "kept")

    written: tuple[Stage, ...]
    """What makes a result of the problem; part of this stage, so announced and measured with it."""
    closed: tuple[Stage, ...]
    """What verifies it and sums it up, likewise."""

    def apply(self, work: Work) -> None:
        other, work.kept = work.fork(), None
        for stage in self.written:
            stage.apply(other)
        result, began = other.result, time.perf_counter()
        other.baseline = Predictor(result.graph, result.layouts, work.opmodel).totals(result.records)
        if work.clock.time_limit is not None:
            _close(other, self.closed)
            work.kept, work.clock.first_closing_s = other.result, time.perf_counter() - began
        work.baseline = other.baseline


def _close(work: Work, stages: tuple[Stage, ...]) -> None:
    """Apply these stages to a plan in the graph's own types."""
    work.values = work.precision = work.unjudged = None
    for stage in stages:
        stage.apply(work)


@dataclass(frozen=True)
class PlainPlan(Stage):
    """Closes the plan without error budget, or with a time limit without our kernels, before those are looked for.

    TimeLimitError where there is no time left for them: that plan is the result.
    """

    name: ClassVar[str] = "plain-plan"
    takes: ClassVar[tuple[str, ...]] = ("problem", "origin", "imported", "rewritten", "baseline", "kept")
    gives: ClassVar[tuple[str, ...]] = ("problem", "kept")

    fuse_kernels: bool
    least_pcc: float | None
    steps: tuple[Stage, ...]
    """From the problem to the summary."""

    def apply(self, work: Work) -> None:
        if work.kept is not None:  # the plan in DRAM: a search without time gives no other one
            work.clock.poll_closing()
        by_kernels = self.fuse_kernels and work.clock.time_limit is not None
        if not by_kernels and self.least_pcc is None:
            return
        if self.fuse_kernels:
            work.problem = replace(work.problem, searches={})
        other = work.fork()
        _close(other, self.steps)
        work.kept = other.result
        work.problem = replace(work.problem, exact=other.plan)
        work.clock.poll_closing()


@dataclass(frozen=True)
class Search(Stage):
    """Has the policy find the plan."""

    name: ClassVar[str] = "policy"
    takes: ClassVar[tuple[str, ...]] = ("problem",)
    gives: ClassVar[tuple[str, ...]] = ("plan",)

    policy: str
    fuse_kernels: bool = False

    def apply(self, work: Work) -> None:
        problem = work.problem
        if self.fuse_kernels:
            from optimizer.pipeline.plan_kernels import plan_kernels

            problem = replace(problem, kernels=plan_kernels(problem))
        work.plan = create_policy(self.policy).run(problem)


@dataclass(frozen=True)
class NoteReasons(Stage):
    """Notes in the plan which ops an override decided, and which are not sharded because they cannot be."""

    name: ClassVar[str] = "reasons"
    takes: ClassVar[tuple[str, ...]] = ("problem", "plan")
    gives: ClassVar[tuple[str, ...]] = ("plan",)
    closing: ClassVar[bool] = True

    def apply(self, work: Work) -> None:
        work.plan = note_fallbacks(work.problem, note_overrides(work.problem, work.plan))


@dataclass(frozen=True)
class Transform(Stage):
    """Writes the plan into a new graph: layouts on values, copies between them, ops in order."""

    name: ClassVar[str] = "transform"
    takes: ClassVar[tuple[str, ...]] = ("problem", "plan", "origin")
    gives: ClassVar[tuple[str, ...]] = ("result",)
    closing: ClassVar[bool] = True

    def apply(self, work: Work) -> None:
        problem, plan = work.problem, work.plan
        applied = ApplyPlan(problem.graph, problem.pricer.pages, plan).apply()
        work.result = OptimizedGraph(
            graph=applied.graph,
            layouts=applied.layouts,
            records=applied.records,
            device=work.opmodel.device,
            options=work.options,
            model=dict(work.origin.record),
            chains=plan.chains,
            reservations=placed_reservations(plan, applied),
            timings={"layout_pools": problem.pools.pool_count},
        )
