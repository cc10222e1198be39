"""What our kernels would make of a problem's plans, which are written as the transform does."""

from __future__ import annotations

from dataclasses import replace

from optimizer.fusion.choosing import choose
from optimizer.fusion.offers import Kernels
from optimizer.limit.predictions import Predictor
from optimizer.result import OptimizedGraph, Role
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.dram import DramPolicy
from optimizer.transform.apply import ApplyPlan


def plan_kernels(problem: PolicyInput) -> Kernels[Plan]:
    """The kernels that ops of the problem could be; regions are found and priced in plans as written."""

    def in_dram() -> OptimizedGraph:
        return _written(problem, DramPolicy().run(problem))

    def saved_ns(plan: Plan) -> int:
        result = _written(problem, plan)
        predictor = Predictor(result.graph, result.layouts, problem.pricer.model)
        for op_id, record in result.records.items():
            if record.role is not Role.HOST:
                result.records[op_id] = replace(record, predicted=predictor.prediction(op_id, record, 0))
        return choose(result, problem.poll).saved_ns

    return Kernels(problem.graph, in_dram, saved_ns, problem.poll)


def _written(problem: PolicyInput, plan: Plan) -> OptimizedGraph:
    applied = ApplyPlan(problem.graph, problem.pricer.pages, plan).apply()
    device = problem.pricer.model.device
    return OptimizedGraph(applied.graph, applied.layouts, applied.records, device, problem.options, {})
