"""A chain as the program that it makes in an L1 that holds nothing else: a feasible sum of bytes is not enough.

Holes between operands, copies and results can still push circular buffers into a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.l1.run import Run
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.base import OpDecision
from optimizer.sharding.merging.window_validation import fits_the_allocator
from optimizer.sharding.plan_program import PlanSteps, bank_of


@dataclass(frozen=True)
class Clash:
    """The first op of a chain at which the runtime would run out of L1."""

    position: int
    message: str

    def describe(self, op_ids: Sequence[str]) -> str:
        return f"{op_ids[self.position]}: {self.message}"


def replay_chain(pricer: OpPricer, ops: Sequence[Op], decisions: Mapping[str, OpDecision]) -> Clash | None:
    """None if the chain runs from DRAM to DRAM, else where and why it does not."""
    have = {op.outputs[0]: decisions[op.id].candidate.output for op in ops}
    readers = {op.inputs[0]: at for at, op in enumerate(ops)}
    steps = PlanSteps(pricer, have.get, lambda v: v == ops[-1].outputs[0])
    run = Run(bank_of(pricer))
    for at, op in enumerate(ops):
        overflow = run.position(at, steps.row(op.id, decisions[op.id]), lambda v: readers.get(v, 0))
        refusal = fits_the_allocator(overflow)
        if refusal is not None:
            return Clash(at, refusal.message)
    return None
