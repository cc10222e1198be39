"""The chain problem as node and edge costs: what the exact solvers minimise.

Every connection between two configs reduces to one number: the fastest of the direct path and the allowed
reshards (`bridges`). One integer orders solutions by both measures, first the one that is the objective:

    cost = time_ns * time_unit - cores * cores_unit
    time:        cores_unit = 1, time_unit = 1 + the most cores any choice can have
    core_usage:  time_unit = 1,  cores_unit = 1 + twice the most time, in either direction, any choice can take

What is equal in both is ordered by `ChainProblem.tie_key`. Costs are int64 arrays; INFEASIBLE marks impossible pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import LimitError, StateError
from optimizer.solver.chains.bitset import contains, full_mask, indices_of
from optimizer.solver.chains.bridges import Bridge, bridge
from optimizer.solver.chains.chain_problem import ChainSolution, SolveStats, SolveStatus
from optimizer.solver.chains.materialise import EdgeTable, MaterialisedChain, Matrix

Costs = NDArray[np.int64]

INFEASIBLE = 1 << 61
"""Cost of an impossible choice; sums of possible costs stay below `MAX_COST` in magnitude."""
MAX_COST = 1 << 52
"""Costs below this are exact in a double, which is how CP-SAT reports objectives and bounds."""


class ChainObjective(StrEnum):
    CORE_USAGE = "core_usage"
    """Most cores; among those, least time (ShardSolver's objective)."""
    TIME = "time"
    """Least time of ops, connections, entries and exits; among those, most cores."""


@dataclass(frozen=True)
class Units:
    """What one ns and one core weigh in a cost."""

    objective: ChainObjective
    time: int
    cores: int
    most_ns: int
    """No choice's time exceeds this, in either direction."""


@dataclass(frozen=True)
class ChainCosts:
    units: Units
    nodes: tuple[Costs, ...]
    """Per op: cost per config, entry and exit included; INFEASIBLE for configs that are not allowed."""
    edges: tuple[Costs, ...]
    """Per edge: [producer config][consumer config]."""

    def bound_of(self, cost_bound: int) -> int:
        """Bound in the objective's own unit (cores or ns) that follows from a lower bound of the cost."""
        if self.units.objective is ChainObjective.CORE_USAGE:
            return (self.units.most_ns - cost_bound) // self.units.cores
        return -(-cost_bound // self.units.time)


def chain_costs(chain: MaterialisedChain, objective: ChainObjective) -> ChainCosts:
    """Reduce a chain to costs. LimitError if they do not fit into 52 bits."""
    problem, units = chain.problem, _units(chain, objective)
    nodes = [_node_costs(chain, op, units) for op in range(problem.num_ops)]
    for op, entry in zip(problem.entries, chain.entries, strict=True):
        nodes[op] = add_costs(nodes[op], edge_times(entry, problem.config_counts[op], units.time)[0])
    edges = [
        edge_times(table, problem.config_counts[edge.consumer], units.time)
        for edge, table in zip(problem.edges, chain.edges, strict=True)
    ]
    return ChainCosts(units, tuple(nodes), tuple(edges))


def _units(chain: MaterialisedChain, objective: ChainObjective) -> Units:
    most_cores, most_ns = sum(max(row, default=0) for row in chain.problem.core_usage), _total_magnitude(chain)
    by_time = objective is ChainObjective.TIME
    units = Units(objective, 1 + most_cores if by_time else 1, 1 if by_time else 1 + 2 * most_ns, most_ns)
    if most_ns * units.time + most_cores * units.cores >= MAX_COST:
        raise LimitError("the chain's times and cores are too large to be compared in one integer", limit=MAX_COST)
    return units


def _node_costs(chain: MaterialisedChain, op: int, units: Units) -> Costs:
    problem = chain.problem
    costs = np.full(problem.config_counts[op], INFEASIBLE, dtype=np.int64)
    for config in indices_of(chain.masks[op]):
        costs[config] = _op_ns(chain, op, config) * units.time - problem.core_usage[op][config] * units.cores
    return costs


def _op_ns(chain: MaterialisedChain, op: int, config: int) -> int:
    problem = chain.problem
    return sum(table[op][config] for table in (problem.time_ns, problem.exit_ns) if table)


def edge_times(table: EdgeTable, num_consumers: int, unit: int = 1) -> Costs:
    """[producer config][consumer config]: the fastest connection, in units."""
    costs = np.full((len(table.direct), num_consumers), INFEASIBLE, dtype=np.int64)
    for producer, row in enumerate(table.direct):
        for consumer in indices_of(row):
            costs[producer, consumer] = table.direct_ns[producer][consumer] * unit if table.direct_ns else 0
    for number, option in enumerate(table.reshards):
        producers = list(indices_of(option.producers & full_mask(len(table.direct))))
        consumers = list(indices_of(option.enables & full_mask(num_consumers)))
        copy = np.array([table.reshard_ns[number][p] if table.reshard_ns else 0 for p in producers], dtype=np.int64)
        read = np.array([table.resharded_ns[number][c] if table.resharded_ns else 0 for c in consumers], dtype=np.int64)
        block = np.ix_(producers, consumers)
        costs[block] = np.minimum(costs[block], (copy[:, None] + read[None, :]) * unit)
    return costs


def add_costs(first: Costs, second: Costs) -> Costs:
    """Element-wise sum that keeps INFEASIBLE; two INFEASIBLE terms still fit into 64 bits."""
    total = first + second
    return np.where(total > MAX_COST, INFEASIBLE, total)


def _total_magnitude(chain: MaterialisedChain) -> int:
    problem = chain.problem
    matrices: list[Matrix] = [(row,) for table in (problem.time_ns, problem.exit_ns) for row in table]
    for table in (*chain.edges, *chain.entries):
        matrices += [table.direct_ns, table.reshard_ns, table.resharded_ns]
    return sum(max((abs(cell) for row in matrix for cell in row), default=0) for matrix in matrices)


def _bridge_edge(table: EdgeTable, producer: int, consumer: int) -> Bridge:
    direct_ns = None
    if contains(table.direct[producer], consumer):
        direct_ns = table.direct_ns[producer][consumer] if table.direct_ns else 0
    options = []
    for number, option in enumerate(table.reshards):
        if contains(option.producers, producer) and contains(option.enables, consumer):
            copy = table.reshard_ns[number][producer] if table.reshard_ns else 0
            read = table.resharded_ns[number][consumer] if table.resharded_ns else 0
            options.append((option, copy + read))
    return bridge(direct_ns, options, producer)


def solution_of(
    chain: MaterialisedChain,
    configs: Sequence[int],
    *,
    status: SolveStatus,
    bound: int,
    stats: SolveStats | None = None,
) -> ChainSolution:
    """Complete a choice of configs: how every edge is bridged, cores and time. StateError if it is no solution."""
    problem = chain.problem
    for op, config in enumerate(configs):
        if not contains(chain.masks[op], config):
            raise StateError(f"config {config} of op {op} is not allowed")
    edges = [
        _bridge_edge(table, configs[edge.producer], configs[edge.consumer])
        for edge, table in zip(problem.edges, chain.edges, strict=True)
    ]
    entries = [_bridge_edge(entry, 0, configs[op]) for op, entry in zip(problem.entries, chain.entries, strict=True)]
    own_ns = sum(_op_ns(chain, op, config) for op, config in enumerate(configs))
    return ChainSolution(
        status=status,
        configs=tuple(configs),
        edge_reshards=tuple(bridge.layout_id for bridge in edges),
        entry_reshards=tuple((op, bridge.layout_id) for op, bridge in zip(problem.entries, entries, strict=True)),
        core_usage=problem.total_cores(configs),
        time_ns=own_ns + sum(bridge.time_ns for bridge in (*edges, *entries)),
        bound=bound,
        stats=stats or SolveStats(),
    )
