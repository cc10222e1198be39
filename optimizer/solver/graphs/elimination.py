"""Node by node elimination (min-plus dynamic programming over the whole graph), with mini-buckets where it gets wide.

Eliminating a node replaces all tables it occurs in by one over its neighbours: the least cost it can add to theirs.
The order is by smallest joint table. Exact while every table stays below the limit, and then the sum of constants is
the optimum (capacity aside). Where a table would be larger, the tables of that node are split into groups that agree on
what each option of the node costs, each minimised alone: the result is then a lower bound (Dechter and Rish,
"Mini-buckets"; moment matching in `cost_tables`). The choice read off it is improved by solving again with nodes
fixed where it would get too wide, others in every pass: exact but for those, so it never gets worse.

Capacity enters through prices: a byte at step t costs `price[t]`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Sequence
from math import prod

import numpy as np

from optimizer.errors import TimeLimitError
from optimizer.process import logs
from optimizer.solver.graphs.cost_tables import Factor, joint, least_by_classes, lifted, matched
from optimizer.solver.graphs.elimination_memo import EliminationMemo, NodeStep, Part, Replacement
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution
from optimizer.solver.graphs.usages import Table, UsageArrays

DEFAULT_TABLE_LIMIT = 1_000_000
"""Entries of the largest table that is built."""
TOTALS_TABLE_LIMIT = 8_000_000
"""The same for the totals of one node, whose table is that of no other elimination."""
IMPROVEMENTS = 3
"""Passes over a choice that is not proven."""
MANY_OPTIONS = 48
"""Nodes with so many options are worked on by classes of them, if that is less work."""

_log = logs.room("solver")

Stop = Callable[[], bool]


def priced_costs(problem: GraphProblem, price: Sequence[float], usages: UsageArrays | None = None) -> tuple[Table, ...]:
    """Node costs with every option charged for its bytes, rounded down so that bounds stay bounds; `usages` instead of
    the problem's own."""
    if not any(price) or (usages is None and not problem.usages):
        return problem.costs
    charges = (usages or problem.usage_arrays).charges(price)
    return tuple(row + charge for row, charge in zip(problem.costs, charges, strict=True))


def eliminate(
    problem: GraphProblem,
    costs: Sequence[Table] | None = None,
    table_limit: int = DEFAULT_TABLE_LIMIT,
    stop: Stop | None = None,
    memo: EliminationMemo | None = None,
    start: Sequence[int] | None = None,
) -> GraphSolution:
    """The best choice when capacity is ignored; it is proven if `lower_bound` equals `value`.

    `costs` replaces the node costs (prices, exclusions). A `memo` kept over solves saves work and changes nothing.
    `start` is a choice known from elsewhere: where tables are split, the one read off may contradict itself, and if
    passes over it do not help, this one is improved instead.
    `stop` is asked before every node; TimeLimitError if it says so. `chosen` is None if there is no choice
    (`lower_bound` FORBIDDEN) or none was found. Deterministic: ties go to the lowest option.
    """
    memo = EliminationMemo() if memo is None else memo
    memo.begin()
    costs = problem.costs if costs is None else costs
    run = _Elimination(problem, costs, table_limit, stop, memo)
    if not run.repeat():
        run = _Elimination(problem, costs, table_limit, stop, memo)
        run.eliminate()
    bound = min(run.bound, FORBIDDEN)
    if bound == FORBIDDEN:
        return GraphSolution(None, FORBIDDEN, FORBIDDEN)
    chosen, value = _improved(problem, costs, table_limit, stop, memo, run.read_off(), bound)
    if value >= FORBIDDEN and start is not None:
        chosen, value = _improved(problem, costs, table_limit, stop, memo, start, bound)
    solution = GraphSolution(None if value >= FORBIDDEN else tuple(chosen), min(value, FORBIDDEN), bound)
    _log.debug("elimination", nodes=len(costs), options=sum(problem.sizes), bound=bound, value=solution.value)
    return solution


def node_totals(problem: GraphProblem, node: int, table_limit: int = TOTALS_TABLE_LIMIT) -> Table:
    """Per option of a node the least total with it, capacity aside, FORBIDDEN if there is none (min-marginals).

    The node is left to the end of the elimination; what then remains is a table over its options. They are exact while
    no table gets too large, else lower bounds (Dechter, "Bucket elimination: a unifying framework", 1999).
    """
    run = _Elimination(problem, problem.costs, table_limit, None, EliminationMemo())
    return run.eliminate_around(node)


def _improved(
    problem: GraphProblem,
    costs: Sequence[Table],
    table_limit: int,
    stop: Stop | None,
    memo: EliminationMemo,
    start: Sequence[int],
    bound: int,
) -> tuple[Sequence[int], int]:
    """The choice and its value after some passes over it, unless it is at the bound already."""
    chosen, value = start, _value(problem, costs, start)
    fixed: frozenset[int] = frozenset()
    for _ in range(IMPROVEMENTS if value > bound else 0):
        again = _Elimination(problem, costs, table_limit, stop, memo, chosen, fixed)
        again.eliminate()
        if again.bound >= FORBIDDEN:
            break
        better = again.read_off()
        fixed = frozenset(again.fixed)
        found = _value(problem, costs, better)
        if found >= value:
            break
        chosen, value = better, found
    return chosen, value


def _value(problem: GraphProblem, costs: Sequence[Table], chosen: Sequence[int]) -> int:
    value = sum(int(row[i]) for row, i in zip(costs, chosen, strict=True))
    return value + sum(int(p.matrix[chosen[p.a], chosen[p.b]]) for p in problem.pairs)


class _Elimination:
    """One pass. With a choice, nodes are fixed to it where tables would get too large; else tables are split."""

    def __init__(
        self,
        problem: GraphProblem,
        costs: Sequence[Table],
        table_limit: int,
        stop: Stop | None,
        memo: EliminationMemo,
        chosen: Sequence[int] | None = None,
        spared: Collection[int] = (),
    ) -> None:
        self._sizes = problem.sizes
        self._limit = table_limit
        self._stop = stop
        self._memo = memo
        self._chosen = chosen
        self._spared = spared
        """Nodes fixed in the pass before: others go first."""
        self.fixed: dict[int, int] = {}
        self.bound = 0
        self._problem = problem
        rows = {id(row): memo.key_of(row) for row in {id(row): row for row in costs}.values()}
        self._factors = [Factor((v,), row, rows[id(row)]) for v, row in enumerate(costs)]
        self._factors += (Factor((p.a, p.b), p.matrix, memo.key_of_shared(p.matrix)) for p in problem.pairs)
        self._of: list[dict[int, Factor]] = [{} for _ in self._sizes]
        self._buckets: list[tuple[NodeStep, Replacement]] = []

    def repeat(self) -> bool:
        """The steps that the last solve of a problem with these pairs took, with this one's tables.

        False, and nothing is usable, if there was none or tables were split otherwise.
        """
        plan = self._memo.plan_of(self._problem.pairs, self._limit)
        for step in plan or ():
            self._poll()
            if not self._do(step):
                return False
        return plan is not None

    def eliminate(self) -> None:
        """All nodes, narrowest first."""
        self._eliminate_all_but(None)
        if self._chosen is None:
            self._memo.keep_plan(self._problem.pairs, self._limit, tuple(step for step, _ in self._buckets))

    def eliminate_around(self, last: int) -> Table:
        """All nodes but one; what its options cost then."""
        self._eliminate_all_but(last)
        total = self.bound + np.sum([factor.table for factor in self._of[last].values()], axis=0)
        return np.asarray(np.minimum(total, FORBIDDEN))

    def _eliminate_all_but(self, last: int | None) -> None:
        for serial, factor in enumerate(self._factors):
            for v in factor.scope:
                self._of[v][serial] = factor
        newest = [self._width(v) for v in range(len(self._sizes))]
        heap = [(width, v) for v, width in enumerate(newest) if v != last]
        heapq.heapify(heap)
        while heap:
            width, v = heapq.heappop(heap)
            if width != newest[v] or v in self.fixed:
                continue
            self._poll()
            newest[v] = -1
            for u in self._take_out(v, width):
                now = self._width(u)
                if now != newest[u] and u != last:
                    newest[u] = now
                    heapq.heappush(heap, (now, u))

    def _poll(self) -> None:
        if self._stop is not None and self._stop():
            raise TimeLimitError("stopped")

    def read_off(self) -> list[int]:
        """Choose in reverse order: each node's best against all tables it was eliminated with."""
        chosen = [0] * len(self._sizes)
        for v, option in self.fixed.items():
            chosen[v] = option
        for step, outcome in reversed(self._buckets):
            at = tuple([chosen[u] for u in step.order if u != step.node])
            if at not in outcome.picks:
                outcome.picks[at] = self._best(step, chosen)
            chosen[step.node] = outcome.picks[at]
        return chosen

    def _best(self, step: NodeStep, chosen: Sequence[int]) -> int:
        row = np.zeros(self._sizes[step.node], dtype=np.int64)
        for serial in step.taken:
            factor = self._factors[serial]
            row += factor.table[tuple(slice(None) if u == step.node else chosen[u] for u in factor.scope)]
        return int(row.argmin())

    # -- factors -------------------------------------------------------------------------------------
    def _add(self, factor: Factor) -> None:
        for v in factor.scope:
            self._of[v][len(self._factors)] = factor
        self._factors.append(factor)

    def _drop(self, v: int) -> dict[int, Factor]:
        """Remove and return all tables of a node, in the order they came."""
        held = self._of[v]
        self._of[v] = {}
        for serial, factor in held.items():
            for u in factor.scope:
                if u != v:
                    del self._of[u][serial]
        return held

    def _scope(self, v: int) -> set[int]:
        return {u for factor in self._of[v].values() for u in factor.scope}

    def _width(self, v: int) -> int:
        """Combinations that eliminating this node looks at."""
        return prod(self._sizes[u] for u in self._scope(v))

    # -- one node ------------------------------------------------------------------------------------
    def _take_out(self, v: int, width: int) -> set[int]:
        """Replace the node's tables; returns the nodes whose tables have changed."""
        changed: set[int] = set()
        if self._chosen is not None and width > self._limit:
            changed = self._fix_around(v)
            if v in self.fixed:
                return changed
        held = self._drop(v)
        order = sorted({u for factor in held.values() for u in factor.scope})
        place = {u: n for n, u in enumerate(order)}
        local = sorted((tuple(place[u] for u in factor.scope), serial) for serial, factor in held.items())
        scopes, taken = tuple(scope for scope, _ in local), tuple(serial for _, serial in local)
        shape = self._memo.shape_of((place[v], self._limit, scopes))
        outcome = self._outcome(place[v], scopes, taken, shape)
        given = tuple(part.scope for part in outcome.parts)
        self._buckets.append((NodeStep(v, tuple(order), taken, scopes, shape, given), outcome))
        self.bound += outcome.constant
        for part in outcome.parts:
            self._add(Factor(tuple(order[n] for n in part.scope), part.table, part.key))
        return changed.union(u for u in order if u != v)

    def _do(self, step: NodeStep) -> bool:
        """A step whose arrangement is known; False if its tables are split otherwise now."""
        outcome = self._outcome(step.order.index(step.node), step.scopes, step.taken, step.shape)
        self._buckets.append((step, outcome))
        self.bound += outcome.constant
        for part in outcome.parts:
            self._factors.append(Factor(tuple([step.order[n] for n in part.scope]), part.table, part.key))
        return tuple([part.scope for part in outcome.parts]) == step.given

    def _outcome(self, node: int, scopes: Sequence[tuple[int, ...]], taken: Sequence[int], shape: int) -> Replacement:
        """What replaces these tables, looked up if it is known."""
        factors = [self._factors[serial] for serial in taken]
        signature = (shape, tuple([factor.key for factor in factors]))
        outcome = self._memo.find(signature)
        if outcome is None:
            local = [Factor(scope, f.table, f.key) for scope, f in zip(scopes, factors, strict=True)]
            outcome = _Bucket(node, local, self._memo, self._limit).outcome(signature)
            self._memo.put(signature, outcome)
        return outcome

    def _fix_around(self, v: int) -> set[int]:
        """Fix neighbours of the node, or itself, until what remains is narrow enough."""
        assert self._chosen is not None
        changed: set[int] = set()
        while v not in self.fixed and self._width(v) > self._limit:
            u = min(self._scope(v), key=lambda u: (u in self._spared, u == v, -self._sizes[u], u))
            changed |= self._fix(u, self._chosen[u])
        return {u for u in changed if u not in self.fixed and u != v}

    def _fix(self, u: int, option: int) -> set[int]:
        self.fixed[u] = option
        changed: set[int] = set()
        for factor in self._drop(u).values():
            axis = factor.scope.index(u)
            scope = (*factor.scope[:axis], *factor.scope[axis + 1 :])
            changed.update(scope)
            if scope:
                table = np.ascontiguousarray(factor.table.take(option, axis=axis))
                self._add(Factor(scope, table, self._memo.key_of(table)))
            else:
                self.bound += int(factor.table[option])
        return changed


class _Bucket:
    """The tables of one node, in local terms: nodes are positions among it and its neighbours."""

    def __init__(self, node: int, factors: Sequence[Factor], memo: EliminationMemo, limit: int) -> None:
        self._node = node
        self._factors = factors
        self._memo = memo
        self._limit = limit
        self._sizes = {u: size for f in factors for u, size in zip(f.scope, f.table.shape, strict=True)}

    def outcome(self, signature: Hashable) -> Replacement:
        whole = self._by_classes()
        if whole is not None:
            tables = [whole]
        else:
            groups = self._groups()
            orders = [self._order(group) for group in groups]
            sums = [joint(g, o, [self._sizes[u] for u in o]) for g, o in zip(groups, orders, strict=True)]
            sums = matched(sums) if len(sums) > 1 else sums
            tables = [(tuple(o[1:]), s.min(axis=0)) for o, s in zip(orders, sums, strict=True)]
        parts, constant = [], 0
        for n, (scope, table) in enumerate(tables):
            if not scope:
                constant += int(table)
                continue
            table, least = lifted(table)
            constant += least
            parts.append(Part(scope, table, self._memo.key_of_result(table, signature, n)))
        return Replacement(tuple(parts), constant)

    def _by_classes(self) -> tuple[tuple[int, ...], Table] | None:
        """The result by classes of options; None if the tables are not of that kind or it would be more work."""
        own = [f for f in self._factors if len(f.scope) == 1]
        others = [f for f in self._factors if len(f.scope) > 1]
        scope = tuple(u for f in others for u in f.scope if u != self._node)
        options = self._sizes[self._node]
        distinct = len(set(scope)) == len(scope) == len(others)
        if options < MANY_OPTIONS or not others or not distinct:
            return None
        if prod(self._sizes[u] for u in scope) > self._limit:
            return None
        tables, merges = self._memo.classed([(f.table, f.key, f.scope[0] == self._node) for f in others])
        if merges.work(tables) > min(self._limit, prod(self._sizes.values())):
            return None
        costs = np.minimum(np.sum([f.table for f in own], axis=0), FORBIDDEN) if own else np.zeros(options, np.int64)
        return scope, least_by_classes(costs, tables, merges)

    def _groups(self) -> list[list[Factor]]:
        """First-fit, large tables first: no joint table exceeds the limit, unless one table alone does."""
        groups: list[tuple[list[Factor], set[int]]] = []
        for factor in sorted(self._factors, key=lambda f: -f.table.size):
            for group, scope in groups:
                union = scope.union(factor.scope)
                if prod(self._sizes[u] for u in union) <= self._limit:
                    group.append(factor)
                    scope.update(union)
                    break
            else:
                groups.append(([factor], set(factor.scope)))
        return [group for group, _ in groups]

    def _order(self, group: Sequence[Factor]) -> list[int]:
        """The node, then its neighbours in the group."""
        return [self._node, *sorted({u for factor in group for u in factor.scope} - {self._node})]
