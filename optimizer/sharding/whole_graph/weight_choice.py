"""Which weights stay in L1, for a plan whose layouts are settled otherwise: a knapsack.

Weights in L1 lie at the top of every bank and move everything else down by their size. What a plan without them leaves
free at its fullest step is therefore the room for all of them; each of them saves its readers time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import ceil_div
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.solver.graphs.knapsack import choose_items

UNIT_BYTES = 1024
"""Sizes are rounded up to this."""
TRIES = 6
"""Choices replayed, each in less room by what the one before had too much."""

Reads = Mapping[str, TensorLayout]
"""Weights read from L1, and how."""


@dataclass(frozen=True)
class _Kept:
    """Weights that may be kept: for one op, or for all that read the same ones."""

    options: Mapping[int, int]
    """Node -> option."""
    saved_ns: int
    size: int


class WeightChoice:
    """Puts weights into L1 in choices of one problem."""

    def __init__(self, model: GlobalProblem, pricer: OpPricer) -> None:
        self._model = model
        self._pricer = pricer
        self._ops = range(len(model.schedule))
        self._possible = any(way.option.weight_bytes for ways in model.ways for way in ways)
        self._filled: dict[tuple[int, ...], tuple[int, ...] | None] = {}

    def without(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """The same choice with every weight in DRAM, each op in the fastest way of the same interface."""
        result = list(chosen)
        for t in self._ops:
            result[t] = self._fastest(t, chosen[t], {})
        for v in self._model.weights:
            result[self._model.node_of[v]] = 0
        return self._model.with_best_kernels(result)

    def filled(self, chosen: Sequence[int]) -> tuple[int, ...] | None:
        """The same choice with the weights in L1 that save most time; None if it does not fit even without any.

        It has passed the replay.
        """
        if not self._possible:
            return None
        base = self.without(chosen)
        if base not in self._filled:
            self._filled[base] = self._fill(base)
        return self._filled[base]

    def _fill(self, base: tuple[int, ...]) -> tuple[int, ...] | None:
        room = self._spare_bytes(base)
        if room < 0:
            return None
        groups = self._groups(base)
        items = [[(kept.saved_ns, ceil_div(kept.size, UNIT_BYTES)) for kept in group] for group in groups]
        for _ in range(TRIES):
            chosen = list(base)
            for group, item in zip(groups, choose_items(items, room // UNIT_BYTES), strict=True):
                for node, option in group[item].options.items() if item is not None else ():
                    chosen[node] = option
            spare = self._spare_bytes(chosen)
            if spare >= 0:
                return self._model.with_best_kernels(chosen)
            room = max(0, room + spare)
        return base

    def _spare_bytes(self, chosen: Sequence[int]) -> int:
        """What no step takes, and no kernel of the choice."""
        decisions = self._model.decisions(chosen, {})
        spare = replay_plan(self._pricer, self._model.schedule, decisions).spare_bytes
        return spare - self._model.kernel_bytes(chosen)

    # -- alternatives ----------------------------------------------------------------------------------
    def _reads(self, t: int, option: int) -> Reads:
        way = self._model.ways[t][option]
        operands = ((v, way.option.operands[k]) for k, v in self._model.weight_operands(self._model.schedule[t]))
        return {v: layout for v, layout in operands if layout.is_l1}

    def _fastest(self, t: int, option: int, kept: Reads) -> int:
        """The fastest way of the same interface, as exact, that reads no weights from L1 but these; else itself."""
        ways = self._model.ways[t]
        noise = ways[option].option.noise
        possible = [
            i
            for i in self._model.twins(t, option)
            if self._reads(t, i).items() <= kept.items() and ways[i].option.noise.no_more_than(noise)
        ]
        return min(possible or [option], key=lambda i: (ways[i].option.time_ns, ways[i].option.peak_bytes, i))

    def _groups(self, base: Sequence[int]) -> list[list[_Kept]]:
        """Alternatives, of each group one at most: ways of one op, or ways to keep what several ops read."""
        groups: list[list[_Kept]] = []
        sharing: dict[str, list[int]] = {}
        for t in self._ops:
            reads = [self._reads(t, i) for i in self._model.twins(t, base[t])]
            own = [kept for kept in reads if kept and not kept.keys() & self._model.weights.keys()]
            common = [v for kept in reads for v in kept if v in self._model.weights]
            if own:
                groups.append([self._kept([t], base, kept) for kept in own])
            elif common:
                sharing.setdefault(common[0], []).append(t)
        for members in sharing.values():
            patterns = [self._reads(t, i) for t in members for i in self._model.twins(t, base[t])]
            distinct = {tuple(kept.items()): kept for kept in patterns if kept}
            groups.append([self._kept(members, base, kept) for kept in distinct.values()])
        return [found for group in groups if (found := [kept for kept in group if kept.saved_ns > 0])]

    def _kept(self, members: Sequence[int], base: Sequence[int], reads: Reads) -> _Kept:
        """These weights in L1, read from there by all of these ops that can."""
        options = {t: self._fastest(t, base[t], reads) for t in members}
        saved = sum(self._time_ns(t, base[t]) - self._time_ns(t, i) for t, i in options.items())
        for v, layout in reads.items():
            if v in self._model.weights:
                options[self._model.node_of[v]] = self._model.weights[v].index(layout) + 1
        return _Kept(options, saved, sum(self._pricer.value_bytes(v, layout) for v, layout in reads.items()))

    def _time_ns(self, t: int, option: int) -> int:
        return self._model.ways[t][option].option.time_ns
