"""The best plan of `global`, changed so that kernels of ours make it faster: where groups of ops lie is chosen anew.

    groups   ops that one kernel could run if their tensors lay right, wherever they lie now
    moves    a group at a home (a sharding in L1 that all its ops take): the plan's nodes around it chosen again with
             its ops held there; what the plan then takes, kernels included, is asked for one group of each kind
    packing  of the moves that save time those that save most together: no two that change the same nodes or nodes that
             cost something together, within the L1 that is left at every step
    check    the plan with all of them: by the allocator, and by its time with the kernels that then pay

Every plan that is taken has been priced whole; what is packed between are estimates for groups that are alike. So the
result is never slower than the plan it began with. It is not proven best: homes of groups are no options of the search
that the bound is of.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimizer import logs
from optimizer.layouts.memory_config import TensorLayout
from optimizer.sharding.base import Kernels, Plan, PolicyInput
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.plan_choice import choice_of_plan
from optimizer.solver.graphs.graph_problem import FORBIDDEN
from optimizer.solver.graphs.neighbourhood import Neighbourhoods
from optimizer.solver.packing import Item, pack

_log = logs.room("policy")

Choice = tuple[int, ...]
Mask = NDArray[np.bool_]

AROUND = (2, 60)
"""Nodes chosen again with a group: within so many pairs of it, and so many at most."""
MOST_TRIALS = 60
"""Plans that are priced whole for one graph,"""
MOST_SINGLES = 10
"""and so many more where the packed moves do not go together."""
LEAST_GAIN_NS = 1


@dataclass(frozen=True)
class _Move:
    """Nodes chosen otherwise, so that a group lies at a home."""

    changed: Mapping[int, int]
    """Node -> its option."""
    added_ns: int
    """What the plan takes longer by without kernels."""


class KernelChoice:
    """Changes one plan of one whole-graph problem."""

    def __init__(self, problem: PolicyInput, kernels: Kernels, model: GlobalProblem) -> None:
        self._problem, self._kernels, self._model = problem, kernels, model
        self._integers = model.integers
        self._around = Neighbourhoods(self._integers)
        self._step = {op_id: t for t, op_id in enumerate(model.schedule)}
        self._capacity = np.asarray(self._integers.capacity, dtype=np.int64)
        self._trials = 0

    def improved(self, plan: Plan, total_ns: int) -> tuple[Plan, int]:
        """The plan or a faster one, and its time with kernels; `total_ns` is that of the plan."""
        chosen = choice_of_plan(self._model, self._problem.pricer, plan.decisions)
        if chosen is None or plan.schedule != self._model.schedule:
            return plan, total_ns
        moves = self._paying(chosen, total_ns)
        items = [self._item(chosen, move, gain) for move, gain in moves]
        load = self._around.loads(chosen)
        left = {t: int(c) for t, c in enumerate(self._capacity - load)}
        taken = [moves[i] for i in pack(items, left)]
        together = _merged(chosen, [move for move, _ in taken])
        best = self._better(together, total_ns)
        if best is None:
            best = self._one_by_one(chosen, total_ns, [move for move, _ in taken[:MOST_SINGLES]])
        _log.info("kernels", moves=len(moves), taken=len(taken), time_ns=total_ns if best is None else best[1])
        return (plan, total_ns) if best is None else best

    # -- moves -----------------------------------------------------------------------------------------------
    def _paying(self, chosen: Choice, total_ns: int) -> list[tuple[_Move, int]]:
        """Moves that save time, with what each saves: of one group of every kind it is known, of the others guessed."""
        alike: dict[Hashable, list[tuple[str, ...]]] = {}
        asked = self._model.table.asked
        for group in self._kernels.groups():
            alike.setdefault(tuple(asked[op_id] for op_id in group), []).append(group)
        found: list[tuple[_Move, int]] = []
        for groups in alike.values():
            for home in self._homes(groups[0]):
                if self._trials == MOST_TRIALS or self._problem.time_is_up():
                    return found
                first = self._move(chosen, groups[0], home)
                gain = None if first is None else self._gain(chosen, groups[0], first, total_ns)
                if first is None or gain is None or gain < LEAST_GAIN_NS:
                    continue
                found.append((first, gain))
                for group in groups[1:]:
                    move = self._move(chosen, group, home)
                    guess = gain + first.added_ns - move.added_ns if move is not None else 0
                    if move is not None and guess >= LEAST_GAIN_NS:
                        found.append((move, guess))
        return found

    def _homes(self, group: Sequence[str]) -> tuple[TensorLayout, ...]:
        """Shardings in L1 of the group's results, those on most cores first."""
        graph = self._problem.graph
        results = [v for op_id in group for v in graph.op(op_id).outputs]
        layouts = dict.fromkeys(home.layout for v in results for home in self._model.homes.get(v, ()))
        sharded = [layout for layout in layouts if layout.is_l1 and layout.is_sharded]
        return tuple(sorted(sharded, key=lambda layout: -layout.num_shard_cores))

    def _move(self, chosen: Choice, group: Sequence[str], home: TensorLayout) -> _Move | None:
        """The nodes around a group chosen again with its ops at a home; None if they cannot be, or are already."""
        allowed = {self._step[op_id]: self._at_home(op_id, home) for op_id in group}
        if not all(mask.any() for mask in allowed.values()) or all(mask[chosen[t]] for t, mask in allowed.items()):
            return None
        free = self._around.around(allowed, *AROUND)
        found = self._around.rechosen(
            chosen, free, self._capacity, range(len(self._capacity)), self._problem.time_is_up, allowed
        )
        if found is None:
            return None
        added_ns = self._integers.value(found) - self._integers.value(chosen)
        if added_ns >= FORBIDDEN // 2:
            return None
        changed = {v: i for v, (i, before) in enumerate(zip(found, chosen, strict=True)) if i != before}
        return _Move(changed, added_ns)

    def _at_home(self, op_id: str, home: TensorLayout) -> Mask:
        """Which ways of an op read what has the shape of its result from this layout, and give the result in it."""
        graph = self._problem.graph
        op = graph.op(op_id)
        shape = graph.value(op.outputs[0]).shape
        weight = self._problem.pricer.is_weight
        full = [k for k, v in enumerate(op.inputs) if graph.value(v).shape == shape and not weight(v)]
        ways = self._model.ways[self._step[op_id]]
        return np.asarray(
            [way.option.candidate.output == home and all(way.option.operands[k] == home for k in full) for way in ways],
            dtype=np.bool_,
        )

    # -- prices ----------------------------------------------------------------------------------------------
    def _gain(self, chosen: Choice, group: Sequence[str], move: _Move, total_ns: int) -> int | None:
        """What the whole plan saves by a move, kernels included; None if not even a kernel that takes no time would."""
        moved = _merged(chosen, [move])
        if move.added_ns >= sum(self._spent(moved, op_id) for op_id in group):
            return None
        self._trials += 1
        better = self._better(moved, total_ns)
        return None if better is None else total_ns - better[1]

    def _spent(self, chosen: Choice, op_id: str) -> int:
        """What an op takes with the copies of its operands and results: no kernel saves more of it."""
        t = self._step[op_id]
        nodes = [t, *(self._model.node_of[v] for v in self._problem.graph.op(op_id).outputs if v in self._model.homes)]
        own = sum(int(self._integers.costs[v][chosen[v]]) for v in nodes)
        pairs = (p for p in self._integers.pairs if p.a in nodes or p.b in nodes)
        return own + sum(int(p.matrix[chosen[p.a], chosen[p.b]]) for p in pairs)

    def _better(self, chosen: Choice, total_ns: int) -> tuple[Plan, int] | None:
        """A choice as a plan with its time, if that is less and the allocator takes it."""
        decisions = self._model.decisions(chosen, {"chosen": "least time over the whole graph, kernels included"})
        replay = replay_plan(self._problem.pricer, self._model.schedule, decisions)
        if replay.overflows:
            return None
        plan = Plan(self._model.schedule, decisions)
        time_ns = replay.time_ns - self._kernels.saved_ns(plan)
        return (plan, time_ns) if time_ns < total_ns else None

    # -- all at once -----------------------------------------------------------------------------------------
    def _item(self, chosen: Choice, move: _Move, gain: int) -> Item:
        """A move as an item: the nodes it changes, the pairs they are in, what it takes of L1 beyond the plan."""
        pairs = {("pair", n) for n, p in enumerate(self._integers.pairs) if p.a in move.changed or p.b in move.changed}
        nodes = tuple(move.changed)
        before = self._around.loads(chosen, nodes)
        after = self._around.loads(_merged(chosen, [move]), nodes)
        memory = {t: int(d) for t, d in enumerate(after - before) if d}
        return Item(gain, frozenset({*pairs, *(("node", v) for v in nodes)}), memory)

    def _one_by_one(self, chosen: Choice, total_ns: int, moves: Sequence[_Move]) -> tuple[Plan, int] | None:
        """The moves that make the plan faster one after the other, where all at once do not."""
        best: tuple[Plan, int] | None = None
        for move in moves:
            if self._problem.time_is_up():
                break
            moved = _merged(chosen, [move])
            found = self._better(moved, total_ns if best is None else best[1])
            if found is not None:
                best, chosen = found, moved
        return best


def _merged(chosen: Choice, moves: Sequence[_Move]) -> Choice:
    """The choice with the nodes of moves changed."""
    result = list(chosen)
    for move in moves:
        for v, i in move.changed.items():
            result[v] = i
    return tuple(result)
