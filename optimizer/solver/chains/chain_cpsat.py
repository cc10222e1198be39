"""CP-SAT model of a materialised chain: exact for every chain, and the reference for the other solvers.

One Boolean per op and config, exactly one per op. An edge whose possible pairs all cost the same becomes
inequalities: configs with the same row of partners together imply that row,

    sum of x[p] over the group <= sum of x[c] over the row.

An edge with costs becomes a flow: producer configs with equal rows up to a constant are merged, consumer
configs likewise (the constants move to the ops), one Boolean per possible pair of merged rows and columns,
and its marginals *equal* the two ops' choices; the weaker `f >= x + y - 1` gives a useless LP bound.

Ties: the cost orders by (time, cores) in one integer; if another choice is as good, one more solve with a
fixed search order finds the one with the smallest tie keys in schedule order. The answer is the
lexicographically smallest optimum, so it does not depend on the search. One worker, a fixed seed and a
limit in deterministic time make runs reproducible.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import StateError
from optimizer.solver.chains.chain_costs import INFEASIBLE, ChainCosts, ChainObjective, Costs, chain_costs, solution_of
from optimizer.solver.chains.chain_problem import (
    ChainInfeasible,
    ChainProblem,
    ChainResult,
    Failure,
    SolveStatus,
)
from optimizer.solver.chains.materialise import MaterialisedChain

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

DEFAULT_DETERMINISTIC_TIME = 30.0
"""Limit of each solve in OR-tools' deterministic time, roughly seconds of one core."""


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
    tie_break: bool = True,
) -> ChainResult:
    """Optimal choice of a chain. The status is `optimal`, or `feasible` / `unknown` if the limit was reached.

    The limit holds for each solve: the main one and those that break ties. Without `tie_break`, or if the
    status is not `optimal`, the choice is some optimal (good) one: reproducible, but not the canonical one.
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
    if status in (SolveStatus.INFEASIBLE, SolveStatus.UNKNOWN):
        failure = Failure.SEARCH if status is SolveStatus.INFEASIBLE else Failure.LIMIT
        return ChainInfeasible(status, failure, op=None)
    configs = _chosen(model, solver)
    bound = round(solver.best_objective_bound)
    if status is SolveStatus.OPTIMAL and tie_break:
        configs = _break_ties(chain.problem, model, configs, round(solver.objective_value), max_deterministic_time)
    return solution_of(chain, configs, status=status, bound=costs.bound_of(bound))


def _new_solver(max_deterministic_time: float) -> cp_model.CpSolver:
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.linearization_level = 2
    # Probing and symmetry search cost more than they save on these models (measured: half the time).
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.symmetry_level = 0
    solver.parameters.max_deterministic_time = max_deterministic_time
    return solver


def _status_of(solver: cp_model.CpSolver, code: Any) -> SolveStatus:
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
    left = [_any_of(model, [producers[i] for i in group]) for group in row_groups]
    right = [_any_of(model, [consumers[i] for i in group]) for group in column_groups]
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


def _any_of(model: cp_model.CpModel, variables: Sequence[cp_model.IntVar]) -> cp_model.IntVar:
    """A Boolean equal to the sum of exclusive Booleans."""
    if len(variables) == 1:
        return variables[0]
    merged = model.new_bool_var("")
    model.add(sum(variables) == merged)
    return merged


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
    problem: ChainProblem, model: _Model, configs: list[int], optimum: int, max_deterministic_time: float
) -> list[int]:
    """Lexicographically smallest choice of the given cost, by schedule position, then (rank, index).

    One solve: with a fixed decision order and the preferred value first, a variable takes another value only
    if the decisions before it imply so, hence the first solution found is the lexicographically smallest.
    Presolve stays off because it may replace variables by others.
    """
    from ortools.sat.python import cp_model

    model.model.add(model.cost <= optimum)
    if _is_only_choice(model, configs, max_deterministic_time):
        return configs
    model.model.clear_objective()  # type: ignore[no-untyped-call]
    order = [
        variables[config]
        for op, variables in enumerate(model.configs)
        for _, config in sorted(problem.tie_key(op, config) for config in variables)
    ]
    first, largest = cp_model.CHOOSE_FIRST, cp_model.SELECT_MAX_VALUE
    model.model.add_decision_strategy(order, first, largest)  # type: ignore[arg-type]  # protobuf's stubs
    solver = _new_solver(max_deterministic_time)
    solver.parameters.search_branching = cp_model.FIXED_SEARCH
    solver.parameters.cp_model_presolve = False
    found = _status_of(solver, solver.solve(model.model)) is SolveStatus.OPTIMAL
    return _chosen(model, solver) if found else configs


def _is_only_choice(model: _Model, configs: list[int], max_deterministic_time: float) -> bool:
    """Whether no other choice is as cheap: with times, the rule. The cost stays the objective, because the
    LP bound then rules out nearly everything at once."""
    other = model.model.clone()
    chosen = [other.get_bool_var_from_proto_index(v[c].index) for v, c in zip(model.configs, configs, strict=True)]
    other.add(sum(chosen) <= len(configs) - 1)
    solver = _new_solver(max_deterministic_time)
    return _status_of(solver, solver.solve(other)) is SolveStatus.INFEASIBLE
