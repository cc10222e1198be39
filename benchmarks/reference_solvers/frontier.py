"""Dynamic programming over the nodes of a graph problem in the order of time, with its capacity, exactly.

A state is the options of the open nodes (those with a pair still to come) and the bytes taken in rows that are not
complete. Of states with the same open options one survives if no other is both as cheap and as small in every row;
bytes below what could still overflow count as none. A state goes when its cost and the least that the rest can cost
reach the best choice known; the least rest comes from mini-bucket elimination in the reverse order, with prices for
memory (Kask and Dechter, "Mini-bucket heuristics for improved search", 1999).

Where more states survive than the limit, those with the least bounds stay, the best of each combination of open
options first: the answer is then a choice and a bound, otherwise it is the optimum. The limit counts states, so that
the answer does not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from optimizer.solver.graphs.capacity import Capacity, capacity_of
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution
from optimizer.solver.graphs.priced import PricedProblem
from optimizer.solver.graphs.usages import Table
from reference_solvers.frontier_order import frontier_order

STATE_LIMIT = 5_000
"""States kept after each node."""
WORK_LIMIT = 60_000_000
"""Of a pass: states times options times rows looked at; a second or three of one core."""
BEAM = 200
"""States of the first pass, which only looks for a good choice."""
BOUND_CELLS = 200_000
"""Largest table of the bounds on what is to come."""
HURRIED = 20
"""States kept once the work is done."""
CROWD = 20
"""So many times the limit are compared with each other after each node, at most."""
NOTHING = 1 << 62
"""Bound of what was lost where nothing was."""
_CHUNK = 1_000_000


@dataclass(frozen=True)
class FrontierResult:
    solution: GraphSolution
    exact: bool
    """Nothing was cut off: the solution is the optimum, or proves that there is none below the upper bound."""
    states: int
    """States kept in all, of both passes."""


def solve_frontier(
    problem: GraphProblem,
    *,
    state_limit: int = STATE_LIMIT,
    beam: int = BEAM,
    work_limit: int = WORK_LIMIT,
    upper_bound: int | None = None,
    prices: Sequence[float] | None = None,
    stop: Callable[[], bool] | None = None,
) -> FrontierResult:
    """The best choice that fits, by a narrow pass for a good one and a wide pass for the rest.

    With `upper_bound` only choices of less value are looked for. `prices` per step (of a byte, as `lagrangian.maximise`
    gives them) sharpen the bounds; any are valid. After `work_limit` (states times options
    times open rows) the rest is searched with few states. `stop` is asked between nodes and does the same.
    """
    run = _Frontier(problem, prices, work_limit)
    cutoff = FORBIDDEN if upper_bound is None else upper_bound
    narrow = run.sweep(min(beam, state_limit), cutoff, stop)
    if narrow.exact or state_limit <= beam or (stop is not None and stop()):
        return narrow
    wide = run.sweep(state_limit, min(cutoff, narrow.solution.value), stop)
    states = narrow.states + wide.states
    found = wide.solution if wide.solution.chosen is not None else narrow.solution
    bound = max(wide.solution.lower_bound, narrow.solution.lower_bound)
    if wide.exact:
        bound = min(found.value, cutoff)
    return FrontierResult(GraphSolution(found.chosen, found.value, min(bound, found.value)), wide.exact, states)


@dataclass(frozen=True)
class _Factor:
    """A table over nodes in the order in which they are met; all but the last are met before."""

    scope: tuple[int, ...]
    table: Table


@dataclass
class _Layer:
    """States after some node."""

    open: tuple[int, ...]
    options: NDArray[np.int32]
    """[state, open node]"""
    used: Table
    """[state, open row]"""
    cost: Table
    priced: Table
    """Cost with prices in 1/scale."""
    parent: NDArray[np.int32]
    taken: NDArray[np.int32]
    """Option of the node just met."""
    bound: Table
    """Least cost with prices of everything, in 1/scale."""


class _Frontier:
    def __init__(self, problem: GraphProblem, prices: Sequence[float] | None, work_limit: int) -> None:
        self._problem = problem
        self._work_limit = work_limit
        self._capacity = capacity_of(problem)
        priced = PricedProblem(problem, self._capacity)
        rows = list(self._capacity.steps)
        given = np.zeros(len(rows)) if prices is None else np.maximum(0.0, np.asarray(prices, dtype=np.float64)[rows])
        self._charged = priced.charge(priced.within_limits(given))
        self._scale = priced.scale
        self._order = frontier_order(problem, self._capacity)
        self._at = {v: i for i, v in enumerate(self._order)}
        self._plain = self._factors(problem)
        self._priced = self._factors(priced.problem)
        self._to_come = self._messages()
        self._last = self._last_neighbours()
        self._rows = _RowPlan(problem, self._capacity, self._order)

    # -- preparation -----------------------------------------------------------------------------------------
    def _factors(self, problem: GraphProblem) -> list[list[_Factor]]:
        """Per node met, its pairs with nodes met before, rows for those."""
        result: list[list[_Factor]] = [[] for _ in self._order]
        for pair in problem.pairs:
            first, then = sorted((pair.a, pair.b), key=self._at.__getitem__)
            matrix = pair.matrix if first == pair.a else pair.matrix.T
            result[self._at[then]].append(_Factor((first, then), matrix))
        return result

    def _last_neighbours(self) -> list[int]:
        """Per node, the place in the order of its last neighbour, at least its own."""
        last = [self._at[v] for v in range(len(self._order))]
        for pair in self._problem.pairs:
            last[pair.a] = max(last[pair.a], self._at[pair.b])
            last[pair.b] = max(last[pair.b], self._at[pair.a])
        return last

    def _messages(self) -> list[list[_Factor]]:
        """Per place in the order, tables over nodes met by then whose sum is least that the nodes after it cost."""
        sizes = self._problem.sizes
        buckets = [list(factors) for factors in self._priced]
        active: list[list[_Factor]] = [[] for _ in self._order]
        sent: list[tuple[int, int, _Factor]] = []
        for place in range(len(self._order) - 1, -1, -1):
            v = self._order[place]
            factors = [_Factor((v,), self._charged.costs[v]), *buckets[place]]
            for group in _groups(factors, sizes):
                message = _least(group, v, sizes, self._at)
                home = self._at[message.scope[-1]] if message.scope else -1
                if home >= 0:
                    buckets[home].append(message)
                sent.append((home, place, message))
        for home, place, message in sent:
            for i in range(max(home, 0), place):
                active[i].append(message)
        self._root = sum(int(message.table) for home, _, message in sent if home < 0)
        return active

    # -- the sweep -------------------------------------------------------------------------------------------
    def sweep(self, limit: int, cutoff: int, stop: Callable[[], bool] | None) -> FrontierResult:
        """One pass that keeps at most `limit` states, for choices of value below `cutoff`."""
        layers: list[_Layer] = []
        layer = self._start()
        lost, states, work = FORBIDDEN, 0, 0
        if (self._capacity.limits < 0).any():
            return FrontierResult(GraphSolution(None, FORBIDDEN, cutoff), True, 0)
        for place in range(len(self._order)):
            if stop is not None and stop():
                limit = 1
            elif work > self._work_limit:
                limit = min(limit, HURRIED)
            work += self._rows.width(place) * len(layer.cost) * len(self._problem.costs[self._order[place]])
            layer, dropped = self._extend(layer, place, limit, cutoff)
            lost = min(lost, dropped)
            states += len(layer.cost)
            layers.append(layer)
            if not len(layer.cost):
                break
        exact = lost >= cutoff
        if not len(layer.cost):
            return FrontierResult(GraphSolution(None, FORBIDDEN, min(cutoff, lost)), exact, states)
        best = int(layer.cost.argmin())
        value = int(layer.cost[best])
        solution = GraphSolution(self._trace(layers, best), value, min(value, lost))
        return FrontierResult(solution, exact or lost >= value, states)

    def _start(self) -> _Layer:
        none = np.zeros(1, dtype=np.int32)
        empty = np.zeros((1, 0), dtype=np.int64)
        zero = np.zeros(1, dtype=np.int64)
        return _Layer((), empty.astype(np.int32), empty, zero, zero, none, none, zero)

    def _trace(self, layers: Sequence[_Layer], state: int) -> tuple[int, ...]:
        chosen = [0] * len(self._order)
        for place in range(len(layers) - 1, -1, -1):
            chosen[self._order[place]] = int(layers[place].taken[state])
            state = int(layers[place].parent[state])
        return tuple(chosen)

    def _extend(self, layer: _Layer, place: int, limit: int, cutoff: int) -> tuple[_Layer, int]:
        """The states after one more node, and the least bound of those that did not fit the limit."""
        parts = []
        step = max(1, _CHUNK // len(self._problem.costs[self._order[place]]))
        for start in range(0, len(layer.cost), step):
            parts.append(self._candidates(layer, place, slice(start, start + step), cutoff))
        grown, lost = _best(_concatenated(parts), CROWD * limit)
        kept, crowded = _undominated(grown, limit)
        lost = min(lost, int(grown.bound[crowded].min(initial=NOTHING)))
        grown, dropped = _best(_taken(grown, kept), limit)
        return grown, self._whole(min(lost, dropped))

    def _whole(self, bound: int) -> int:
        """A bound with prices in 1/scale as one of the cost."""
        if bound == NOTHING:
            return FORBIDDEN
        return max(0, -(-(bound - self._charged.paid) // self._scale))

    def _candidates(self, layer: _Layer, place: int, part: slice, cutoff: int) -> _Layer:
        """Every state of a part with every option of the node, as far as it may lead to a choice below the cutoff."""
        v = self._order[place]
        options, used = layer.options[part], layer.used[part]
        column = {u: options[:, k] for k, u in enumerate(layer.open)}
        width = len(self._problem.costs[v])
        cost = layer.cost[part][:, None] + _sum([_Factor((v,), self._problem.costs[v]), *self._plain[place]], v, column)
        tables = [_Factor((v,), self._charged.costs[v]), *self._priced[place]]
        priced = layer.priced[part][:, None] + _sum(tables, v, column)
        bound = priced + _sum(self._to_come[place], v, column)
        ceiling = self._charged.paid + (cutoff - 1) * self._scale
        shape = (len(options), width)
        fits = np.broadcast_to((cost < min(cutoff, FORBIDDEN)) & (bound <= ceiling), shape)
        state, option = np.nonzero(fits)
        after, room = self._rows.extend(place, used[state], option)
        state, option, after = state[room], option[room], after[room]
        still = tuple(u for u in (*layer.open, v) if self._last[u] > place)
        columns = [option if u == v else column[u][state] for u in still]
        chosen = np.stack(columns, axis=1) if columns else np.zeros((len(state), 0), dtype=np.int32)
        at = (state, option)
        return _Layer(
            still,
            chosen.astype(np.int32),
            after,
            np.broadcast_to(cost, shape)[at],
            np.broadcast_to(priced, shape)[at],
            (state + (part.start or 0)).astype(np.int32),
            option.astype(np.int32),
            np.broadcast_to(bound, shape)[at],
        )


class _RowPlan:
    """Which rows are entered and complete when, and what still may be added to them."""

    def __init__(self, problem: GraphProblem, capacity: Capacity, order: Sequence[int]) -> None:
        self._capacity = capacity
        count = len(capacity.steps)
        first, last = np.full(count, len(order)), np.full(count, -1)
        rest = np.zeros(count, dtype=np.int64)
        most: list[Table] = []
        self._extra: list[Table] = []
        for place, v in enumerate(order):
            extra = np.zeros((len(problem.costs[v]), count), dtype=np.int64)
            if v in capacity.nodes:
                use = capacity.nodes[v]
                for start, end, column in zip(use.starts, use.ends, use.extra.T, strict=True):
                    extra[:, start:end] = column[:, None]
                    first[start:end] = np.minimum(first[start:end], place)
                    last[start:end] = place
            most.append(extra[problem.costs[v] < FORBIDDEN].max(axis=0, initial=0))
            rest += most[-1]
            self._extra.append(extra)
        self._open: list[NDArray[np.intp]] = []
        self._floor: list[Table] = []
        """Per place and open row: bytes below this never overflow."""
        for place in range(len(order)):
            rest = rest - most[place]
            rows = np.flatnonzero((first <= place) & (last > place))
            self._open.append(rows)
            self._floor.append(np.maximum(0, capacity.limits[rows] - rest[rows]))
        self._entered = [np.flatnonzero((first <= place) & (last >= place)) for place in range(len(order))]

    def width(self, place: int) -> int:
        """Rows looked at to extend a state, and one for the rest."""
        return 1 + len(self._entered[place])

    def extend(self, place: int, used: Table, option: NDArray[np.intp]) -> tuple[Table, NDArray[np.bool_]]:
        """Bytes in the rows open after this place, and whether no row overflows."""
        entered, rows = self._entered[place], self._open[place]
        before = self._open[place - 1] if place else rows[:0]
        total = np.zeros((len(option), len(entered)), dtype=np.int64)
        if len(entered):
            total += self._extra[place][:, entered][option]
            total[:, np.searchsorted(entered, before)] += used
        room = np.asarray((total <= self._capacity.limits[entered]).all(axis=1))
        after = total[:, np.searchsorted(entered, rows)]
        return np.maximum(after, self._floor[place]), room


def _groups(factors: Sequence[_Factor], sizes: Sequence[int]) -> list[list[_Factor]]:
    """Tables to be minimised together: as many as stay below the limit of cells, the largest first."""
    groups: list[tuple[list[_Factor], set[int]]] = []
    for factor in sorted(factors, key=lambda f: -f.table.size):
        for group, scope in groups:
            if prod(sizes[u] for u in scope.union(factor.scope)) <= BOUND_CELLS:
                group.append(factor)
                scope.update(factor.scope)
                break
        else:
            groups.append(([factor], set(factor.scope)))
    return [group for group, _ in groups]


def _least(group: Sequence[_Factor], v: int, sizes: Sequence[int], at: dict[int, int]) -> _Factor:
    """The least of the group's sum over the options of its last node."""
    scope = tuple(sorted({u for factor in group for u in factor.scope}, key=at.__getitem__))
    total = np.zeros(tuple(sizes[u] for u in scope), dtype=np.int64)
    for factor in group:
        total += factor.table.reshape(tuple(sizes[u] if u in factor.scope else 1 for u in scope))
    return _Factor(scope[:-1], np.asarray(np.minimum(total.min(axis=-1), FORBIDDEN)))


def _sum(factors: Sequence[_Factor], v: int, column: dict[int, NDArray[np.int32]]) -> Table:
    """Sum of tables for every state and every option of the node: shape (states or 1, options or 1)."""
    total = np.zeros((1, 1), dtype=np.int64)
    for factor in factors:
        before = tuple(column[u] for u in factor.scope if u != v)
        if factor.scope and factor.scope[-1] == v:
            found = factor.table[before] if before else factor.table[None, :]
        else:
            found = factor.table[before][:, None] if before else factor.table.reshape(1, 1)
        total = total + found
    return total


def _concatenated(parts: Sequence[_Layer]) -> _Layer:
    if len(parts) == 1:
        return parts[0]
    names = ("options", "used", "cost", "priced", "parent", "taken", "bound")
    return _Layer(parts[0].open, *(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def _taken(layer: _Layer, kept: NDArray[np.intp]) -> _Layer:
    names = ("options", "used", "cost", "priced", "parent", "taken", "bound")
    return _Layer(layer.open, *(getattr(layer, name)[kept] for name in names))


def _numbered(rows: NDArray[np.int32]) -> NDArray[np.intp]:
    """A number per row, the same for equal rows."""
    if not len(rows) or not rows.shape[1]:
        return np.zeros(len(rows), dtype=np.intp)
    numbers = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        numbers = np.unique(numbers * (int(column.max()) + 1) + column, return_inverse=True)[1].astype(np.int64)
    return numbers.astype(np.intp)


def _best(layer: _Layer, limit: int) -> tuple[_Layer, int]:
    """At most so many states, and the least bound of the others: the best of each combination of open options first."""
    if len(layer.cost) <= limit:
        return layer, NOTHING
    ranked = _diverse(layer)
    return _taken(layer, np.sort(ranked[:limit])), int(layer.bound[ranked[limit:]].min())


def _undominated(layer: _Layer, limit: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """States that no other with the same open options replaces, ascending; of equal ones the first.

    Of one combination of options at most so many are found; the second result are states beyond, not looked at.
    """
    key = _numbered(layer.options)
    order = np.lexsort((*layer.used.T[::-1], layer.cost, key))
    key, used = key[order], layer.used[order]
    kept = np.ones(len(order), dtype=np.bool_)
    kept[1:] = key[1:] != key[:-1]
    crowded = np.zeros(len(order), dtype=np.bool_)
    if used.shape[1] and len(order):
        starts = np.flatnonzero(kept)
        ends = np.append(starts[1:], len(order))
        # Where the cheapest takes the least in every row, it alone survives.
        settled = (used[starts] == np.minimum.reduceat(used, starts, axis=0)).all(axis=1)
        for start, end in zip(starts[~settled], ends[~settled], strict=True):
            kept[start:end], crowded[start:end] = _front(used[start:end], limit)
    return np.sort(order[kept]), order[crowded]


def _front(used: Table, limit: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of states in ascending order of cost: those with less somewhere than each one kept before, and those beyond."""
    kept, beyond = np.zeros((2, len(used)), dtype=np.bool_)
    left = np.arange(len(used))
    for _ in range(limit):
        if not len(left):
            break
        first = left[0]
        kept[first] = True
        left = left[(used[left] < used[first]).any(axis=1)]
    beyond[left] = True
    return kept, beyond


def _diverse(layer: _Layer) -> NDArray[np.intp]:
    """All states, the best bound of every combination of open options first, then the others."""
    order = np.lexsort((layer.cost, layer.bound))
    key = _numbered(layer.options)[order]
    again = np.ones(len(order), dtype=np.bool_)
    again[np.unique(key, return_index=True)[1]] = False
    return np.concatenate((order[~again], order[again]))
