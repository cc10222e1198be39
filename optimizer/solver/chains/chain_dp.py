"""Exact solution of a linear chain by dynamic programming (Viterbi), in time O(sum of edge matrix sizes).

Backward: best[op][i] is the least cost of ops `op` .. last when `op` has config i. Forward: among the configs
that attain it, the lowest tie rank, then the lowest index. The result is therefore the lexicographically
smallest optimal choice, the same that ShardSolver and the CP-SAT model give.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from optimizer.errors import StateError
from optimizer.solver.chains.chain_costs import (
    MAX_COST,
    ChainCosts,
    ChainObjective,
    Costs,
    add_costs,
    chain_costs,
    solution_of,
)
from optimizer.solver.chains.chain_problem import (
    ChainInfeasible,
    ChainProblem,
    ChainResult,
    Failure,
    SolveStats,
    SolveStatus,
)
from optimizer.solver.chains.materialise import MaterialisedChain


def solve_linear_chain(chain: MaterialisedChain, objective: ChainObjective) -> ChainResult:
    """Optimal choice of a linear chain; StateError if the chain is not a path 0 -> 1 -> ... -> n-1."""
    problem = chain.problem
    if not problem.is_linear:
        raise StateError("this chain has forks or skips; only linear chains can be solved by DP")
    costs = chain_costs(chain, objective)
    steps = _steps(problem, costs)
    failure = _first_failure(problem, costs, steps)
    if failure is not None:
        return failure
    best = _best_from(costs, steps)
    configs = _choose(problem, best, steps)
    return solution_of(
        chain,
        configs,
        status=SolveStatus.OPTIMAL,
        bound=costs.bound_of(int(best[0].min())),
        stats=SolveStats(paths_built=sum(int((step < MAX_COST).sum()) for step in steps)),
    )


def _steps(problem: ChainProblem, costs: ChainCosts) -> list[Costs]:
    """Per op but the last: transition costs to the next op, parallel edges added up."""
    return [
        reduce(add_costs, [costs.edges[index] for index in problem.user_edges[op]]) for op in range(problem.num_ops - 1)
    ]


def _first_failure(problem: ChainProblem, costs: ChainCosts, steps: list[Costs]) -> ChainInfeasible | None:
    """Forward reachability; names the first place that nothing reaches."""
    reachable = costs.nodes[0] < MAX_COST
    if not reachable.any():
        return ChainInfeasible(SolveStatus.INFEASIBLE, Failure.ENTRY, op=0)
    for op, step in enumerate(steps):
        allowed = costs.nodes[op + 1] < MAX_COST
        if not allowed.any():
            return ChainInfeasible(SolveStatus.INFEASIBLE, Failure.NO_CONFIG, op=op + 1)
        reachable = (step[reachable] < MAX_COST).any(axis=0) & allowed
        if not reachable.any():
            edge = problem.edges[problem.user_edges[op][0]]
            return ChainInfeasible(SolveStatus.INFEASIBLE, Failure.NO_PATH, op=op + 1, edge=edge)
    return None


def _best_from(costs: ChainCosts, steps: list[Costs]) -> list[Costs]:
    best = [costs.nodes[-1]]
    for node, step in zip(reversed(costs.nodes[:-1]), reversed(steps), strict=True):
        best.append(add_costs(node, add_costs(step, best[-1][None, :]).min(axis=1)))
    return best[::-1]


def _choose(problem: ChainProblem, best: list[Costs], steps: list[Costs]) -> list[int]:
    configs: list[int] = []
    for op, values in enumerate(best):
        totals = add_costs(steps[op - 1][configs[-1]], values) if configs else values
        optimal = np.flatnonzero(totals == totals.min())
        configs.append(min(problem.tie_key(op, int(config)) for config in optimal)[1])
    return configs
