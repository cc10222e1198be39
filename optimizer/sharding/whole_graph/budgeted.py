"""The search again with element types and fidelities among the options, within an error budget.

It begins with the best plan without any of them, which is what the result is compared with, and searches its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optimizer.errors import TimeLimitError
from optimizer.ir.compute_config import COMPUTE
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.precision.budget import ErrorBudget
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.plan_report import reported
from optimizer.sharding.whole_graph.global_reasons import with_reasons
from optimizer.sharding.whole_graph.global_search import GOOD_ENOUGH, GlobalSearch
from optimizer.sharding.whole_graph.incumbent import Incumbent
from optimizer.sharding.whole_graph.precision_options import PrecisionOptions


def within_budget(problem: PolicyInput, exact: Plan) -> Plan:
    """The fastest plan found within the budget; the exact one where none is faster."""
    problem.say("error budget")
    incumbent, bound_ns, search = Incumbent(problem), 0, None
    incumbent.offer_unproven(exact)
    try:
        search = GlobalSearch(problem, exact.schedule, [exact.decisions], incumbent)
        search.find()
        bound_ns = search.bound_ns
        search.improve(worth=GOOD_ENOUGH)
        bound_ns = search.bound_ns
    except TimeLimitError:
        problem.say(f"stopped: {problem.stopped_because()}")
    best = incumbent.plan
    if best is None or search is None:
        return replace(exact, exact=exact)
    plan = reported(problem.pricer, replace(best, errors=plan_errors(problem, best)))
    status = "optimal" if bound_ns and incumbent.time_ns <= bound_ns else "feasible"
    baselines = exact.baselines
    plan = replace(plan, status=status, lower_bound_ns=bound_ns or None, warnings=(), baselines=baselines, exact=exact)
    return with_reasons(problem, search.table, _explained(problem, plan), exact.decisions)


def plan_errors(problem: PolicyInput, plan: Plan) -> dict[str, float]:
    """Op -> what it adds to the relative mean square of the outputs' error, by the budget's sensitivities."""
    assert problem.budget is not None
    precision, errors = PrecisionOptions(problem.pricer, problem.options), {}
    for op_id in plan.schedule:
        op, decision = problem.graph.op(op_id), plan.decisions[op_id]
        candidate = decision.candidate
        query = problem.pricer.query(candidate.of(op), decision.operands, candidate.config, candidate.request)
        value = problem.graph.value(op.outputs[0])
        noise = precision.noise(op, query, candidate.output.dtype or value.dtype)
        errors[op_id] = problem.budget.error(op_id, value.id, noise)
    return errors


def _explained(problem: PolicyInput, plan: Plan) -> Plan:
    """The plan with what each op took, and which share of the budget that is, in its reason."""
    assert problem.budget is not None
    decisions = {
        op_id: replace(decision, reason={**decision.reason, **_taken(problem, problem.budget, op_id, decision, plan)})
        for op_id, decision in plan.decisions.items()
    }
    return replace(plan, decisions=decisions)


def _taken(
    problem: PolicyInput, budget: ErrorBudget, op_id: str, decision: OpDecision, plan: Plan
) -> Mapping[str, Any]:
    op, candidate = problem.graph.op(op_id), decision.candidate
    record: dict[str, Any] = {}
    if candidate.output.dtype is not None:
        record["result"] = candidate.output.dtype.value
    config = candidate.config
    if isinstance(config, Conv2dConfig) and config.weights_dtype not in (None, problem.graph.value(op.inputs[1]).dtype):
        record["weights"] = config.weights_dtype
    for v, layout in zip(op.inputs, decision.operands, strict=True):
        if layout.dtype is not None and problem.pricer.is_weight(v):
            record["weights"] = layout.dtype.value
    stated: Any = candidate.of(op).attrs.get(COMPUTE)
    if candidate.precision is not None and stated:
        record["fidelity"] = dict(stated)["fid"]
        record["fp32_dest_acc_en"] = dict(stated)["fp32"]
    if not record:
        return {}
    return {"precision": {**record, "budget_share": float(f"{plan.errors[op_id] / budget.most_error:.3g}")}}
