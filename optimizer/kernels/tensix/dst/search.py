"""Every order, form and reload of a small body that may be the best: all that no other beats in each respect.

A label is a way to run a set of nodes: the slots it has used, the cycles of its ops, loads and copies, and its
inits. Of two labels with the same nodes run, the same inputs held in DST and the same init, one that is nowhere better
is dropped. What a plan costs grows with each of the three, whatever the capacity and the tiles, so the cheapest plan is
among what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from optimizer.kernels.tensix.dst.cost import InitKey, init_key
from optimizer.kernels.tensix.dst.dag import TileDag
from optimizer.kernels.tensix.dst.live_sets import LiveSets, Step, bits
from optimizer.kernels.tensix.tile_forms import Place
from optimizer.process.work_limit import spend

LABELS = 3_000
"""Labels made before the search is given up."""

_State = tuple[int, tuple[int, ...], int]
"""Nodes that have run, inputs held in DST, and the number of the init that holds."""


@dataclass(frozen=True, slots=True)
class _Label:
    slots: int
    """Used so far: an op that adds to a clear slot takes one that none has used."""
    cycles: int
    inits: int
    live: int
    ready: int
    """Nodes, as a bit mask, that can run next."""
    before: _Label | None
    step: Step | None

    def beats(self, other: _Label) -> bool:
        """Whether it is at least as good in each respect."""
        return self.slots <= other.slots and self.cycles <= other.cycles and self.inits <= other.inits


def undominated_orders(
    dag: TileDag, allowed: frozenset[tuple[int, int]] | None = None, labels: int = LABELS
) -> tuple[tuple[Step, ...], ...] | None:
    """Orders that no other beats in slots, cycles and inits alike; None if there are too many ways to say.

    `allowed`: (value, form) pairs that may be chosen; all by default.
    """
    search = _Search(dag, allowed)
    level: dict[_State, list[_Label]] = {(0, (), -1): [_Label(0, 0, 0, 0, search.first, None, None)]}
    made = 0
    for _ in dag.nodes:
        following: dict[_State, list[_Label]] = {}
        for state, found in level.items():
            for label in found:
                for after, longer in search.steps(state, label):
                    made += 1
                    _add(following.setdefault(after, []), longer)
            if made > labels:
                return None
        level = following
    ends: list[_Label] = []
    for found in level.values():
        for label in found:
            _add(ends, label)
    return tuple(_steps(label) for label in sorted(ends, key=lambda e: (e.slots, e.cycles, e.inits)))


def _add(found: list[_Label], label: _Label) -> None:
    if not any(other.beats(label) for other in found):
        found[:] = [other for other in found if not label.beats(other)]
        found.append(label)


def _steps(label: _Label) -> tuple[Step, ...]:
    steps: list[Step] = []
    at: _Label | None = label
    while at is not None and at.step is not None:
        steps.append(at.step)
        at = at.before
    return tuple(reversed(steps))


class _Search:
    def __init__(self, dag: TileDag, allowed: frozenset[tuple[int, int]] | None) -> None:
        self._sets = LiveSets(dag, allowed)
        self.first = self._sets.first
        self._dag = dag
        self._numbers: dict[InitKey, int] = {}
        self._loads = [self._number(init_key("copy", 0, (-1 - a,))) for a in range(dag.inputs)]
        self._copy = self._number(init_key("copy_dst", 0, ()))
        self._ops = [{f: self._op_init(v, f) for f in self._sets.forms[v - dag.inputs]} for v in dag.values]
        self._readers = [self._read_from_dst(a) for a in range(dag.inputs)]

    def _number(self, key: InitKey) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _op_init(self, value: int, form: int) -> int:
        node = self._dag.node(value)
        places = node.definition.forms[form].places
        sources = [-1 - a for a, place in zip(node.args, places, strict=True) if place is Place.CB]
        return self._number(init_key(node.op, form, sources, node.attrs))

    def _read_from_dst(self, a: int) -> int:
        """Nodes, as a bit mask, that may read an input from DST."""
        demands = enumerate(self._sets.demands)
        return sum(1 << n for n, forms in demands if any(a in demand.inputs for demand in forms.values()))

    def steps(self, state: _State, label: _Label) -> Iterator[tuple[_State, _Label]]:
        """Everything that may come next."""
        done, held, init = state
        for n in bits(label.ready):
            spend(1)
            after = done | 1 << n
            ready = self._sets.ready_behind(label.ready, n, after)
            for form, demand in self._sets.demands[n].items():
                there = dict.fromkeys((*held, *demand.inputs))
                useful = [a for a in there if self._readers[a] & ~after]
                for keep in _subsets(sorted(useful)):
                    effect = self._sets.effect(done, label.live, n, form, held, keep)
                    wanted = [self._loads[a] for a in effect.loads]
                    wanted += [self._copy] if effect.copied is not None else []
                    wanted.append(self._ops[n][form])
                    inits = sum(key != before for before, key in zip((init, *wanted), wanted, strict=False))
                    step = Step(self._dag.inputs + n, form, keep)
                    slots = label.slots + 1 if demand.accumulates else max(label.slots, effect.peak)
                    sums = slots, label.cycles + effect.cost, label.inits + inits
                    yield (after, keep, wanted[-1]), _Label(*sums, effect.live, ready, label, step)


def _subsets(inputs: list[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(inputs) + 1):
        yield from combinations(inputs, size)
