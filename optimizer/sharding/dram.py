"""The baseline policy: every activation in DRAM, interleaved, in graph order."""

from __future__ import annotations

from typing import Any

from optimizer.errors import InfeasibleError
from optimizer.ir.graph import Op
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.schedule import depth_first_schedule


def dram_decision(problem: PolicyInput, op: Op, chosen_because: str) -> OpDecision:
    """The first candidate that runs with every operand in DRAM; InfeasibleError if none does.

    The result is in DRAM too, unless an override demands another layout.
    """
    operands = problem.pricer.default_operands(op)
    refused: list[str] = []
    legal = problem.legal[op.id]
    for candidate in (*legal.l1_interleaved, *legal.sharded) if legal.forced else legal.dram:
        answer = problem.pricer.constraints(op, operands, candidate.config, candidate.request)
        if answer.valid and answer.outputs[0].layout == candidate.output:
            reason: dict[str, Any] = {"chosen": chosen_because}
            return OpDecision(candidate, operands, None, reason)
        refused.append(answer.error or f"produces {answer.outputs[0].layout.describe()}")
    where = "to the overridden layout" if legal.forced else "to DRAM"
    raise InfeasibleError(f"{op.op} cannot run from DRAM {where}: {refused[0]}", node=op.id)


class DramPolicy:
    """No optimisation of layouts: what every other policy is compared with."""

    name = "dram"

    def run(self, problem: PolicyInput) -> Plan:
        schedule = depth_first_schedule(problem.graph)
        decisions = {}
        for op_id in schedule:
            decisions[op_id] = dram_decision(problem, problem.graph.op(op_id), "policy dram keeps everything in DRAM")
        return Plan(schedule, decisions)
