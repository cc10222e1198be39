"""Order and forms of a body's ops so that few DST slots are live at once (Phase 0 of the design document).

`best_order` is exact: dynamic programming over the sets of executed nodes, first for the least peak, then for the
least cost at that peak. It is used while the sets are few; beyond, a beam over the same states.
`pressure_aware_order` is list scheduling by six metrics in lexicographic order (Rawat et al., "Associative Instruction
Reordering to Alleviate Register Pressure", SC 2018), which competes with the beam.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from optimizer.errors import InfeasibleError
from optimizer.kernels.tensix.dst.cost import COPY, load_cycles, op_cycles
from optimizer.kernels.tensix.dst.dag import TileDag, usable_forms
from optimizer.kernels.tensix.tile_forms import Form, Place

Schedule = Literal["search", "pressure", "critical-path", "given"]
"""How ops are ordered: all orders that may be the cheapest (larger bodies: the best that is found), list scheduling by
the document's metrics, the same with the critical path before reuse, or as the program has them."""
STATE_LIMIT = 20_000
"""Sets of executed nodes that are looked at before the search becomes a beam; fewer in bodies of more than `SMALL`."""
BEAM = 50
"""One of so many sets is kept per length then; fewer in bodies of more than `SMALL`."""
SMALL = 20
"""Nodes of a body that is searched with all of both: effort per state grows with the body, time should not."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node run in one of its forms."""

    value: int
    form: int
    keep: tuple[int, ...] = ()
    """Inputs that stay in DST for a later step; all others are loaded again when they are needed. One that the step
    overwrites is loaded twice."""


@dataclass(frozen=True, slots=True)
class StepEffect:
    """What a step does to the live set."""

    peak: int
    """Slots in use while it runs."""
    live: int
    """Slots in use afterwards."""
    loads: tuple[int, ...]
    """Inputs brought to DST for it."""
    copied: int | None
    """A value that lives on and is therefore copied before it is overwritten."""
    cost: int


def form_of(dag: TileDag, step: Step) -> Form:
    return dag.node(step.value).definition.forms[step.form]


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a form of a node asks of DST, whatever has run before."""

    read: tuple[int, ...]
    """Numbers of the nodes that it reads there."""
    inputs: tuple[int, ...]
    """Inputs that it reads there."""
    victim: int | None
    """Number of the node whose slot it overwrites."""
    overwritten: int | None
    """The input whose slot it overwrites."""
    in_place: bool
    accumulates: bool
    cost: int
    """Cycles, without loads and copies."""


class LiveSets:
    """Which values are live after a set of nodes, given as a bit mask over nodes, has run."""

    def __init__(self, dag: TileDag, allowed: frozenset[tuple[int, int]] | None = None) -> None:
        self.dag = dag
        self.needs = [self._mask(a for a in dag.node(v).args if not dag.is_input(a)) for v in dag.values]
        self.readers = [self._mask(dag.consumers(v)) for v in dag.values]
        self.forms = [
            tuple(f for f in usable_forms(dag, v) if allowed is None or (v, f) in allowed) for v in dag.values
        ]
        self.yielded = self._mask(v for v in dag.yields if not dag.is_input(v))
        for v, forms in zip(dag.values, self.forms, strict=True):
            if not forms:
                raise InfeasibleError(_no_form(dag, v), node=dag.node(v).op)
        self.load_cycles = [load_cycles(dag.dtype_of(a)) for a in range(dag.inputs)]
        self.demands = [{f: self._demand(n, f) for f in forms} for n, forms in enumerate(self.forms)]

    def _mask(self, values: Iterator[int] | Sequence[int]) -> int:
        mask = 0
        for v in values:
            mask |= 1 << (v - self.dag.inputs)
        return mask

    def is_live(self, n: int, done: int) -> bool:
        """Whether node number `n`, which has run, is still needed."""
        return bool(self.yielded >> n & 1) or bool(self.readers[n] & ~done)

    def live(self, done: int) -> int:
        """Number of live nodes."""
        return sum(1 for n in range(len(self.readers)) if done >> n & 1 and self.is_live(n, done))

    def ready(self, done: int) -> Iterator[int]:
        """Numbers of the nodes that can run next."""
        for n, needs in enumerate(self.needs):
            if not done >> n & 1 and not needs & ~done:
                yield n

    def effect(
        self, done: int, live: int, n: int, form_index: int, held: Sequence[int] = (), keep: Sequence[int] = ()
    ) -> StepEffect:
        """What running node number `n` in a form does after `done`, of which `live` values are live.

        `held`: inputs that are in DST already; `keep`: those of them, or of what is loaded, that stay.
        """
        demand = self.demands[n][form_index]
        peak, after, cost = self.outcome(done, live, n, demand, held, keep)
        copied = demand.victim if demand.victim is not None and self.is_live(demand.victim, done | 1 << n) else None
        loads = tuple(a for a in demand.inputs if a not in held)
        loads += tuple(a for a in keep if a == demand.overwritten)
        return StepEffect(peak, after, loads, None if copied is None else copied + self.dag.inputs, cost)

    def outcome(
        self, done: int, live: int, n: int, demand: _Demand, held: Sequence[int] = (), keep: Sequence[int] = ()
    ) -> tuple[int, int, int]:
        """(peak, live values afterwards, cost) of a step, as `effect` gives it."""
        waiting = ~(done | 1 << n)
        dying, copied = 0, False
        for a in demand.read:
            if not self.yielded >> a & 1 and not self.readers[a] & waiting:
                dying += 1
            elif a == demand.victim:
                copied = True
        cost = demand.cost + (COPY if copied else 0)
        there = len(demand.inputs)
        for a in demand.inputs:
            if a not in held:
                cost += self.load_cycles[a]
            if a not in keep:
                dying += 1
        for a in keep:
            if a not in demand.inputs:
                there += 1
            elif a == demand.overwritten:
                there += 1
                cost += self.load_cycles[a]
        fresh = not demand.in_place and (demand.accumulates or not dying)
        extra = 1 if copied or fresh else 0
        gone = dying - sum(1 for a in demand.inputs if a not in keep)
        return live + there + extra, live + 1 - gone, cost

    def _demand(self, n: int, form_index: int) -> _Demand:
        dag = self.dag
        node = dag.nodes[n]
        form = node.definition.forms[form_index]
        in_dst = tuple(dict.fromkeys(a for a, p in zip(node.args, form.places, strict=True) if p is Place.DST))
        victim = None if form.in_place is None else node.args[form.in_place]
        return _Demand(
            tuple(a - dag.inputs for a in in_dst if not dag.is_input(a)),
            tuple(a for a in in_dst if dag.is_input(a)),
            None if victim is None or dag.is_input(victim) else victim - dag.inputs,
            victim if victim is not None and dag.is_input(victim) else None,
            form.in_place is not None,
            form.accumulates,
            op_cycles(node.op, form.unit),
        )


def _no_form(dag: TileDag, v: int) -> str:
    """Why a node can run in no form: element types that it rounds, or operands in DST that it reads elsewhere."""
    node = dag.node(v)
    kept = {d for form in node.definition.forms for d in form.dtypes}
    types = [dag.dtype_of(a) for a in node.args]
    if kept and not kept.issuperset(types):
        return f"node {v} ({node.op}) takes {', '.join(sorted(kept))}, and would round its operands: {', '.join(types)}"
    return f"node {v} ({node.op}) has no form for operands in DST"


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


def _moves(sets: LiveSets, done: int, live: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(node number, form, peak, live values afterwards, cost) of everything that can run next."""
    for n in sets.ready(done):
        for form, demand in sets.demands[n].items():
            yield n, form, *sets.outcome(done, live, n, demand)


def _least_peaks(sets: LiveSets, state_limit: int) -> int | None:
    """The least peak over all orders; None if there are too many states to say."""
    level = {0: (0, 0)}
    visited = 0
    for _ in sets.readers:
        following: dict[int, tuple[int, int]] = {}
        for done, (peak, live) in level.items():
            for n, _, here, alive, _ in _moves(sets, done, live):
                after, highest = done | 1 << n, max(peak, here)
                if after not in following or highest < following[after][0]:
                    following[after] = highest, alive
        visited += len(following)
        if visited > state_limit:
            return None
        level = following
    return min(peak for peak, _ in level.values()) if sets.readers else 0


def _cheapest(sets: LiveSets, peak: int) -> tuple[Step, ...]:
    """The cheapest order that stays within a peak."""
    level: dict[int, tuple[int, int]] = {0: (0, 0)}
    history: list[dict[int, tuple[int, Step]]] = []
    for _ in sets.readers:
        following: dict[int, tuple[int, int]] = {}
        origin: dict[int, tuple[int, Step]] = {}
        for done, (cost, live) in sorted(level.items()):
            for n, form, here, alive, price in _moves(sets, done, live):
                after, total = done | 1 << n, cost + price
                if here <= peak and (after not in following or total < following[after][0]):
                    following[after] = total, alive
                    origin[after] = done, Step(sets.dag.inputs + n, form)
        history.append(origin)
        level = following
    steps: list[Step] = []
    done = (1 << len(sets.readers)) - 1
    for origin in reversed(history):
        done, step = origin[done]
        steps.append(step)
    return tuple(reversed(steps))


def _beam_order(sets: LiveSets, beam: int) -> tuple[Step, ...]:
    """The best of a beam over executed sets and of list scheduling."""
    level: list[tuple[int, int, int, int, tuple[Step, ...]]] = [(0, 0, 0, 0, ())]
    for _ in sets.readers:
        best: dict[int, tuple[int, int, int, int, tuple[Step, ...]]] = {}
        for peak, cost, done, live, steps in level:
            for n, form, here, alive, price in _moves(sets, done, live):
                after = done | 1 << n
                entry = (max(peak, here), cost + price, after, alive)
                if after not in best or entry < best[after][:4]:
                    best[after] = (*entry, (*steps, Step(sets.dag.inputs + n, form)))
        level = sorted(best.values(), key=lambda e: (e[0], e[3], e[1], e[2]))[:beam]
    listed = pressure_aware_order(sets.dag)
    found = min(level, key=lambda e: e[:2])
    return listed if peak_of(sets.dag, listed) < found[0] else found[4]


def with_kept_inputs(dag: TileDag, order: Sequence[Step], slots: int) -> tuple[Step, ...]:
    """The order with inputs kept in DST from one reader to the next while it stays within so many slots, those of the
    shortest ways first."""
    sets = LiveSets(dag)
    demands = [sets.demands[step.value - dag.inputs][step.form] for step in order]
    ways: list[tuple[int, int, int]] = []
    for a in range(dag.inputs):
        reads = [n for n, demand in enumerate(demands) if a in demand.inputs]
        ways += [(m - n, n, a) for n, m in pairwise(reads) if demands[n].overwritten != a]
    keeps: list[frozenset[int]] = [frozenset()] * len(order)
    for length, first, a in sorted(ways):
        longer = [keep | {a} if first <= n < first + length else keep for n, keep in enumerate(keeps)]
        if peak_of(dag, _keeping(order, longer)) <= slots:
            keeps = longer
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
    done = live = 0
    steps: list[Step] = []

    def rank(m: int) -> tuple[int, ...]:
        release, fire, primary, secondary, affinity, path = _cost_tuple(sets, done, m, distance)
        if path_first:
            return release, fire, path, primary, secondary, affinity, -m
        return release, fire, primary, secondary, affinity, path, -m

    for _ in sets.readers:
        n = max(sets.ready(done), key=rank)
        form, effect = _best_form(sets, done, live, n)
        steps.append(Step(dag.inputs + n, form))
        done, live = done | 1 << n, effect.live
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


def _cost_tuple(sets: LiveSets, done: int, n: int, distance: Sequence[int]) -> tuple[int, int, int, int, int, int]:
    """(release, fire, primary affinity, secondary affinity, - non-live affinity, critical path), greater is sooner.

    An op that would overwrite a value with other readers still to come is put off: last, it needs no copy.
    """
    dag, after = sets.dag, done | 1 << n
    node = dag.node(dag.inputs + n)
    args = [a - dag.inputs for a in dict.fromkeys(node.args) if not dag.is_input(a)]
    release = sum(not sets.is_live(a, after) for a in args)
    fire = sum(1 for m in sets.ready(after) if m != n and sets.needs[m] >> n & 1)
    primary = len(args)
    waiting = [m for m in range(len(sets.needs)) if not after >> m & 1]
    readers = {m for a in dict.fromkeys(node.args) for m in (c - dag.inputs for c in dag.consumers(a))} - {n}
    secondary = sum(1 for m in readers if done >> m & 1)
    penalty = sum(1 for m in readers if m in waiting)
    overwrites = all(form.in_place is not None for form in node.definition.forms)
    if overwrites and any(sets.is_live(a, after) for a in args):
        penalty += 100
    return release, fire, primary, secondary, -penalty, distance[n]
