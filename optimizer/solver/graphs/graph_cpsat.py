"""Whole-graph problems with their capacity, exactly: presolve, then CP-SAT over option and pair variables.

A pair of nodes is a flow: one variable per allowed combination of a class of rows and a class of columns (rows that are
alike are one class), whose sums equal the classes' variables. Equalities keep the linear relaxation tight;
`e >= a + b - 1` would make its bound useless. Presolve has charged row and column minima to the nodes, so that many
pairs cost nothing and only exclude: those are clauses. Capacity is one linear row per step that can bind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from ortools.sat.sat_parameters_pb2 import SatParameters

from optimizer.errors import StateError
from optimizer.solver.cpsat_run import BinaryModel, Var, run
from optimizer.solver.graphs.capacity import capacity_of
from optimizer.solver.graphs.cost_tables import ClassedTable, classed
from optimizer.solver.graphs.graph_presolve import presolve, untouched
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution
from optimizer.solver.graphs.usages import Table

ROOT_ITERATIONS = 20_000
"""Of the simplex at the root: enough to solve the whole linear program there, which then does most of the proof."""


def solve_cpsat(
    problem: GraphProblem,
    work_limit: float | None = None,
    *,
    upper_bound: int | None = None,
    stop: Callable[[], bool] | None = None,
    reduce: bool = True,
) -> GraphSolution:
    """The best choice that fits, and the proven bound.

    `work_limit` is CP-SAT's deterministic time, in its seconds. With `upper_bound` only choices of less value are
    looked for: if there is none, `chosen` is None and `lower_bound` the upper bound.
    `stop` is asked every 50 ms; when it says so, the best choice so far is returned with what is proven by then. Unless
    stopped, every run gives the same choice.
    Without `reduce` the problem is put to CP-SAT as it is.
    """
    cutoff = FORBIDDEN if upper_bound is None else upper_bound
    small = presolve(problem, cutoff) if reduce else untouched(problem)
    if not small.feasible:
        return GraphSolution(None, FORBIDDEN, cutoff)
    model = _Model(small.problem)
    if cutoff < FORBIDDEN:
        model.cut_off(cutoff - 1 - small.offset)
    outcome = run(model.written, _parameters(work_limit, reduce and cutoff < FORBIDDEN), stop)
    if not outcome.feasible:
        return GraphSolution(None, FORBIDDEN, cutoff)
    proven = min(cutoff, small.offset + outcome.bound)
    if outcome.values is None:
        return GraphSolution(None, FORBIDDEN, proven)
    found = small.restore(model.read(outcome.values))
    value = problem.value(found)
    if not problem.fits(found):
        raise StateError("the solver's choice does not fit the capacity")
    return GraphSolution(found, value, value if outcome.optimal else min(proven, value))


def _parameters(work_limit: float | None, proof: bool) -> SatParameters:
    """`proof`: a choice is known, only better ones are looked for."""
    parameters = SatParameters()
    if proof:
        # Below a good choice little is left but to solve the linear program and branch; our presolve has done what
        # matters of CP-SAT's, whose probing alone would take several times longer.
        parameters.cp_model_presolve = False
        parameters.cp_model_probing_level = 0
        parameters.add_lp_constraints_lazily = False
        parameters.root_lp_iterations = ROOT_ITERATIONS
    parameters.num_workers = 1
    parameters.linearization_level = 2
    if work_limit is not None:
        parameters.max_deterministic_time = work_limit
    return parameters


class _Model:
    """A presolved problem in CP-SAT's terms."""

    def __init__(self, problem: GraphProblem) -> None:
        self.written = BinaryModel()
        self._problem = problem
        self._objective: list[tuple[Var, int]] = []
        self._chosen = [[self.written.new_var() for _ in row] for row in problem.costs]
        for row, costs in zip(self._chosen, problem.costs, strict=True):
            self.written.exactly_one(row)
            self._objective += [(x, int(c)) for x, c in zip(row, costs, strict=True) if 0 < c < FORBIDDEN]
            for x, c in zip(row, costs, strict=True):
                if c >= FORBIDDEN:
                    self.written.forbid(x)
        for pair in problem.pairs:
            self._pair(pair.a, pair.b, pair.matrix)
        self._capacity()
        self.written.minimise([x for x, _ in self._objective], [c for _, c in self._objective])

    def cut_off(self, most: int) -> None:
        """Only choices that cost no more."""
        self.written.cut_off(most)

    def read(self, values: Sequence[int]) -> tuple[int, ...]:
        """The option of every node."""
        return tuple(next(i for i, x in enumerate(row) if values[x]) for row in self._chosen)

    def _pair(self, a: int, b: int, matrix: Table) -> None:
        by_row = classed(matrix)
        by_column = classed(by_row.rows.T)
        rest = by_column.rows.T
        allowed = rest < FORBIDDEN
        if not rest[allowed].any() and allowed.all():
            return
        rows, cols = self._classes(a, by_row), self._classes(b, by_column)
        if not rest[allowed].any():
            for x, line in zip(rows, allowed, strict=True):
                self._implies(x, [y for y, ok in zip(cols, line, strict=True) if ok], bool(line.all()))
            for y, line in zip(cols, allowed.T, strict=True):
                self._implies(y, [x for x, ok in zip(rows, line, strict=True) if ok], bool(line.all()))
            return
        self._flow(rest, rows, cols)

    def _implies(self, x: Var, ways: list[Var], free: bool) -> None:
        if not free:
            self.written.implies(x, ways)

    def _classes(self, v: int, table: ClassedTable) -> list[Var]:
        """One variable per class of a node's options: whether the option is of it."""
        result = []
        for number in range(len(table.rows)):
            options = np.flatnonzero(table.class_of == number).tolist()
            if len(options) == 1:
                result.append(self._chosen[v][options[0]])
                continue
            x = self.written.new_var()
            self.written.sums_to([self._chosen[v][i] for i in options], x)
            result.append(x)
        return result

    def _flow(self, rest: Table, rows: Sequence[Var], cols: Sequence[Var]) -> None:
        into: list[list[Var]] = [[] for _ in rows]
        out: list[list[Var]] = [[] for _ in cols]
        for i, j in np.argwhere(rest < FORBIDDEN).tolist():
            cell = self.written.new_var()
            into[i].append(cell)
            out[j].append(cell)
            if rest[i, j]:
                self._objective.append((cell, int(rest[i, j])))
        for x, cells in zip((*rows, *cols), (*into, *out), strict=True):
            self.written.sums_to(cells, x)

    def _capacity(self) -> None:
        capacity = capacity_of(self._problem)
        terms: list[list[tuple[Var, int]]] = [[] for _ in capacity.steps]
        for v, use in sorted(capacity.nodes.items()):
            for start, end, column in zip(use.starts.tolist(), use.ends.tolist(), use.extra.T.tolist(), strict=True):
                added = [(x, size) for x, size in zip(self._chosen[v], column, strict=True) if size]
                for row in range(start, end):
                    terms[row] += added
        for members, limit in zip(terms, capacity.limits.tolist(), strict=True):
            self.written.at_most([x for x, _ in members], [size for _, size in members], limit)
