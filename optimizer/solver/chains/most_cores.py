"""Selection along a forest of ops: most cores; of those choices the fastest; of those the least (rank, index).

With one operand edge per op every arc-consistent config extends to a solution downstream, so the choices with most
cores are the paths along which the accumulated usage is highest at every step. Only the configs on such paths are
asked for their times, and none where a single path is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import indices_of
from optimizer.solver.chains.bridges import Connections
from optimizer.solver.chains.chain_problem import ChainProblem
from optimizer.solver.chains.core_usage import AccumulatedUsage
from optimizer.solver.chains.path_network import PathNetwork, PathSet


def select_most_cores(
    problem: ChainProblem, network: PathNetwork, usage: AccumulatedUsage, connections: Connections
) -> tuple[int, ...]:
    """The canonical choice of a resolved chain whose ops have at most one operand edge each."""
    tied, paths = _tied(problem, network, usage)
    timed = any(mask.bit_count() > 1 for mask in tied)
    best = _least_times(problem, tied, paths, connections) if timed else [dict.fromkeys(indices_of(m), 0) for m in tied]
    configs: list[int] = []
    for op in range(problem.num_ops):
        candidates, before = tied[op], dict.fromkeys(indices_of(tied[op]), 0)
        for index in problem.operand_edges[op]:
            producer = configs[problem.edges[index].producer]
            candidates = paths[index][producer]
            if timed and candidates.bit_count() > 1:
                before = {c: connections.across(index, producer, c).time_ns for c in indices_of(candidates)}
        configs.append(min((before[c] + best[op][c], problem.tie_key(op, c)) for c in indices_of(candidates))[1][-1])
    return tuple(configs)


def _tied(problem: ChainProblem, network: PathNetwork, usage: AccumulatedUsage) -> tuple[list[int], list[PathSet]]:
    """Per op the configs, and per edge the pairs, of all choices with the most cores."""
    tied: list[int] = []
    paths: list[PathSet] = [{} for _ in problem.edges]
    for op in range(problem.num_ops):
        mask = 0 if problem.operand_edges[op] else _highest(usage.scaled[op], network.masks[op])
        for index in problem.operand_edges[op]:
            path_set = network.path_sets[index]
            if path_set is None:
                raise StateError(f"edge {index} has no paths yet")
            for producer in indices_of(tied[problem.edges[index].producer]):
                paths[index][producer] = _highest(usage.scaled[op], path_set[producer])
                mask |= paths[index][producer]
        tied.append(mask)
    return tied, paths


def _highest(values: dict[int, int], mask: int) -> int:
    most = max(values[config] for config in indices_of(mask))
    return sum(1 << config for config in indices_of(mask) if values[config] == most)


def _least_times(
    problem: ChainProblem, tied: Sequence[int], paths: Sequence[PathSet], connections: Connections
) -> list[dict[int, int]]:
    """Per op and tied config: the least time from there on; what all choices have in common is left out."""
    best: list[dict[int, int]] = [{} for _ in tied]
    for op in reversed(range(problem.num_ops)):
        alone = tied[op].bit_count() == 1
        for config in indices_of(tied[op]):
            total = 0 if alone else connections.own_ns(op, config)
            for index in problem.user_edges[op]:
                consumer, row = problem.edges[index].consumer, paths[index][config]
                if alone and row.bit_count() == 1:
                    continue
                total += min(connections.across(index, config, c).time_ns + best[consumer][c] for c in indices_of(row))
            best[op][config] = total
    return best
