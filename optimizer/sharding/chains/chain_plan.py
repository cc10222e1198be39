"""`ChainPlan`: resolved chains in one plan, the results of which may stay in L1.

The plan begins with every resolved chain, also those that do not pay while they are spilled: what they lose at their
ends is what merging saves. Chains are taken in one by one, in schedule order; one that does not fit beside what the
chains before it hold fails. At the end every chain is completed with the place of its result.
"""

from __future__ import annotations

from dataclasses import replace

from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.chains.chain_resolution import Resolution, decision_in_dram, fail_unseen
from optimizer.sharding.chains.chain_resolver import ChainResolver
from optimizer.sharding.chains.l1_chain import ChainState, L1Chain, SpillLocation
from optimizer.sharding.merging.plan_state import PlanState
from optimizer.sharding.merging.residency_trials import ResidencyTrials
from optimizer.sharding.merging.window_validation import fits_the_allocator


def take_in(state: PlanState, chain: L1Chain, resolver: ChainResolver) -> bool:
    """Give a resolved chain's ops its decisions; False, and the chain fails, if they do not fit beside the rest, or the
    run has to end."""
    if state.problem.time_is_up():
        fail_unseen(state.problem, chain)
        return False
    applied = state.apply(resolver.decisions())
    refusal = fits_the_allocator(applied.overflow)
    if refusal is None:
        return True
    state.undo(applied)
    chain.fail(refusal.describe())
    return False


class ChainPlan:
    """The chains of one graph, their plan so far, and the trials made on it."""

    def __init__(self, problem: PolicyInput, resolution: Resolution, slow_too: bool = True) -> None:
        """`slow_too` takes in the chains that do not pay by themselves."""
        self.problem = problem
        self.graph = problem.graph
        self.resolution = resolution
        self.chains = [chain.copy() for chain in resolution.chains]
        self.state = PlanState(problem, resolution.schedule, resolution.dram)
        self.trials = ResidencyTrials(self.state)
        self._chain_of: dict[str, L1Chain] = {}
        for chain in self.resolved:
            resolver = resolution.resolver(chain)
            if not (slow_too or resolver.pays):
                chain.fail(resolver.slow_reason())
            elif take_in(self.state, chain, resolver):
                self._chain_of.update(dict.fromkeys(chain.ops, chain))

    # -- chains --------------------------------------------------------------------------------------
    @property
    def resolved(self) -> list[L1Chain]:
        """The chains that are still in the plan, in schedule order."""
        return [chain for chain in self.chains if chain.state is ChainState.RESOLVED]

    def chain_of(self, op_id: str) -> L1Chain | None:
        """The chain that an op of the plan is in."""
        return self._chain_of.get(op_id)

    def spilled_result(self, chain: L1Chain) -> str | None:
        """The chain's result, if it is written to DRAM."""
        value = self.graph.op(chain.ops[-1]).outputs[0]
        return value if self.state.is_spilled(value) else None

    def leave_in_dram(self, chain: L1Chain, reason: str) -> None:
        """Fail a chain whose ops are back in DRAM."""
        chain.fail(reason)
        for op_id in chain.ops:
            del self._chain_of[op_id]

    # -- decisions -----------------------------------------------------------------------------------
    def in_l1_interleaved(self, op_id: str) -> OpDecision | None:
        """The op with its result L1 interleaved; None if it has no such candidate, or the user fixed it."""
        candidates = self.problem.legal[op_id].l1_interleaved
        if not candidates or op_id in self.problem.overridden:
            return None
        return replace(self.state.decisions[op_id], candidate=candidates[0])

    # -- the end -------------------------------------------------------------------------------------
    def finish(self) -> dict[str, OpDecision]:
        """Complete every chain; the decisions of all ops, with what was tried for their results."""
        decisions = dict(self.state.decisions)
        tried_for = self._tried()
        for chain in self.chains:
            tried = tried_for.get(chain.ops[-1])
            if chain.state is ChainState.RESOLVED:
                chain.complete(self._spill_location(chain))
            else:
                decisions.update(
                    {op_id: self._failed(chain, op_id) for op_id in chain.ops if op_id not in self._chain_of}
                )
            if tried:
                chain.statistics["residency"] = tried
        for op_id, tried in tried_for.items():
            reason = {**decisions[op_id].reason, "residency": tried}
            decisions[op_id] = replace(decisions[op_id], reason=reason)
        return decisions

    def _failed(self, chain: L1Chain, op_id: str) -> OpDecision:
        """The op outside its chain; its result may be in L1 all the same."""
        reason = decision_in_dram(chain, self.resolution.dram[op_id]).reason
        return replace(self.state.decisions[op_id], chain=None, reason=reason)

    def _spill_location(self, chain: L1Chain) -> SpillLocation:
        value = self.graph.op(chain.ops[-1]).outputs[0]
        return SpillLocation.of(self.state.layout(value), self.state.is_spilled(value))

    def _tried(self) -> dict[str, list[dict[str, object]]]:
        """What was tried for the result of every op, as reasons show it."""
        found: dict[str, list[dict[str, object]]] = {}
        for trial in self.trials.log:
            for op_id in dict.fromkeys(trial.ops):
                found.setdefault(op_id, []).append(trial.to_json())
        return found
