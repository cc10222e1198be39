"""Order and forms of a body's ops so that few DST slots are live at once (Phase 0 of the design document).

`best_order` is exact: dynamic programming over the sets of executed nodes, first for the least peak, then for the
least cost at that peak. It is used while the sets are few; beyond, a beam over the same states.
`pressure_aware_order` is list scheduling by six metrics in lexicographic order (Rawat et al., "Associative Instruction
Reordering to Alleviate Register Pressure", SC 2018), which competes with the beam.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Literal

from optimizer.kernels.tensix.dst.dag import TileDag
from optimizer.kernels.tensix.dst.live_sets import LiveSets, Step, StepEffect, bits
from optimizer.process.work_limit import spend

Schedule = Literal["search", "pressure", "critical-path", "given"]
"""How ops are ordered: all orders that may be the cheapest (larger bodies: the best that is found), list scheduling by
the document's metrics, the same with the critical path before reuse, or as the program has them."""
STATE_LIMIT = 20_000
"""Sets of executed nodes that are looked at before the search becomes a beam; fewer in bodies of more than `SMALL`."""
BEAM = 50
"""One of so many sets is kept per length then; fewer in bodies of more than `SMALL`."""
SMALL = 20
"""Nodes of a body that is searched with all of both: effort per state grows with the body, time should not."""


def best_order(
    dag: TileDag, state_limit: int = STATE_LIMIT, allowed: frozenset[tuple[int, int]] | None = None
) -> tuple[Step, ...]:
    """The order with the least peak, and of those with the least cost; exact unless there are more states.

    `allowed`: (value, form) pairs that may be chosen; all by default.
    """
    sets = LiveSets(dag, allowed)
    nodes = max(SMALL, len(dag.nodes))
    peaks = _least_peaks(sets, state_limit * SMALL // nodes)
    if peaks is None:
        return _beam_order(sets, max(1, state_limit // BEAM * SMALL**2 // nodes**2))
    return _cheapest(sets, peaks)


def order_as_given(dag: TileDag, allowed: frozenset[tuple[int, int]] | None = None) -> tuple[Step, ...]:
    """Program order, each node in its form of least peak and cost."""
    sets = LiveSets(dag, allowed)
    done = live = 0
    steps: list[Step] = []
    for n in range(len(dag.nodes)):
        form, effect = _best_form(sets, done, live, n)
        steps.append(Step(dag.inputs + n, form))
        done, live = done | 1 << n, effect.live
    return tuple(steps)


def _best_form(sets: LiveSets, done: int, live: int, n: int) -> tuple[int, StepEffect]:
    options = [(sets.effect(done, live, n, form), form) for form in sets.forms[n]]
    effect, form = min(options, key=lambda o: (o[0].peak, o[0].live, o[0].cost, o[1]))
    return form, effect


def peak_of(dag: TileDag, order: Sequence[Step]) -> int:
    """Most slots in use while the steps run once."""
    sets = LiveSets(dag)
    done = live = highest = 0
    held: tuple[int, ...] = ()
    for step in order:
        effect = sets.effect(done, live, step.value - dag.inputs, step.form, held, step.keep)
        highest, live, done = max(highest, effect.peak), effect.live, done | 1 << (step.value - dag.inputs)
        held = step.keep
    return highest


def _moves(sets: LiveSets, done: int, live: int, ready: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(node number, form, peak, live values afterwards, cost) of everything that can run next."""
    for n in bits(ready):
        spend(1)
        for form, demand in sets.demands[n].items():
            yield n, form, *sets.outcome(done, live, n, demand)


def _least_peaks(sets: LiveSets, state_limit: int) -> int | None:
    """The least peak over all orders; None if there are too many states to say."""
    level = {0: (0, 0, sets.first)}
    visited = 0
    for _ in sets.readers:
        following: dict[int, tuple[int, int, int]] = {}
        for done, (peak, live, ready) in level.items():
            for n, _, here, alive, _ in _moves(sets, done, live, ready):
                after, highest = done | 1 << n, max(peak, here)
                if after not in following:
                    following[after] = highest, alive, sets.ready_behind(ready, n, after)
                elif highest < following[after][0]:
                    following[after] = highest, *following[after][1:]
        visited += len(following)
        if visited > state_limit:
            return None
        level = following
    return min(peak for peak, _, _ in level.values()) if sets.readers else 0


def _cheapest(sets: LiveSets, peak: int) -> tuple[Step, ...]:
    """The cheapest order that stays within a peak."""
    level: dict[int, tuple[int, int, int]] = {0: (0, 0, sets.first)}
    history: list[dict[int, tuple[int, Step]]] = []
    for _ in sets.readers:
        following: dict[int, tuple[int, int, int]] = {}
        origin: dict[int, tuple[int, Step]] = {}
        for done, (cost, live, ready) in sorted(level.items()):
            for n, form, here, alive, price in _moves(sets, done, live, ready):
                after, total = done | 1 << n, cost + price
                if here <= peak and (after not in following or total < following[after][0]):
                    following[after] = total, alive, sets.ready_behind(ready, n, after)
                    origin[after] = done, Step(sets.dag.inputs + n, form)
        history.append(origin)
        level = following
    steps: list[Step] = []
    done = (1 << len(sets.readers)) - 1
    for origin in reversed(history):
        done, step = origin[done]
        steps.append(step)
    return tuple(reversed(steps))


@dataclass(frozen=True, slots=True)
class _Way:
    """Nodes that have run, the last of them in `step`."""

    peak: int
    cost: int
    done: int
    live: int
    ready: int
    before: _Way | None
    step: Step

    @property
    def steps(self) -> tuple[Step, ...]:
        found: list[Step] = []
        way = self
        while way.before is not None:
            found.append(way.step)
            way = way.before
        return tuple(reversed(found))


def _beam_order(sets: LiveSets, beam: int) -> tuple[Step, ...]:
    """The best of a beam over executed sets and of list scheduling."""
    level = [_Way(0, 0, 0, 0, sets.first, None, Step(-1, 0))]
    for _ in sets.readers:
        best: dict[int, _Way] = {}
        for way in level:
            for n, form, here, alive, price in _moves(sets, way.done, way.live, way.ready):
                after, peak, cost = way.done | 1 << n, max(way.peak, here), way.cost + price
                known = best.get(after)
                if known is None or (peak, cost, alive) < (known.peak, known.cost, known.live):
                    ready = sets.ready_behind(way.ready, n, after) if known is None else known.ready
                    best[after] = _Way(peak, cost, after, alive, ready, way, Step(sets.dag.inputs + n, form))
        level = sorted(best.values(), key=lambda w: (w.peak, w.live, w.cost, w.done))[:beam]
    listed = pressure_aware_order(sets.dag)
    found = min(level, key=lambda w: (w.peak, w.cost))
    return listed if peak_of(sets.dag, listed) < found.peak else found.steps


def with_kept_inputs(dag: TileDag, order: Sequence[Step], slots: int) -> tuple[Step, ...]:
    """The order with inputs kept in DST from one reader to the next while it stays within so many slots, those of the
    shortest ways first."""
    sets = LiveSets(dag)
    numbers = [step.value - dag.inputs for step in order]
    demands = [sets.demands[n][step.form] for n, step in zip(numbers, order, strict=True)]
    states = [(0, 0)]
    """(nodes that have run, live values) before each step, whatever is kept."""
    for n, demand in zip(numbers, demands, strict=True):
        states.append((states[-1][0] | 1 << n, sets.outcome(*states[-1], n, demand)[1]))
    ways: list[tuple[int, int, int]] = []
    for a in range(dag.inputs):
        reads = [n for n, demand in enumerate(demands) if a in demand.inputs]
        ways += [(m - n, n, a) for n, m in pairwise(reads) if demands[n].overwritten != a]
    keeps: list[frozenset[int]] = [frozenset()] * len(order)
    for length, first, a in sorted(ways):
        spend(length)
        longer = [keep | {a} for keep in keeps[first : first + length]]
        steps = zip(states[first:], numbers[first:], demands[first:], longer, strict=False)
        if all(sets.outcome(*state, n, demand, (), tuple(keep))[0] <= slots for state, n, demand, keep in steps):
            keeps[first : first + length] = longer
    return _keeping(order, keeps)


def _keeping(order: Sequence[Step], keeps: Sequence[frozenset[int]]) -> tuple[Step, ...]:
    return tuple(replace(step, keep=tuple(sorted(keep))) for step, keep in zip(order, keeps, strict=True))


# -- list scheduling by six metrics -------------------------------------------------------------------
def pressure_aware_order(
    dag: TileDag, allowed: frozenset[tuple[int, int]] | None = None, path_first: bool = False
) -> tuple[Step, ...]:
    """List scheduling: always the ready node with the greatest cost tuple, in its form of least peak and cost.

    `path_first`: the critical path counts more than reuse, for bodies whose ops share most operands (ibid., III-F).
    """
    sets = LiveSets(dag, allowed)
    distance = _distances(dag)
    readers = [sets.readers_of(v) for v in range(dag.count)]
    done = live = 0
    ready = sets.first
    steps: list[Step] = []

    def rank(m: int) -> tuple[int, ...]:
        spend(1)
        release, fire, primary, secondary, affinity, path = _cost_tuple(sets, done, m, distance, readers)
        if path_first:
            return release, fire, path, primary, secondary, affinity, -m
        return release, fire, primary, secondary, affinity, path, -m

    for _ in sets.readers:
        n = max(bits(ready), key=rank)
        form, effect = _best_form(sets, done, live, n)
        steps.append(Step(dag.inputs + n, form))
        done, live = done | 1 << n, effect.live
        ready = sets.ready_behind(ready, n, done)
    return tuple(steps)


def scheduled(dag: TileDag, schedule: Schedule, allowed: frozenset[tuple[int, int]] | None = None) -> tuple[Step, ...]:
    """One order, by the schedule."""
    if schedule == "search":
        return best_order(dag, allowed=allowed)
    if schedule == "given":
        return order_as_given(dag, allowed)
    return pressure_aware_order(dag, allowed, path_first=schedule == "critical-path")


def _distances(dag: TileDag) -> list[int]:
    """Longest way of each node to the end of the body."""
    distance = [0] * len(dag.nodes)
    for v in reversed(dag.values):
        distance[v - dag.inputs] = 1 + max((distance[c - dag.inputs] for c in dag.consumers(v)), default=0)
    return distance


def _cost_tuple(
    sets: LiveSets, done: int, n: int, distance: Sequence[int], readers: Sequence[int]
) -> tuple[int, int, int, int, int, int]:
    """(release, fire, primary affinity, secondary affinity, - non-live affinity, critical path), greater is sooner.

    An op that would overwrite a value with other readers still to come is put off: last, it needs no copy.
    """
    dag, after = sets.dag, done | 1 << n
    node = dag.nodes[n]
    args = [a - dag.inputs for a in dict.fromkeys(node.args) if not dag.is_input(a)]
    release = sum(not sets.is_live(a, after) for a in args)
    fire = sets.ready_behind(1 << n, n, after).bit_count()
    primary = len(args)
    others = reduce(or_, (readers[a] for a in node.args), 0)
    secondary, penalty = (others & done).bit_count(), (others & ~after).bit_count()
    overwrites = all(form.in_place is not None for form in node.definition.forms)
    if overwrites and any(sets.is_live(a, after) for a in args):
        penalty += 100
    return release, fire, primary, secondary, -penalty, distance[n]
