"""Whole-graph problems with their capacity, exactly: CP-SAT over option and pair variables.

A pair of nodes is a flow: one variable per allowed combination, whose row and column sums equal the options' variables.
Equalities keep the linear relaxation tight; `e >= a + b - 1` would make its bound useless. Row and column minima are
charged to the nodes first, so that many pairs cost nothing and only exclude. Capacity is one linear row per step at
which something ends after something began: the others are implied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from ortools.sat.python import cp_model

from optimizer.solver.graph_problem import FORBIDDEN, GraphProblem, GraphSolution, Table

_SUBSOLVERS = ("max_lp", "quick_restart")
"""With these the bound closes; by default it stalls (google/or-tools #3662)."""


def solve_cpsat(
    problem: GraphProblem,
    hint: Sequence[int] | None = None,
    work_limit: float | None = None,
    reproducible: bool = True,
) -> GraphSolution:
    """The best choice that fits, and the proven bound. `work_limit` is CP-SAT's deterministic time, in its seconds.

    `reproducible` makes the two workers take turns: the same choice in every run, but several times slower.
    """
    model = cp_model.CpModel()
    costs = [row.copy() for row in problem.costs]
    chosen = [[model.new_bool_var("") for _ in row] for row in costs]
    for row, cost in zip(chosen, costs, strict=True):
        model.add_exactly_one(row)
        for variable, value in zip(row, cost, strict=True):
            if value >= FORBIDDEN:
                model.add(variable == 0)
    objective: list[tuple[cp_model.IntVar, int]] = []
    for pair in problem.pairs:
        rest = _charge_nodes(pair.matrix, costs[pair.a], costs[pair.b])
        objective += _flow(model, chosen[pair.a], chosen[pair.b], rest)
    for row, cost in zip(chosen, costs, strict=True):
        objective += [(x, int(c)) for x, c in zip(row, cost, strict=True) if 0 < c < FORBIDDEN]
    _capacity(model, problem, chosen)
    model.minimize(sum(x * c for x, c in objective))
    for row, option in zip(chosen, hint or (), strict=False):
        for i, variable in enumerate(row):
            model.add_hint(variable, i == option)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 2
    solver.parameters.interleave_search = reproducible
    solver.parameters.subsolvers.extend(_SUBSOLVERS)
    if work_limit is not None:
        solver.parameters.max_deterministic_time = work_limit
    status = solver.status_name(solver.solve(model))
    if status == "INFEASIBLE":
        return GraphSolution(None, FORBIDDEN, FORBIDDEN)
    bound = max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))
    if status not in ("OPTIMAL", "FEASIBLE"):
        return GraphSolution(None, FORBIDDEN, bound)
    found = tuple(next(i for i, x in enumerate(row) if solver.boolean_value(x)) for row in chosen)
    value = problem.value(found)
    return GraphSolution(found, value, value if status == "OPTIMAL" else min(bound, value))


def _charge_nodes(matrix: Table, a: Table, b: Table) -> Table:
    """What is left of a pair's costs when each node pays what its option costs at least."""
    rest = matrix.copy()
    for axis, node in ((1, a), (0, b)):
        least = rest.min(axis=axis)
        charge = np.where(least >= FORBIDDEN, 0, least)
        node += np.where(node >= FORBIDDEN, 0, charge)
        rest = np.where(rest >= FORBIDDEN, FORBIDDEN, rest - np.expand_dims(charge, axis))
    return np.asarray(rest, dtype=np.int64)


def _flow(
    model: cp_model.CpModel, a: Sequence[cp_model.IntVar], b: Sequence[cp_model.IntVar], rest: Table
) -> list[tuple[cp_model.IntVar, int]]:
    """Constraints of one pair; returns its part of the objective."""
    allowed = rest < FORBIDDEN
    if not rest[allowed].any():
        if not allowed.all():
            for x, row in zip(a, allowed, strict=True):
                model.add_bool_or([x.negated(), *(y for y, ok in zip(b, row, strict=True) if ok)])
            for y, column in zip(b, allowed.T, strict=True):
                model.add_bool_or([y.negated(), *(x for x, ok in zip(a, column, strict=True) if ok)])
        return []
    cells = {(int(i), int(j)): model.new_bool_var("") for i, j in np.argwhere(allowed)}
    rows: list[list[cp_model.IntVar]] = [[] for _ in a]
    columns: list[list[cp_model.IntVar]] = [[] for _ in b]
    for (i, j), cell in cells.items():
        rows[i].append(cell)
        columns[j].append(cell)
    for x, members in zip((*a, *b), (*rows, *columns), strict=True):
        model.add(sum(members) == x)
    return [(cell, int(rest[at])) for at, cell in cells.items() if rest[at]]


def _capacity(model: cp_model.CpModel, problem: GraphProblem, chosen: Sequence[Sequence[cp_model.IntVar]]) -> None:
    uses = [
        (usage, x)
        for row, options in zip(chosen, problem.usages, strict=False)
        for x, usages in zip(row, options, strict=True)
        for usage in usages
        if usage.size
    ]
    starts, ends = {usage.first for usage, _ in uses}, {usage.last for usage, _ in uses}
    uniform = len(set(problem.capacity)) <= 1
    began = False
    for step, limit in enumerate(problem.capacity):
        began = began or step in starts
        if uniform and not (began and step in ends):
            continue
        began = False
        terms = [(usage.size, x) for usage, x in uses if usage.first <= step <= usage.last]
        if sum(size for size, _ in terms) > limit:
            model.add(sum(size * x for size, x in terms) <= limit)
