"""GlobalPolicy: all ops and values of the graph decided together, for the least predicted time.

    dram and dfsharding plans (incumbents) -> options of every op -> whole-graph problem -> elimination
    -> L1 replay -> where it does not fit, bytes at that step get a price -> eliminate again -> ... -> best clean plan

The first elimination ignores how values share L1, so its value bounds every plan over the same options from below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.dfsharding import DFShardingPolicy
from optimizer.sharding.dram import DramPolicy
from optimizer.sharding.global_problem import GlobalProblem
from optimizer.sharding.plan_replay import PlanProgram, PlanReplay
from optimizer.solver.elimination import eliminate, priced_costs

ROUNDS = 24
"""Solves with dearer L1 until the plan fits."""
FIRST_PRICE = 0.02
"""Of an op's share of the graph's time, per share of L1 that is missing: where prices begin."""


@dataclass(frozen=True)
class _Clean:
    """A plan that fits."""

    plan: Plan
    time_ns: int


class GlobalPolicy:
    """The whole graph at once, proven against a bound."""

    name = "global"

    def run(self, problem: PolicyInput) -> Plan:
        plans = [policy.run(problem) for policy in (DramPolicy(), DFShardingPolicy())]
        clean = []
        for plan in plans:
            replay = PlanProgram(problem.pricer, plan.schedule, plan.decisions).replay()
            if not replay.overflows:
                clean.append(_Clean(plan, replay.time_ns))
        best = min(clean, key=lambda c: c.time_ns, default=None)
        return _Search(problem, plans, best).run()


class _Search:
    def __init__(self, problem: PolicyInput, plans: Sequence[Plan], best: _Clean | None) -> None:
        self._problem = problem
        self._seeds = [plan.decisions for plan in plans]
        self._best = best
        self._schedule = plans[0].schedule
        self._fallback = plans[0]
        self._bound = 0
        self._model = GlobalProblem(problem, self._schedule, self._seeds)
        self._price = [0.0] * (2 * len(self._schedule))
        self._stepsize = [0.0] * len(self._schedule)

    def run(self) -> Plan:
        integers = self._model.integers
        for attempt in range(ROUNDS):
            if self._problem.time_is_up():
                break
            solution = eliminate(integers, priced_costs(integers, self._price))
            if attempt == 0 and self._model.table.complete:
                self._bound = solution.lower_bound
            if solution.chosen is None:
                break
            reason = {"chosen": f"least time over the whole graph, round {attempt + 1}"}
            decisions = self._model.decisions(solution.chosen, reason)
            replay = PlanProgram(self._problem.pricer, self._schedule, decisions).replay()
            self._problem.say(f"round {attempt + 1}: {replay.time_ns} ns, {len(replay.overflows)} op(s) overflow L1")
            if not replay.overflows:
                self._offer(decisions, replay)
                break
            self._raise_prices(replay)
        return self._plan()

    def _offer(self, decisions: Mapping[str, OpDecision], replay: PlanReplay) -> None:
        if self._best is None or replay.time_ns < self._best.time_ns:
            self._best = _Clean(Plan(self._schedule, decisions), replay.time_ns)

    def _raise_prices(self, replay: PlanReplay) -> None:
        """Dearer bytes at every op that overflows; twice as much each time the same op does."""
        limit = self._problem.pricer.l1_limit_bytes
        start = FIRST_PRICE * replay.time_ns / (limit * max(1, len(self._schedule)))
        step_of = {op_id: t for t, op_id in enumerate(self._schedule)}
        for overflow in replay.overflows:
            t = step_of[overflow.op_id]
            self._stepsize[t] = max(start, 2 * self._stepsize[t])
            self._price[2 * t] += self._stepsize[t]
            self._price[2 * t + 1] += self._stepsize[t]

    def _plan(self) -> Plan:
        if self._best is None:
            return self._fallback
        plan = self._best.plan
        status = "optimal" if self._best.time_ns <= self._bound else "feasible"
        return Plan(
            plan.schedule, plan.decisions, plan.chains, plan.reservations, plan.warnings, status, self._bound or None
        )
