"""All chains of a graph, resolved one by one in schedule order; a failed one is cut where it failed or does not pay."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from optimizer.errors import TimeLimitError
from optimizer.ir.graph import Graph
from optimizer.process import logs
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.chains.chain_building import build_chains
from optimizer.sharding.chains.chain_oracle import ChainOracle
from optimizer.sharding.chains.chain_resolver import NO_FASTER, ONLY_PARTS_PAY, ChainResolver
from optimizer.sharding.chains.l1_chain import ChainState, L1Chain
from optimizer.sharding.dram import dram_decision
from optimizer.sharding.overriding import apart_from_chains
from optimizer.sharding.schedule import depth_first_schedule
from optimizer.solver.chains.chain_problem import ChainResult

TIME_IS_UP = "the search was stopped before it"
"""How the reason of a chain begins that was never looked at."""

_log = logs.room("policy")

Observer = Callable[[L1Chain, ChainOracle, ChainResult], None]


_TOLD = ("objective", "core_usage", "time_ns", "dram_ns", "paths_built", "paths_left")
"""Statistics of a chain that the log shows."""


@dataclass(frozen=True)
class Resolution:
    """The chains of a graph in states Resolved and Failed, and everything in DRAM to compare with."""

    schedule: tuple[str, ...]
    dram: dict[str, OpDecision]
    """Every op outside any chain."""
    chains: tuple[L1Chain, ...]
    resolvers: dict[str, ChainResolver]
    """Chain id -> what resolved it; chains that time left no room for are absent."""
    preferred: dict[str, ChainResolver]
    """Chain id -> the same chain resolved for the sharding that it is to end in, if that differs and can be."""
    cut_off: bool

    def resolver(self, chain: L1Chain) -> ChainResolver:
        return self.resolvers[chain.id]


def resolve_chains(
    problem: PolicyInput,
    observer: Observer | None = None,
    prepare: Callable[[Graph, list[L1Chain]], None] | None = None,
) -> Resolution:
    """Schedule depth first, build chains, let `prepare` set their preferences, resolve each.

    Once the run has to end, chains fail unseen.
    """
    schedule = depth_first_schedule(problem.graph)
    dram = {op_id: dram_decision(problem, problem.graph.op(op_id), "not in an L1 chain") for op_id in schedule}
    built = build_chains(
        problem.graph, schedule, problem.legal, apart_from_chains(problem), set(problem.forced_reshards)
    )
    if prepare is not None:
        prepare(problem.graph, built)
    pending = deque(built)
    finished: list[L1Chain] = []
    resolvers: dict[str, ChainResolver] = {}
    preferred: dict[str, ChainResolver] = {}
    cut_off = False
    while pending:
        chain = pending.popleft()
        finished.append(chain)
        problem.say(f"{chain.id}: {len(chain.ops)} ops")
        try:
            problem.poll()
            other = _resolve_as_preferred(problem, chain, dram)
            resolver = ChainResolver(problem, chain, dram)
            with logs.labelled(chain=chain.id):
                solved = resolver.resolve()
                _tell(chain, resolver.cuts)
        except TimeLimitError:
            fail_unseen(problem, chain)
            cut_off = True
            continue
        resolvers[chain.id] = resolver
        if observer is not None:
            observer(chain, resolver.oracle, solved)
        pending.extendleft(reversed(_parts(chain, resolver.cuts)))
        if other is not None and chain.state is ChainState.RESOLVED:
            preferred[chain.id] = other
    return Resolution(schedule, dram, tuple(finished), resolvers, preferred, cut_off)


def fail_unseen(problem: PolicyInput, chain: L1Chain) -> None:
    """Leave a chain in DRAM that there is no time left for."""
    chain.fail(f"{TIME_IS_UP} ({problem.stopped_because()})")


def _tell(chain: L1Chain, cuts: Sequence[int]) -> None:
    """Log how a chain ended, and where it is cut."""
    first, last = chain.ops[0], chain.ops[-1]
    told = {key: chain.statistics[key] for key in _TOLD if key in chain.statistics}
    _log.info(
        "chain", chain=chain.id, ops=len(chain.ops), first=first, last=last, state=chain.state.value, **told,
        because=chain.reason, cut_at=[chain.ops[cut] for cut in cuts],
    )  # fmt: skip


def _resolve_as_preferred(problem: PolicyInput, chain: L1Chain, dram: Mapping[str, OpDecision]) -> ChainResolver | None:
    """The chain solved so that it ends in the sharding it should have; None if it cannot."""
    if chain.preferred is None:
        return None
    twin = chain.copy()
    resolver = ChainResolver(problem, twin, dram, chain.preferred)
    if not resolver.oracle.candidates[-1]:
        return None
    resolver.resolve()
    return resolver if twin.state is ChainState.RESOLVED else None


def _parts(chain: L1Chain, cuts: Sequence[int]) -> list[L1Chain]:
    """The chains between the cuts of a failed one; none without a cut."""
    ends = (0, *cuts, len(chain.ops))
    parts = []
    for number, (start, end) in enumerate(pairwise(ends) if cuts else ()):
        part = L1Chain(f"{chain.id}{_letters(number)}", chain.ops[start:end])
        part.preferred = chain.preferred if end == len(chain.ops) else None
        part.build()
        parts.append(part)
    return parts


def is_part(part: str, whole: str) -> bool:
    """Whether a chain of this id was cut out of the other one, going by their ids."""
    return part.startswith(whole) and re.fullmatch("z*[a-y]", part[len(whole) :]) is not None


def _letters(number: int) -> str:
    """`a` .. `z`, then `za` and so on, in the order of the numbers."""
    return "z" * (number // 25) + "abcdefghijklmnopqrstuvwxy"[number % 25]


def decision_in_dram(chain: L1Chain, decision: OpDecision) -> OpDecision:
    """The DRAM decision of a failed chain's op, with the reason."""
    chosen = decision.reason["chosen"] if "override" in decision.reason else "DRAM"
    reason = {"chosen": chosen, "chain": chain.id, "because": chain.reason}
    return OpDecision(decision.candidate, decision.operands, None, reason)


def failures(chains: Sequence[L1Chain]) -> list[str]:
    """One line for all chains that share a general reason, one for every other failure, naming its ops."""
    lines = []
    general: set[str] = set()
    for text, outcome in ((ONLY_PARTS_PAY, "are cut"), (NO_FASTER, "stay in DRAM"), (TIME_IS_UP, "stay in DRAM")):
        alike = [c for c in chains if c.reason is not None and c.reason.startswith(text)]
        general.update(c.id for c in alike)
        if alike:
            lines.append(f"{len(alike)} chain(s) {outcome}: {text} ({alike[0].id}, ...; see `chains`)")
    for chain in chains:
        if chain.reason is not None and chain.id not in general:
            shown = ", ".join(chain.ops[:3]) + (", ..." if len(chain.ops) > 3 else "")
            lines.append(f"{chain.id} ({shown}) is cut or stays in DRAM: {chain.reason}")
    return lines
