"""DFShardingPolicy: depth-first schedule, L1 chains, one ShardSolver run per chain.

    schedule -> build chains -> resolve each (ShardSolver) -> replay its L1 -> compare with DRAM -> complete

A chain that cannot be resolved fails with its reason and is cut at the op where it failed, so that one bad
edge costs one edge and not the chain. A resolved chain that the OpModel predicts no faster than the same
ops in DRAM is solved again for time (CP-SAT); if that does not help either, its ops stay in DRAM.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.chain_building import build_chains
from optimizer.sharding.chain_oracle import ChainOracle
from optimizer.sharding.chain_resolver import NO_FASTER, ChainResolver
from optimizer.sharding.dram import dram_decision
from optimizer.sharding.l1_chain import L1Chain
from optimizer.sharding.l1_interleaved import L1InterleavedFallback
from optimizer.sharding.overriding import apart_from_chains, separate_copies
from optimizer.sharding.schedule import depth_first_schedule
from optimizer.solver.problem import ChainResult

TIME_IS_UP = "the search was stopped before it"
"""How the reason of a chain begins that was never looked at."""

Observer = Callable[[L1Chain, ChainOracle, ChainResult], None]


@dataclass(frozen=True)
class DFShardingPolicy:
    """Sharded L1 chains along operand 0, everything between chains in DRAM."""

    name: str = "dfsharding"
    observer: Observer | None = None
    """Called with every chain's oracle and ShardSolver result (cross-checks against other solvers)."""

    def run(self, problem: PolicyInput) -> Plan:
        schedule = depth_first_schedule(problem.graph)
        dram = {op_id: dram_decision(problem, problem.graph.op(op_id), "not in an L1 chain") for op_id in schedule}
        decisions: dict[str, OpDecision] = dict(dram)
        apart = apart_from_chains(problem)
        pending = deque(build_chains(problem.graph, schedule, problem.legal, apart))
        finished: list[L1Chain] = []
        while pending:
            chain = pending.popleft()
            problem.say(f"{chain.id}: {len(chain.ops)} ops")
            if problem.time_is_up():
                chain.fail(f"{TIME_IS_UP} ({problem.stopped_because()})")
                finished.append(chain)
                decisions.update(_in_dram(chain, decisions))
                continue
            resolver = ChainResolver(problem, chain, dram)
            solved = resolver.resolve()
            if self.observer is not None:
                self.observer(chain, resolver.oracle, solved)
            finished.append(chain)
            if resolver.cut is not None:
                pending.extendleft(reversed(_parts(chain, resolver.cut)))
            decisions.update(resolver.decisions())
            if chain.reason is not None:
                decisions.update(_in_dram(chain, decisions))
        if problem.options.l1_interleaved_fallback:
            L1InterleavedFallback(problem, schedule, decisions, finished).apply()
        separate_copies(problem, schedule, decisions)
        warnings = _failures(finished)
        cut_off = any(c.reason is not None and c.reason.startswith(TIME_IS_UP) for c in finished)
        status = "fallback" if cut_off else "feasible"
        return Plan(schedule, decisions, tuple(c.record() for c in finished), (), tuple(warnings), status)


def _parts(chain: L1Chain, cut: int) -> list[L1Chain]:
    """The chains before and from position `cut` of a failed chain of several ops."""
    parts = []
    for suffix, ops in (("a", chain.ops[:cut]), ("b", chain.ops[cut:])):
        part = L1Chain(f"{chain.id}{suffix}", list(ops))
        part.build()
        parts.append(part)
    return parts


def _in_dram(chain: L1Chain, decisions: Mapping[str, OpDecision]) -> dict[str, OpDecision]:
    """The DRAM decisions of a failed chain's ops, with the reason."""
    result = {}
    for op_id in chain.ops:
        kept = decisions[op_id]
        chosen = kept.reason["chosen"] if "override" in kept.reason else "DRAM"
        reason = {"chosen": chosen, "chain": chain.id, "because": chain.reason}
        result[op_id] = OpDecision(kept.candidate, kept.operands, None, reason)
    return result


def _failures(chains: Sequence[L1Chain]) -> list[str]:
    """One line for all chains that share a general reason, one for every other failure, naming its ops."""
    lines = []
    general: list[L1Chain] = []
    for text in (NO_FASTER, TIME_IS_UP):
        alike = [c for c in chains if c.reason is not None and c.reason.startswith(text)]
        general += alike
        if alike:
            lines.append(f"{len(alike)} chain(s) stay in DRAM: {text} ({alike[0].id}, ...; see `chains`)")
    for chain in chains:
        if chain.reason is not None and chain not in general:
            shown = ", ".join(chain.ops[:3]) + (", ..." if len(chain.ops) > 3 else "")
            lines.append(f"{chain.id} ({shown}) is cut or stays in DRAM: {chain.reason}")
    return lines
