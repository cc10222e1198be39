"""Chain merges: the result of a chain stays in L1 for the one op that reads it, on any operand of any chain.

A simple merge keeps one result. A 3-way merge (or one of more sources) keeps all results of chains that the same op
reads, for ops that take them only together: the later sources run while the earlier results are held. Merges are tried
in schedule order of the joining op; each is validated over everything that runs in between, so there may be any number
of them per chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from optimizer.sharding.base import OpDecision
from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.merging.window_validation import (
    validate_chain_b_with_merged_input,
    validate_chain_with_predecessor_in_l1,
    validate_schedule_range_with_reservation,
    validate_three_way_merge_join_op,
)
from optimizer.sharding.refusals import Refusal


def apply_chain_merges(plan: ChainPlan) -> None:
    """Keep chain results in L1 for the ops that read them, where that fits and is faster."""
    for join in plan.state.schedule:
        sources = _sources(plan, join)
        if len(sources) > 1 and _merge_together(plan, sources, join):
            continue
        for chain in sources:
            _merge(plan, chain, join)


def _sources(plan: ChainPlan, join: str) -> list[L1Chain]:
    """Chains with a spilled result that nothing but `join` reads, in schedule order."""
    found = []
    for v in dict.fromkeys(plan.state.op(join).inputs):
        producer = plan.state.producer(v)
        chain = None if producer is None else plan.chain_of(producer)
        if chain is not None and plan.spilled_result(chain) == v and plan.state.readers(v) == (join,):
            found.append(chain)
    return sorted(found, key=lambda chain: plan.state.position[chain.ops[-1]])


def _merge(plan: ChainPlan, source: L1Chain, join: str) -> bool:
    """A simple merge: the source's result sharded, else L1 interleaved."""
    last = source.ops[-1]
    check = partial(_validate_join, plan, plan.state.position[last], join)
    interleaved = plan.in_l1_interleaved(last)
    if plan.trials.keep("merge", {last: plan.as_decided(last)}, check).taken:
        return True
    return interleaved is not None and plan.trials.keep("merge", {last: interleaved}, check).taken


def _merge_together(plan: ChainPlan, sources: Sequence[L1Chain], join: str) -> bool:
    """A merge of several sources at one op."""
    wanted: dict[str, OpDecision] = {chain.ops[-1]: plan.as_decided(chain.ops[-1]) for chain in sources}
    check = partial(_validate_together, plan, sources, join)
    return plan.trials.keep(f"{len(sources) + 1}-way merge", wanted, check).taken


def _validate_join(plan: ChainPlan, source: int, join: str) -> Refusal | None:
    """Everything from the source to the op that reads it, with the chain of that op."""
    end = plan.state.position[join]
    chain = plan.chain_of(join)
    if chain is None:
        return validate_schedule_range_with_reservation(plan.state, source + 1, end)
    return validate_chain_b_with_merged_input(plan.state, source, chain, end)


def _validate_together(plan: ChainPlan, sources: Sequence[L1Chain], join: str) -> Refusal | None:
    """The later sources beside the results of the earlier ones, the join op with all, and what runs in between."""
    for chain in sources[1:]:
        refusal = validate_chain_with_predecessor_in_l1(plan.state, chain)
        if refusal is not None:
            return refusal
    refusal = validate_three_way_merge_join_op(plan.state, join)
    return refusal or _validate_join(plan, plan.state.position[sources[0].ops[-1]], join)
