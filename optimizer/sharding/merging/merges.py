"""Chain merges: the result of a chain stays in L1 for the one op that reads it, on any operand of any chain.

A simple merge keeps one result. A 3-way merge (or one of more sources) keeps all results of chains that the same op
reads, for ops that take them only together: the later sources run while the earlier results are held. Merges are tried
in schedule order of the joining op; each is validated over everything that runs in between, so there may be any number
of them per chain.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.merging.window_validation import stretch


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
    window = _up_to_join(plan, source, join)
    interleaved = plan.in_l1_interleaved(last)
    if plan.trials.keep("merge", {last: plan.state.decisions[last]}, window).taken:
        return True
    return interleaved is not None and plan.trials.keep("merge", {last: interleaved}, window).taken


def _merge_together(plan: ChainPlan, sources: Sequence[L1Chain], join: str) -> bool:
    """A merge of several sources at one op.

    Validated are the later sources beside the results of the earlier ones, the join op with all, and what runs between.
    """
    wanted = {chain.ops[-1]: plan.state.decisions[chain.ops[-1]] for chain in sources}
    later = (position for chain in sources[1:] for position in stretch(plan.state, chain.ops[0], chain.ops[-1]))
    window = (*later, plan.state.position[join], *_up_to_join(plan, sources[0], join))
    return plan.trials.keep(f"{len(sources) + 1}-way merge", wanted, window).taken


def _up_to_join(plan: ChainPlan, source: L1Chain, join: str) -> tuple[int, ...]:
    """Everything after the source up to the op that reads it, with the chain of that op."""
    begin, end = plan.state.position[source.ops[-1]] + 1, plan.state.position[join]
    chain = plan.chain_of(join)
    first = begin if chain is None else plan.state.position[chain.ops[0]]
    return (*range(begin, min(first, end)), *range(first, end + 1))
