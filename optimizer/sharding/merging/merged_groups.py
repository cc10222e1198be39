"""Merged groups: what was tried for chains one step at a time, chosen together.

Every trial proposed decisions for a few ops and was taken or refused beside all that was there then. Here its decisions
are options, as are DRAM and what makes each chain fastest. Chains that merge, forks with their readers and concats with
their sources then are groups of ops and values that are chosen together. Where the least time of all of them fits
L1 it is taken at once; else each group is one problem for CP-SAT, its capacity what the reservations of everything else
leave of L1. An answer is taken where the whole plan is faster and the allocator takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimizer.l1.run import Outcome
from optimizer.process import logs
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.chains.chain_plan import ChainPlan
from optimizer.sharding.merging.residency_trials import Trial
from optimizer.sharding.plan_program import Decisions, replay_plan
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.plan_choice import choice_of_plan
from optimizer.solver.graphs.elimination import eliminate
from optimizer.solver.graphs.graph_problem import GraphProblem, GraphSolution
from optimizer.solver.graphs.neighbourhood import Neighbourhoods

Choice = tuple[int, ...]

_log = logs.room("policy")

WORTHWHILE = 0.0005
"""Share of the plan's time that a group must promise to save."""
WORK_PER_NODE = 0.02
"""Deterministic seconds of CP-SAT for a group."""
MOST_OPS = 5_000
"""Of a graph of which groups are solved: the time that they take grows faster than that of the trials. A plan
of a larger one says so in a warning."""
SHRINKING_ROUNDS = 4
"""Answers of one group that the allocator refuses: each time the capacity shrinks by what is missing."""


@dataclass(frozen=True)
class GroupReport:
    """What became of one group."""

    ops: tuple[str, ...]
    """In schedule order."""
    options: int
    before_ns: int
    """Of the group, as the trials left it."""
    bound_ns: int
    """No choice of the group takes less, whatever L1 holds."""
    after_ns: int | None = None
    """None if nothing faster was found that fits."""

    def figures(self) -> dict[str, int | None]:
        """What a log says of it."""
        return {
            "options": self.options,
            "before_ns": self.before_ns,
            "bound_ns": self.bound_ns,
            "after_ns": self.after_ns,
        }


def solve_groups(plan: ChainPlan) -> list[GroupReport]:
    """Choose every group as one problem, in schedule order, and make the plan as fast as that allows."""
    if len(plan.state.schedule) > MOST_OPS:
        return []
    reports = []
    for report in _Groups(plan).solve():
        reports.append(report)
        _log.info("group", ops=len(report.ops), first=report.ops[0] if report.ops else None, **report.figures())
    return reports


class _Groups:
    def __init__(self, plan: ChainPlan) -> None:
        self._plan = plan
        self._problem: PolicyInput = plan.problem
        self._schedule = plan.state.schedule
        resolution = plan.resolution
        quickest: dict[str, OpDecision] = {}
        for chain in plan.resolved:
            self._problem.poll()
            quickest.update(resolution.resolver(chain).quickest())
        seeds: list[Decisions] = [dict(plan.state.decisions), resolution.dram, quickest, *plan.trials.proposals]
        self._model = GlobalProblem(plan.problem, self._schedule, seeds, open_ops=())
        self._integers = self._model.integers
        self._around = Neighbourhoods(self._integers)
        self._capacity = np.asarray(self._integers.capacity, dtype=np.int64)
        self._step = {op_id: t for t, op_id in enumerate(self._schedule)}

    def solve(self) -> Iterator[GroupReport]:
        chosen = choice_of_plan(self._model, self._problem.pricer, self._plan.state.decisions)
        if chosen is None:
            return
        now, free = self._integers.value(chosen), self._without_limit(self._integers)
        if not self._is_worthwhile(now, free.lower_bound):
            _log.info("no groups", time_ns=now, bound_ns=free.lower_bound)
            return
        if free.chosen is not None and self._fits(self._integers, free) and self._take(free.chosen) is None:
            all_ops = self._ops(range(len(self._integers.sizes)))
            yield GroupReport(all_ops, sum(self._integers.sizes), now, free.lower_bound, free.lower_bound)
            return
        for group in self._components():
            self._problem.poll()
            part = self._part(chosen, group)
            before, free = part.value([chosen[v] for v in group]), self._without_limit(part)
            report = GroupReport(self._ops(group), sum(part.sizes), before, min(before, free.lower_bound))
            if self._is_worthwhile(before, free.lower_bound):
                found = self._better(chosen, group, part, before, free)
                if found is not None:
                    chosen = found
                    report = replace(report, after_ns=self._part(chosen, group).value([chosen[v] for v in group]))
            yield report

    def _without_limit(self, problem: GraphProblem) -> GraphSolution:
        """The least time whatever L1 holds."""
        return eliminate(problem, stop=self._problem.time_is_up)

    def _fits(self, problem: GraphProblem, free: GraphSolution) -> bool:
        """Whether the least time without a limit is proven and within the capacity: then it is that with the limit."""
        return free.chosen is not None and free.value == free.lower_bound and problem.fits(free.chosen)

    def _is_worthwhile(self, now: int, bound: int) -> bool:
        return now - bound > WORTHWHILE * self._plan.state.time_ns

    def _components(self) -> list[tuple[int, ...]]:
        """Nodes with a choice, grouped where one's cost depends on another's; in schedule order."""
        import networkx as nx  # takes longer to load than most graphs take here

        sizes = self._integers.sizes
        graph = nx.Graph()
        graph.add_nodes_from(v for v, count in enumerate(sizes) if count > 1)
        graph.add_edges_from((p.a, p.b) for p in self._integers.pairs if sizes[p.a] > 1 and sizes[p.b] > 1)
        return sorted(tuple(sorted(found)) for found in nx.connected_components(graph))

    def _ops(self, group: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._schedule[v] for v in group if v < len(self._schedule))

    def _part(self, chosen: Choice, group: Sequence[int]) -> GraphProblem:
        """The group alone, within what everything else leaves."""
        held = self._integers.loads(chosen) - self._integers.loads(chosen, group)
        return self._around.part(chosen, group, np.maximum(0, self._capacity - held))

    def _better(
        self, chosen: Choice, group: Sequence[int], part: GraphProblem, before: int, free: GraphSolution
    ) -> Choice | None:
        """The plan with the group's least time within the capacity, if it is faster and the allocator takes it."""
        found = free.chosen if self._fits(part, free) else self._by_cpsat(part, before)
        for _ in range(SHRINKING_ROUNDS):
            if found is None:
                return None
            changed = list(chosen)
            for v, i in zip(group, found, strict=True):
                changed[v] = i
            outcome = self._take(tuple(changed))
            if outcome is None:
                return tuple(changed)
            if not outcome.overflows:
                return None
            self._shrink(tuple(changed), outcome)
            found = self._by_cpsat(self._part(chosen, group), before)
        return None

    def _by_cpsat(self, part: GraphProblem, before: int) -> Choice | None:
        """Less than `before` within the capacity; None where CP-SAT finds nothing in its work."""
        from optimizer.solver.graphs.graph_cpsat import solve_cpsat  # loads OR-tools

        work = WORK_PER_NODE * len(part.sizes)
        return solve_cpsat(part, work, upper_bound=before, stop=self._problem.time_is_up).chosen

    def _take(self, chosen: Choice) -> Outcome | None:
        """Change the plan; what is wrong with it, and it is as before, if it is no faster or does not fit."""
        state = self._plan.state
        wanted = self._model.decisions(chosen, {})
        changes = {op_id: d for op_id, d in wanted.items() if not _alike(d, state.decisions[op_id])}
        outcome = replay_plan(self._problem.pricer, self._schedule, {**state.decisions, **changes})
        if outcome.overflows or outcome.time_ns >= state.time_ns:
            return outcome
        kept = {op_id: _changed(state.decisions[op_id], d) for op_id, d in changes.items()}
        applied = state.apply(kept)
        layouts = dict.fromkeys(d.candidate.output.describe() for d in kept.values())
        self._plan.trials.log.append(Trial("group", tuple(kept), ", ".join(layouts), True, applied.saved_ns))
        return None

    def _shrink(self, chosen: Choice, outcome: Outcome) -> None:
        """Less capacity where the allocator has no room: holes take the rest."""
        overflow = outcome.overflows[0]
        t, load = self._step[overflow.op_id], self._integers.loads(chosen)
        for s in (2 * t, 2 * t + 1):
            self._capacity[s] = min(self._capacity[s], load[s] - overflow.excess_bytes)


def _alike(one: OpDecision, other: OpDecision) -> bool:
    return one.candidate == other.candidate and tuple(one.operands) == tuple(other.operands)


def _changed(before: OpDecision, wanted: OpDecision) -> OpDecision:
    return replace(before, candidate=wanted.candidate, operands=wanted.operands)
