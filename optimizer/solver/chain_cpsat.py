"""CP-SAT model of a materialised chain: exact for every chain, and the reference for the other solvers.

One Boolean per op and config, exactly one per op. An edge whose possible pairs all cost the same becomes
inequalities: configs with the same row of partners together imply that row,

    sum of x[p] over the group <= sum of x[c] over the row.

An edge with costs becomes a flow: producer configs with equal rows up to a constant are merged, consumer
configs likewise (the constants move to the ops), one Boolean per possible pair of merged rows and columns,
and its marginals *equal* the two ops' choices; the weaker `f >= x + y - 1` gives a useless LP bound.

Ties: the cost orders by (time, cores) in one integer; further solves fix the tie keys op by op in schedule
order, several ops at a time in mixed radix. The answer is the lexicographically smallest optimum, so it does
not depend on the search. One worker, a fixed seed and a limit in deterministic time make runs reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.errors import StateError
from optimizer.solver.chain_costs import INFEASIBLE, ChainCosts, ChainObjective, Costs, chain_costs, solution_of
from optimizer.solver.materialise import MaterialisedChain
from optimizer.solver.problem import (
    ChainInfeasible,
    ChainResult,
    Failure,
    SolveStats,
    SolveStatus,
)

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

DEFAULT_DETERMINISTIC_TIME = 30.0
"""Limit of each solve in OR-tools' deterministic time, roughly seconds of one core."""
_RADIX_LIMIT = 1 << 40
"""Tie-break objectives stay below this, well inside CP-SAT's integers."""


@dataclass(frozen=True)
class _Model:
    model: cp_model.CpModel
    configs: tuple[dict[int, cp_model.IntVar], ...]
    """Per op: config -> Boolean."""
    cost: cp_model.LinearExprT


def solve_chain_cpsat(
    chain: MaterialisedChain,
    objective: ChainObjective,
    *,
    max_deterministic_time: float = DEFAULT_DETERMINISTIC_TIME,
) -> ChainResult:
    """Optimal choice of a chain. The status is `optimal`, or `feasible` / `unknown` if the limit was reached.

    Unless the status is `optimal` the choice is some good one; it is reproducible, but not tie-broken.
    """
    costs = chain_costs(chain, objective)
    for op, node in enumerate(costs.nodes):
        if (node == INFEASIBLE).all():
            failure = Failure.ENTRY if op in chain.problem.entries and chain.masks[op] else Failure.NO_CONFIG
            return ChainInfeasible(SolveStatus.INFEASIBLE, failure, op=op)
    model = _build(chain, costs)
    model.model.minimize(model.cost)
    solver = _new_solver(max_deterministic_time)
    status = _status_of(solver, solver.solve(model.model))
    stats = SolveStats(search_nodes=solver.num_branches)
    if status in (SolveStatus.INFEASIBLE, SolveStatus.UNKNOWN):
        failure = Failure.SEARCH if status is SolveStatus.INFEASIBLE else Failure.LIMIT
        return ChainInfeasible(status, failure, op=None, stats=stats)
    configs = _chosen(model, solver)
    bound = round(solver.best_objective_bound)
    if status is SolveStatus.OPTIMAL:
        configs = _break_ties(chain, model, configs, round(solver.objective_value), max_deterministic_time)
    return solution_of(chain, configs, objective, status=status, bound=costs.bound_of(bound), stats=stats)


def _new_solver(max_deterministic_time: float) -> cp_model.CpSolver:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2
    solver.parameters.max_deterministic_time = max_deterministic_time
    return solver


def _status_of(solver: cp_model.CpSolver, code: cp_model.CpSolverStatus) -> SolveStatus:
    from ortools.sat.python import cp_model

    known = {
        cp_model.OPTIMAL: SolveStatus.OPTIMAL,
        cp_model.FEASIBLE: SolveStatus.FEASIBLE,
        cp_model.INFEASIBLE: SolveStatus.INFEASIBLE,
        cp_model.UNKNOWN: SolveStatus.UNKNOWN,
    }
    if code not in known:
        raise StateError(f"CP-SAT refused the chain model: {solver.status_name(code)}")
    return known[code]


def _build(chain: MaterialisedChain, costs: ChainCosts) -> _Model:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    node_costs = [node.copy() for node in costs.nodes]
    configs = []
    for op, node in enumerate(costs.nodes):
        variables = {int(c): model.new_bool_var(f"x{op}_{c}") for c in np.flatnonzero(node != INFEASIBLE)}
        model.add_exactly_one(variables.values())
        configs.append(variables)
    terms: list[cp_model.LinearExprT] = []
    for edge, matrix in zip(chain.problem.edges, costs.edges, strict=True):
        producers, consumers = configs[edge.producer], configs[edge.consumer]
        matrix = matrix[np.ix_(list(producers), list(consumers))]
        rows, columns, rest = _reduce(matrix)
        for config, extra in zip(producers, rows, strict=True):
            node_costs[edge.producer][config] += extra
        for config, extra in zip(consumers, columns, strict=True):
            node_costs[edge.consumer][config] += extra
        terms.extend(_add_edge(model, list(producers.values()), list(consumers.values()), rest))
    for variables, node in zip(configs, node_costs, strict=True):
        terms.extend(int(node[config]) * variable for config, variable in variables.items())
    return _Model(model, tuple(configs), sum(terms))


def _reduce(matrix: Costs) -> tuple[Costs, Costs, Costs]:
    """Split off constants: matrix = row constants + column constants + rest, rest >= 0 (or INFEASIBLE)."""
    possible = matrix != INFEASIBLE
    rows = np.where(possible.any(axis=1), matrix.min(axis=1), 0)
    rest = np.where(possible, matrix - rows[:, None], INFEASIBLE)
    columns = np.where(possible.any(axis=0), rest.min(axis=0), 0)
    rest = np.where(possible, rest - columns[None, :], INFEASIBLE)
    return rows, columns, rest


def _add_edge(
    model: cp_model.CpModel,
    producers: Sequence[cp_model.IntVar],
    consumers: Sequence[cp_model.IntVar],
    rest: Costs,
) -> list[cp_model.LinearExprT]:
    """Constrain one edge; returns its cost terms."""
    row_groups = _equal_rows(rest)
    column_groups = _equal_rows(rest.T)
    merged = rest[np.ix_([group[0] for group in row_groups], [group[0] for group in column_groups])]
    possible = merged != INFEASIBLE
    if possible.all() and not merged.any():
        return []
    left = [sum(producers[i] for i in group) for group in row_groups]
    right = [sum(consumers[i] for i in group) for group in column_groups]
    if not merged[possible].any():
        for chosen, row in zip(left, possible, strict=True):
            model.add(chosen <= sum(right[column] for column in np.flatnonzero(row)))
        for chosen, column in zip(right, possible.T, strict=True):
            model.add(chosen <= sum(left[row] for row in np.flatnonzero(column)))
        return []
    terms: list[cp_model.LinearExprT] = []
    into: list[list[cp_model.IntVar]] = [[] for _ in right]
    for chosen, row in zip(left, merged, strict=True):
        flows = {int(column): model.new_bool_var("") for column in np.flatnonzero(row != INFEASIBLE)}
        model.add(sum(flows.values()) == chosen)
        for column, flow in flows.items():
            into[column].append(flow)
            terms.append(int(row[column]) * flow)
    for chosen, incoming in zip(right, into, strict=True):
        model.add(sum(incoming) == chosen)
    return terms


def _equal_rows(matrix: Costs) -> list[list[int]]:
    groups: dict[bytes, list[int]] = {}
    for index, row in enumerate(np.ascontiguousarray(matrix)):
        groups.setdefault(row.tobytes(), []).append(index)
    return list(groups.values())


def _chosen(model: _Model, solver: cp_model.CpSolver) -> list[int]:
    return [
        next(c for c, variable in variables.items() if solver.boolean_value(variable)) for variables in model.configs
    ]


def _break_ties(
    chain: MaterialisedChain, model: _Model, configs: list[int], optimum: int, max_deterministic_time: float
) -> list[int]:
    """Lexicographically smallest choice of the given cost, by schedule position, then (rank, index)."""

    model.model.add(model.cost <= optimum)
    for block in _tie_blocks(model):
        terms: list[cp_model.LinearExprT] = []
        weight = 1
        for op in reversed(block):
            order = sorted(chain.problem.tie_key(op, config) for config in model.configs[op])
            terms.extend(position * weight * model.configs[op][config] for position, (_, config) in enumerate(order))
            weight *= len(order)
        model.model.minimize(sum(terms))
        model.model.clear_hints()  # type: ignore[no-untyped-call]
        for op, config in enumerate(configs):
            for candidate, variable in model.configs[op].items():
                model.model.add_hint(variable, candidate == config)
        solver = _new_solver(max_deterministic_time)
        if _status_of(solver, solver.solve(model.model)) is SolveStatus.UNKNOWN:
            return configs
        configs = _chosen(model, solver)
        for op in block:
            model.model.add(model.configs[op][configs[op]] == 1)
    return configs


def _tie_blocks(model: _Model) -> list[list[int]]:
    """Ops with a choice, in schedule order, cut so that the mixed-radix objective stays small."""
    blocks: list[list[int]] = []
    size = _RADIX_LIMIT
    for op, variables in enumerate(model.configs):
        if len(variables) < 2:
            continue
        if size * len(variables) > _RADIX_LIMIT:
            blocks.append([])
            size = 1
        blocks[-1].append(op)
        size *= len(variables)
    return blocks
