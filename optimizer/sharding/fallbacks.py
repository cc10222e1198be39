"""Which ops of a plan are not sharded because they cannot be, or because their chain failed, and why.

An op that could be sharded and is faster elsewhere did not fall back: that is a choice.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.result.summary import Fallback
from optimizer.sharding.base import Plan, PolicyInput
from optimizer.sharding.chains.chain_resolver import NO_FASTER
from optimizer.sharding.chains.l1_chain import ChainState
from optimizer.sharding.overriding import AloneDecision

MOST_ASKED = 20_000
"""Operands of all questions that the search for why an op cannot be sharded asks."""
UNSHARDED = ("dram",)
"""Policies that shard nothing, so that nothing falls back under them."""


def note_fallbacks(problem: PolicyInput, plan: Plan) -> Plan:
    """The plan with its fallbacks, one per cause, in the order of the schedule."""
    if problem.options.policy in UNSHARDED:
        return plan
    failed = _failed(plan)
    known: dict[Hashable, str | None] = {}
    found: dict[str, list[str]] = {}
    for op_id in plan.schedule:
        decision = plan.decisions[op_id]
        if decision.candidate.output.is_l1 or op_id in problem.overridden:
            continue
        cause = failed.get(op_id)
        if cause is None:
            cause = _no_sharded_config(problem, problem.graph.op(op_id), known)
        elif cause.startswith(NO_FASTER):
            cause = f"its chain is {NO_FASTER}"
        if cause is not None:
            found.setdefault(cause, []).append(op_id)
    return replace(plan, fallbacks=tuple(Fallback(cause=cause, ops=ops) for cause, ops in found.items()))


def _failed(plan: Plan) -> dict[str, str]:
    """Op -> why its chain failed; of an op whose chain was cut, what became of its part."""
    failed: dict[str, str] = {}
    for chain in plan.chains:
        for op_id in chain.ops:
            failed.pop(op_id, None)
            if chain.state == ChainState.FAILED.value:
                failed[op_id] = chain.reason or ""
    return failed


def _no_sharded_config(problem: PolicyInput, op: Op, known: dict[Hashable, str | None]) -> str | None:
    """Why an op that may be sharded never can be here; None if it can, or is of a kind that is never sharded."""
    if not opdef(op.op).shardable or opdef(op.op).opaque:
        return None
    legal = problem.legal[op.id]
    key = (problem.pricer.signature(op), id(legal))
    if key not in known:
        known[key] = _refusal(problem, op)
    return known[key]


def _refusal(problem: PolicyInput, op: Op) -> str | None:
    legal = problem.legal[op.id]
    if not legal.sharded:
        return f"no sharded config of {op.op} exists for these operands"
    alone, tried = AloneDecision(problem, op), 0
    for candidate in legal.sharded:
        if alone.runs(candidate):
            return None
        tried += 1
        if alone.asked * len(op.inputs) > MOST_ASKED:
            break
    message, _ = alone.main_refusal
    count = len(legal.sharded)
    which = f"each of the {count}" if tried == count else f"each of the first {tried} of {count}"
    return f"{which} sharded configs of {op.op} is refused: {message}"
