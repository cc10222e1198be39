"""The baseline policy: every activation in DRAM, interleaved, in graph order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optimizer.errors import InfeasibleError
from optimizer.ir.graph import Op
from optimizer.opmodel.base import Rejection
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.overriding import AloneDecision
from optimizer.sharding.schedule import depth_first_schedule

SHOWN_REFUSALS = 2
"""Of ways to L1, that an error repeats."""


def dram_decision(problem: PolicyInput, op: Op, chosen_because: str) -> OpDecision:
    """The first candidate that runs with every operand in DRAM; InfeasibleError if none does.

    An overridden op runs as its override says.
    """
    if op.id in problem.overridden:
        return problem.overridden[op.id]
    operands = problem.pricer.default_operands(op)
    refused: dict[str, Rejection | None] = {}
    for candidate in problem.legal[op.id].dram:
        answer = problem.pricer.constraints(op, operands, candidate.config, candidate.request)
        if answer.valid and answer.outputs[0].layout == candidate.output:
            reason: dict[str, Any] = {"chosen": chosen_because}
            return OpDecision(candidate, operands, None, reason)
        refused[answer.error or f"produces {answer.outputs[0].layout.describe()}"] = answer.kind
    return _decision_in_l1(problem, op, refused)


def _decision_in_l1(problem: PolicyInput, op: Op, refused: Mapping[str, Rejection | None]) -> OpDecision:
    """The cheapest way for an op that runs with no result in DRAM. InfeasibleError if there is none either."""
    legal = problem.legal[op.id]
    alone = AloneDecision(problem, op)
    found = alone.cheapest((*legal.l1_interleaved, *legal.sharded))
    message, kind = next(iter(refused.items()))
    if found is not None:
        return replace(found, reason={"chosen": "the fastest in L1", "because": f"with a result in DRAM: {message}"})
    others = sorted({text for text, _ in alone.refusals} - {message})
    ways = [f"{message} (to DRAM)", *(f"{text} (to L1)" for text in others[:SHOWN_REFUSALS])]
    raise InfeasibleError(
        f"{op.op} cannot run from DRAM to DRAM, nor to L1: {'; '.join(ways)}",
        node=op.id,
        limit=None if kind is Rejection.VALIDATION else problem.pricer.l1_limit_bytes,
    )


class DramPolicy:
    """No optimisation of layouts: what every other policy is compared with."""

    name = "dram"

    def run(self, problem: PolicyInput) -> Plan:
        schedule = depth_first_schedule(problem.graph)
        decisions = {}
        for op_id in schedule:
            decisions[op_id] = dram_decision(problem, problem.graph.op(op_id), "policy dram keeps everything in DRAM")
        return Plan(schedule, decisions)
