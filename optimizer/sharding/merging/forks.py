"""Ends of chains. Forks: a chain's result with several readers stays in L1, sharded or interleaved, where that pays.

Before chains are merged, forks are kept in the first way that gains, as the chain leaves it before L1 interleaved: what
is fastest then is not yet known, since most neighbours still read from DRAM (taking the fastest at once makes ResNet-50
1.4 % slower). Once they are merged, sharded, L1 interleaved and DRAM are options of the merged groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from optimizer.sharding.base import OpDecision
from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.chains.l1_chain import L1Chain
from optimizer.sharding.merging.window_validation import stretch


def apply_l1_reservations_for_fork_ops(plan: ChainPlan) -> None:
    """Keep what forks, where that fits and is faster: for all readers, or else with some reading from DRAM."""
    for chain in plan.resolved:
        op_id, value = chain.ops[-1], plan.spilled_result(chain)
        readers = () if value is None else plan.state.readers(value)
        if len(readers) < 2:
            continue
        ways = [way for way in (plan.state.decisions[op_id], plan.in_l1_interleaved(op_id)) if way is not None]
        window = stretch(plan.state, op_id, readers[-1])
        any(
            plan.trials.keep("fork", {op_id: way}, window, dram_too).taken for dram_too in (False, True) for way in ways
        )


def propose_ends_of_chains(plan: ChainPlan) -> None:
    """Leave every home of every chain's result to the merged groups, which choose by time."""
    for chain in plan.resolved:
        plan.trials.propose({chain.ops[-1]: way} for way in _ways(plan, chain))


def _ways(plan: ChainPlan, chain: L1Chain) -> Iterator[OpDecision]:
    """The last op as its chain leaves it, with its result L1 interleaved, and in DRAM."""
    now = plan.state.decisions[chain.ops[-1]]
    yield replace(now, candidate=chain.choices[-1].candidate)
    interleaved = plan.in_l1_interleaved(chain.ops[-1])
    if interleaved is not None:
        yield interleaved
    legal = plan.problem.legal[chain.ops[-1]]
    if not legal.forced:
        yield replace(now, candidate=legal.dram[0])
