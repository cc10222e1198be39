"""The baseline policy: every activation in DRAM, interleaved, in graph order."""

from __future__ import annotations

from typing import Any

from optimizer.errors import InfeasibleError
from optimizer.ir.graph import Op
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.schedule import depth_first_schedule


def dram_decision(problem: PolicyInput, op: Op, chosen_because: str) -> OpDecision:
    """The first candidate that runs with every operand in DRAM; InfeasibleError if none does.

    An overridden op runs as its override says.
    """
    if op.id in problem.overridden:
        return problem.overridden[op.id]
    operands = problem.pricer.default_operands(op)
    refused: list[str] = []
    for candidate in problem.legal[op.id].dram:
        answer = problem.pricer.constraints(op, operands, candidate.config, candidate.request)
        if answer.valid and answer.outputs[0].layout == candidate.output:
            reason: dict[str, Any] = {"chosen": chosen_because}
            return OpDecision(candidate, operands, None, reason)
        refused.append(answer.error or f"produces {answer.outputs[0].layout.describe()}")
    raise InfeasibleError(f"{op.op} cannot run from DRAM to DRAM: {refused[0]}", node=op.id)


class DramPolicy:
    """No optimisation of layouts: what every other policy is compared with."""

    name = "dram"

    def run(self, problem: PolicyInput) -> Plan:
        schedule = depth_first_schedule(problem.graph)
        decisions = {}
        for op_id in schedule:
            decisions[op_id] = dram_decision(problem, problem.graph.op(op_id), "policy dram keeps everything in DRAM")
        return Plan(schedule, decisions)
