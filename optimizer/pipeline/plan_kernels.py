"""What kernels of ours would make of a plan, for the policy that asks (`sharding.base.Kernels`)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from optimizer.export.kernels.choosing import choose
from optimizer.export.kernels.finding import groups_anywhere
from optimizer.options import Options
from optimizer.predictions import Predictor
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.dram import DramPolicy
from optimizer.transform.apply import ApplyPlan


class PlanKernels:
    """Writes plans as the transform does, and finds and prices the regions in them."""

    def __init__(self, problem: PolicyInput) -> None:
        self._problem = problem

    @cached_property
    def _groups(self) -> tuple[tuple[str, ...], ...]:
        found = groups_anywhere(self._written(DramPolicy().run(self._problem)))
        has_op = self._problem.graph.has_op
        own = (tuple(op_id for op_id in group if has_op(op_id)) for group in found)  # that plan's copies are not ours
        return tuple(dict.fromkeys(group for group in own if len(group) > 1))

    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Ops, in schedule order, that one kernel could run if their tensors lay right."""
        return self._groups

    def saved_ns(self, plan: Plan) -> int:
        """What a plan takes less with the kernels that pay."""
        result = self._written(plan)
        predictor = Predictor(result.graph, result.layouts, self._problem.pricer.model)
        for op_id, record in result.records.items():
            if record.role is not Role.HOST:
                result.records[op_id] = replace(record, predicted=predictor.prediction(op_id, record, 0))
        return choose(result).saved_ns

    def _written(self, plan: Plan) -> OptimizedGraph:
        problem = self._problem
        applied = ApplyPlan(problem.graph, problem.pricer.pages, plan).apply()
        options: Options = problem.options
        device = problem.pricer.model.device
        return OptimizedGraph(applied.graph, applied.layouts, applied.records, device, options, {})
