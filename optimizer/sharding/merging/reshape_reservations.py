"""Reservations of reshapes: what a reshape reads and gives stays L1 interleaved on its way to interleaved readers.

A reshape takes no shards. Where it reads the result of a chain, the chain's last op gives it L1 interleaved instead of
spilling it, and a reshape that is a view then costs nothing. Every reshape is looked at by itself: one whose result the
caller gets back is passed over, the others are not.
"""

from __future__ import annotations

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.sharding.base import OpDecision
from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.merging.window_validation import stretch


def apply_l1_reservations_for_reshapes(plan: ChainPlan) -> None:
    """Keep operands and results of reshapes in L1, where that fits and is faster."""
    for op_id in plan.state.schedule:
        op = plan.state.op(op_id)
        if opdef(op.op).view is not None and plan.chain_of(op_id) is None and op.outputs[0] not in plan.graph.outputs:
            _keep_reshape(plan, op)


def _keep_reshape(plan: ChainPlan, op: Op) -> None:
    """The reshape with the chain before it if there is one, else by itself."""
    result = plan.in_l1_interleaved(op.id)
    if result is None or plan.state.layout(op.outputs[0]).is_l1:
        return
    source, last = _source(plan, op), plan.state.readers(op.outputs[0])[-1]
    if source is not None:
        window = stretch(plan.state, source[0], last)
        if plan.trials.keep("reshape", {source[0]: source[1], op.id: result}, window).taken:
            return
    plan.trials.keep("reshape", {op.id: result}, stretch(plan.state, op.id, last))


def _source(plan: ChainPlan, op: Op) -> tuple[str, OpDecision] | None:
    """The end of a chain that only this op reads, with an L1 interleaved result."""
    producer = plan.state.producer(op.inputs[0])
    chain = None if producer is None else plan.chain_of(producer)
    if chain is None or plan.spilled_result(chain) != op.inputs[0] or plan.state.readers(op.inputs[0]) != (op.id,):
        return None
    interleaved = plan.in_l1_interleaved(chain.ops[-1])
    return None if interleaved is None else (chain.ops[-1], interleaved)
