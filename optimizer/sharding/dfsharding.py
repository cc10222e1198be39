"""DFShardingPolicy: depth-first schedule, L1 chains, one run of the chain solver per chain.

    schedule -> build chains -> resolve each (chain solver) -> replay its L1 -> compare with DRAM -> complete

A chain that cannot be resolved fails with its reason and is cut at the op where it failed, so that one bad
edge costs one edge and not the chain. A resolved chain that the OpModel predicts no faster than the same
ops in DRAM is solved again for time; if that does not help either, its ops stay in DRAM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.chains.chain_plan import take_in
from optimizer.sharding.chains.chain_resolution import Observer, Resolution, decision_in_dram, failures, resolve_chains
from optimizer.sharding.chains.l1_chain import ChainState, L1Chain, SpillLocation
from optimizer.sharding.chains.l1_interleaved import keep_interleaved
from optimizer.sharding.merging.plan_state import PlanState
from optimizer.sharding.overriding import separate_copies


@dataclass(frozen=True)
class DFShardingPolicy:
    """Sharded L1 chains along operand 0, everything between chains in DRAM."""

    name: str = "dfsharding"
    observer: Observer | None = None
    """Called with every chain's oracle and ShardSolver result (cross-checks against other solvers)."""

    def run(self, problem: PolicyInput) -> Plan:
        return isolated_chains(problem, resolve_chains(problem, self.observer))


def isolated_chains(problem: PolicyInput, resolution: Resolution) -> Plan:
    """The plan in which every chain that pays by itself is spilled to DRAM at its end."""
    state = PlanState(problem, resolution.schedule, resolution.dram)
    chains = [chain.copy() for chain in resolution.chains]
    for chain in (c for c in chains if c.state is ChainState.RESOLVED):
        resolver = resolution.resolver(chain)
        if not resolver.pays:
            chain.fail(resolver.slow_reason())
        else:
            take_in(state, chain, resolver)
    _explain_failures(chains, state.decisions)
    resolved = [chain for chain in chains if chain.state is ChainState.RESOLVED]
    complete = not problem.options.l1_interleaved_fallback or keep_interleaved(state, resolved)
    decisions = dict(state.decisions)
    for chain in resolved:
        chain.complete(SpillLocation.DRAM)
    separate_copies(problem, resolution.schedule, decisions)
    status = "feasible" if complete and not resolution.cut_off else "fallback"
    records = tuple(c.record() for c in chains)
    return Plan(resolution.schedule, decisions, records, (), tuple(failures(chains)), status)


def _explain_failures(chains: Sequence[L1Chain], decisions: dict[str, OpDecision]) -> None:
    """Ops of failed chains say why, unless a part of the chain has placed them."""
    for chain in chains:
        for op_id in chain.ops if chain.state is ChainState.FAILED else ():
            if decisions[op_id].chain is None:
                decisions[op_id] = decision_in_dram(chain, decisions[op_id])
