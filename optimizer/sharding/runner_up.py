"""What an op's other layouts and configs would have cost: solved again around the op, with each of them forced.

The ops near it may change too, so that each alternative gets the neighbours that suit it; ops further away stay as
planned, and L1 must hold the whole. Every figure is the time of a complete plan, replayed on the runtime's allocator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from optimizer.ir.graph import Op
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.overrides import spelled
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.overriding import AloneDecision
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph.global_options import WIDEST
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.solver.graphs.elimination import eliminate, node_totals
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem
from optimizer.solver.graphs.price_ascent import fit_by_prices

NEARBY_HOPS = 2
"""Steps from an op to those that read its results, or give its operands, within which ops are chosen again."""
NEARBY_OPS = 8
SOLVED = 6
"""Alternatives that are solved for."""
FITTING_ROUNDS = 12
SHOWN_LAYOUTS = 3

NARROWER = f"the op takes it; only the {WIDEST} widest grids of a kind of sharding are tried beside other ops"

Decisions = Mapping[str, OpDecision]
Group = tuple[TensorLayout, bool]
"""Layout of the result, and whether the config is the chosen one."""


@dataclass(frozen=True)
class Alternative:
    """One way to run the op, in the best plan with it."""

    candidate: OpCandidate
    op_time_ns: int
    total_time_ns: int | None = None
    """Of the whole plan; None if none was found that fits."""
    why_not: str | None = None
    """What keeps it from fitting."""

    def to_json(self, plan_ns: int) -> dict[str, Any]:
        total, config = self.total_time_ns, self.candidate.config
        return {
            "layout": self.candidate.output.describe(),
            "config": None if config is None else config.to_json(),
            "op_time_ns": self.op_time_ns,
            "total_time_ns": total,
            "delta_ns": None if total is None else total - plan_ns,
            "why_not": self.why_not,
        }


class RunnerUp:
    """The alternatives of one op of a finished plan."""

    def __init__(self, problem: PolicyInput, schedule: Sequence[str], decisions: Decisions, op_id: str) -> None:
        self._problem = problem
        self._pricer = problem.pricer
        self._schedule = tuple(schedule)
        self._op = problem.graph.op(op_id)
        self._at = self._schedule.index(op_id)
        self._chosen = decisions[op_id]
        self.opened = self._nearby()
        """Ops that are chosen again."""
        self._model = GlobalProblem(problem, schedule, [decisions], self.opened)
        self.plan_ns = replay_plan(self._pricer, self._schedule, decisions).time_ns

    def record(self) -> dict[str, Any]:
        """`{plan_time_ns, chosen, runner_up, alternatives, more, excluded, opened}`; alternatives fastest first."""
        found, more = self.alternatives()
        shown = [alternative.to_json(self.plan_ns) for alternative in found]
        return {
            "plan_time_ns": self.plan_ns,
            "chosen": Alternative(self._chosen.candidate, self._own_ns(), self.plan_ns).to_json(self.plan_ns),
            "runner_up": next((a for a in shown if a["total_time_ns"] is not None), None),
            "alternatives": shown,
            "more": more,
            "excluded": self.excluded(),
            "opened": list(self.opened),
        }

    def alternatives(self) -> tuple[list[Alternative], int]:
        """The most promising other layouts (and the best other config of the chosen layout), fastest first.

        Also how many more there are, which were not solved for.
        """
        groups: dict[Group, list[int]] = {}
        for i, way in enumerate(self._model.ways[self._at]):
            groups.setdefault(self._group(way.option.candidate), []).append(i)
        groups.pop((self._chosen.candidate.output, True), None)
        totals = node_totals(self._model.integers, self._at)
        ranked = sorted(groups, key=lambda g: (min(int(totals[i]) for i in groups[g]), g[0].describe(), g[1]))
        possible = [g for g in ranked if any(totals[i] < FORBIDDEN for i in groups[g])]
        found = [self._solved(groups[g], totals) for g in possible[:SOLVED]]
        found.sort(key=lambda a: (a.total_time_ns is None, a.total_time_ns or 0))
        return found, len(possible) - len(found)

    def excluded(self) -> list[dict[str, Any]]:
        """Legal layouts that are no options here, by cause."""
        legal = self._problem.legal[self._op.id]
        offered = {way.option.candidate.output for way in self._model.ways[self._at]}
        rows: dict[TensorLayout, list[OpCandidate]] = {}
        for candidate in (*legal.dram, *legal.l1_interleaved, *legal.sharded):
            if candidate.output not in offered:
                rows.setdefault(candidate.output, []).append(candidate)
        causes: dict[str, list[str]] = {}
        for layout, candidates in rows.items():
            causes.setdefault(self._cause(candidates), []).append(spelled(layout))
        listed = sorted(causes.items(), key=lambda item: (-len(item[1]), item[0]))
        return [{"cause": cause, "count": len(found), "layouts": found[:SHOWN_LAYOUTS]} for cause, found in listed]

    # -- around the op -------------------------------------------------------------------------------
    def _nearby(self) -> tuple[str, ...]:
        """The op and those within a few steps, nearest first, in schedule order."""
        run = set(self._schedule)
        found = dict.fromkeys([self._op.id])
        edge = [self._op]
        for _ in range(NEARBY_HOPS):
            reached = [op for near in edge for op in self._neighbours(near) if op.id in run and op.id not in found]
            edge = list({op.id: op for op in reached}.values())[: NEARBY_OPS - len(found)]
            found |= dict.fromkeys(op.id for op in edge)
        return tuple(op_id for op_id in self._schedule if op_id in found)

    def _neighbours(self, op: Op) -> list[Op]:
        graph = self._problem.graph
        producers = [p for p in (graph.producer(v) for v in op.inputs) if p is not None]
        return [*(reader for v in op.outputs for reader in graph.consumers(v)), *producers]

    # -- one alternative -----------------------------------------------------------------------------
    def _group(self, candidate: OpCandidate) -> Group:
        chosen = self._chosen.candidate
        same = candidate.output == chosen.output and candidate.config == chosen.config
        return (candidate.output, same)

    def _solved(self, members: Sequence[int], totals: np.ndarray[Any, np.dtype[np.int64]]) -> Alternative:
        """The best plan in which the op runs in one of these ways."""
        forced = self._forced(members)
        solution = fit_by_prices(forced, FITTING_ROUNDS)
        if solution.chosen is None:
            best = min(members, key=lambda i: (int(totals[i]), i))
            option = self._model.ways[self._at][best].option
            return Alternative(option.candidate, option.time_ns, why_not=self._too_much(forced))
        option = self._model.ways[self._at][solution.chosen[self._at]].option
        decisions = self._model.decisions(solution.chosen, {})
        replay = replay_plan(self._pricer, self._schedule, decisions)
        if replay.overflows:
            first = replay.overflows[0]
            why = f"does not fit: L1 lacks {first.excess_bytes} B at {first.op_id}, holes and circular buffers counted"
            return Alternative(option.candidate, option.time_ns, why_not=why)
        return Alternative(option.candidate, option.time_ns, replay.time_ns)

    def _own_ns(self) -> int:
        candidate = self._chosen.candidate
        op = candidate.of(self._op)
        return self._pricer.cost(op, self._chosen.operands, candidate.config, candidate.request).time_ns

    def _forced(self, members: Sequence[int]) -> GraphProblem:
        integers = self._model.integers
        row = np.full_like(integers.costs[self._at], FORBIDDEN)
        row[list(members)] = integers.costs[self._at][list(members)]
        return replace(integers, costs=(*integers.costs[: self._at], row, *integers.costs[self._at + 1 :]))

    def _too_much(self, forced: GraphProblem) -> str:
        """Where L1 is short, and by how much, in the best plan that ignores L1."""
        chosen = eliminate(forced).chosen
        assert chosen is not None
        excess = forced.loads(chosen) - np.asarray(forced.capacity, dtype=np.int64)
        step = int(excess.argmax())
        return f"does not fit: L1 lacks {int(excess[step])} B at {self._schedule[step // 2]}"

    def _cause(self, candidates: Sequence[OpCandidate]) -> str:
        alone = AloneDecision(self._problem, self._op)
        if any(alone.runs(candidate) for candidate in candidates):
            return NARROWER
        refusals: Counter[str] = Counter()
        for (message, _), count in alone.refusals.items():
            refusals[message] += count
        return min(refusals, key=lambda m: (-refusals[m], m), default="its operands cannot be brought to such a layout")
