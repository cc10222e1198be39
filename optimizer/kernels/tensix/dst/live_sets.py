"""Steps of a body, and what each does to the slots of DST that are live.

A set of nodes is a bit mask over their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from optimizer.errors import InfeasibleError
from optimizer.kernels.tensix.dst.cost import COPY, load_cycles, op_cycles
from optimizer.kernels.tensix.dst.dag import TileDag, usable_forms
from optimizer.kernels.tensix.tile_forms import Form, Place


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
        self._reader_numbers = [tuple(c - dag.inputs for c in dag.consumers(v)) for v in dag.values]
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

    def readers_of(self, value: int) -> int:
        """The nodes, as a bit mask, that read an input or a node."""
        return self._mask(self.dag.consumers(value))

    def _mask(self, values: Iterator[int] | Sequence[int]) -> int:
        mask = 0
        for v in values:
            mask |= 1 << (v - self.dag.inputs)
        return mask

    def is_live(self, n: int, done: int) -> bool:
        """Whether node number `n`, which has run, is still needed."""
        return bool(self.yielded >> n & 1) or bool(self.readers[n] & ~done)

    @property
    def first(self) -> int:
        """The nodes, as a bit mask, that can run before all others."""
        return sum(1 << n for n, needs in enumerate(self.needs) if not needs)

    def ready_behind(self, ready: int, n: int, after: int) -> int:
        """The nodes that can run once `after` has, of which node number `n` is the last; `ready` could before it."""
        ready ^= 1 << n
        for reader in self._reader_numbers[n]:
            if not self.needs[reader] & ~after:
                ready |= 1 << reader
        return ready

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


def bits(mask: int) -> Iterator[int]:
    """Numbers of the bits that are set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
