"""All chains of a graph, resolved one by one in schedule order; a failed one is cut where it failed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.chain_building import build_chains
from optimizer.sharding.chain_oracle import ChainOracle
from optimizer.sharding.chain_resolver import NO_FASTER, ChainResolver
from optimizer.sharding.dram import dram_decision
from optimizer.sharding.l1_chain import L1Chain
from optimizer.sharding.overriding import apart_from_chains
from optimizer.sharding.schedule import depth_first_schedule
from optimizer.solver.problem import ChainResult

TIME_IS_UP = "the search was stopped before it"
"""How the reason of a chain begins that was never looked at."""

Observer = Callable[[L1Chain, ChainOracle, ChainResult], None]


@dataclass(frozen=True)
class Resolution:
    """The chains of a graph in states Resolved and Failed, and everything in DRAM to compare with."""

    schedule: tuple[str, ...]
    dram: dict[str, OpDecision]
    """Every op outside any chain."""
    chains: tuple[L1Chain, ...]
    resolvers: dict[str, ChainResolver]
    """Chain id -> what resolved it; chains that time left no room for are absent."""
    cut_off: bool

    def resolver(self, chain: L1Chain) -> ChainResolver:
        return self.resolvers[chain.id]


def resolve_chains(problem: PolicyInput, observer: Observer | None = None) -> Resolution:
    """Schedule depth first, build chains, resolve each. Once the run shall end, chains fail unseen."""
    schedule = depth_first_schedule(problem.graph)
    dram = {op_id: dram_decision(problem, problem.graph.op(op_id), "not in an L1 chain") for op_id in schedule}
    pending = deque(build_chains(problem.graph, schedule, problem.legal, apart_from_chains(problem)))
    finished: list[L1Chain] = []
    resolvers: dict[str, ChainResolver] = {}
    cut_off = False
    while pending:
        chain = pending.popleft()
        finished.append(chain)
        problem.say(f"{chain.id}: {len(chain.ops)} ops")
        if problem.time_is_up():
            chain.fail(f"{TIME_IS_UP} ({problem.stopped_because()})")
            cut_off = True
            continue
        resolvers[chain.id] = resolver = ChainResolver(problem, chain, dram)
        solved = resolver.resolve()
        if observer is not None:
            observer(chain, resolver.oracle, solved)
        if resolver.cut is not None:
            pending.extendleft(reversed(_parts(chain, resolver.cut)))
    return Resolution(schedule, dram, tuple(finished), resolvers, cut_off)


def _parts(chain: L1Chain, cut: int) -> list[L1Chain]:
    """The chains before and from position `cut` of a failed chain of several ops."""
    parts = []
    for suffix, ops in (("a", chain.ops[:cut]), ("b", chain.ops[cut:])):
        part = L1Chain(f"{chain.id}{suffix}", list(ops))
        part.build()
        parts.append(part)
    return parts


def decision_in_dram(chain: L1Chain, decision: OpDecision) -> OpDecision:
    """The DRAM decision of a failed chain's op, with the reason."""
    chosen = decision.reason["chosen"] if "override" in decision.reason else "DRAM"
    reason = {"chosen": chosen, "chain": chain.id, "because": chain.reason}
    return OpDecision(decision.candidate, decision.operands, None, reason)


def failures(chains: Sequence[L1Chain]) -> list[str]:
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
