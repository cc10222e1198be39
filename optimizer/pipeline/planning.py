"""The plan: everything in DRAM to compare with, what the policy finds, and the graph that is written by it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from optimizer.pipeline.work import Stage, Work
from optimizer.predictions import Predictor
from optimizer.result import OptimizedGraph
from optimizer.sharding.fallbacks import note_fallbacks
from optimizer.sharding.overriding import note_overrides
from optimizer.sharding.registry import create_policy
from optimizer.transform.apply import ApplyPlan
from optimizer.transform.reservations import placed_reservations


@dataclass(frozen=True)
class Baseline(Stage):
    """Plans, writes and prices the same graph with everything in DRAM."""

    name: ClassVar[str] = "baseline"
    takes: ClassVar[tuple[str, ...]] = ("problem", "origin")
    gives: ClassVar[tuple[str, ...]] = ("baseline",)

    dram: tuple[Stage, ...]
    """What makes a result of the problem; part of this stage, so announced and measured with it."""

    def apply(self, work: Work) -> None:
        other = work.fork()
        for stage in self.dram:
            stage.apply(other)
        result = other.result
        work.baseline = Predictor(result.graph, result.layouts, work.opmodel).totals(result.records)


@dataclass(frozen=True)
class Search(Stage):
    """Has the policy find the plan."""

    name: ClassVar[str] = "policy"
    takes: ClassVar[tuple[str, ...]] = ("problem",)
    gives: ClassVar[tuple[str, ...]] = ("plan",)

    policy: str

    def apply(self, work: Work) -> None:
        problem = work.problem
        if work.options.fuse_kernels:
            from optimizer.pipeline.plan_kernels import PlanKernels

            problem = replace(problem, kernels=PlanKernels(problem))
        plan = create_policy(self.policy).run(problem)
        if work.clock.search_is_over():
            why = work.clock.stopped_because()
            warning = f"{why}: this is the best plan found until then"
            plan = replace(plan, warnings=(*plan.warnings, warning), stopped=why)
        work.plan = plan


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
