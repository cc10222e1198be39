"""Accumulated core usage: what every config can reach downstream (tt-mlir `produceMaxCoreUsage`).

    acc[op][i] = volume(op, i) + sum over user edges e of max{acc[consumer][c] : c in paths_e[i]} / in(consumer)

where in(consumer) is its number of operand edges inside the chain. Walking backward, a consumer's usage is
shared equally among its operand edges. For any one choice the shares of all ops add up to its total core
usage at the entries, and a maximum is never below a share, so the sum of max acc over the entries bounds the
total from above. If no op has two operand edges the bound is attained.

Shares are rational. Each op's values are integers on a scale of its own, the least common multiple of the
denominators below it, so nothing is ever rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import indices_of
from optimizer.solver.chains.chain_problem import ChainProblem
from optimizer.solver.chains.path_network import PathSet


@dataclass(frozen=True)
class AccumulatedUsage:
    """Accumulated core usage of every live config."""

    scaled: tuple[dict[int, int], ...]
    """Per op: live config -> value times the op's scale. Comparable within one op."""
    scales: tuple[int, ...]
    bound: Fraction
    """Upper bound of the total core usage of the chain."""

    def exact(self, op: int, config: int) -> Fraction:
        return Fraction(self.scaled[op][config], self.scales[op])


def usage_scales(problem: ChainProblem) -> tuple[int, ...]:
    """Per op: the factor that makes its accumulated usage an integer."""
    scales = [1] * problem.num_ops
    for op in reversed(range(problem.num_ops)):
        for index in problem.user_edges[op]:
            consumer = problem.edges[index].consumer
            scales[op] = lcm(scales[op], scales[consumer] * len(problem.operand_edges[consumer]))
    return tuple(scales)


def accumulate_core_usage(
    problem: ChainProblem, masks: Sequence[int], path_sets: Sequence[PathSet | None], scales: Sequence[int]
) -> AccumulatedUsage:
    """Walk the chain backward over live configs; every edge must be built and no mask empty."""
    values: list[dict[int, int]] = [{} for _ in range(problem.num_ops)]
    levels: list[list[tuple[int, int]]] = [[] for _ in range(problem.num_ops)]
    for op in reversed(range(problem.num_ops)):
        volumes, scale = problem.core_usage[op], scales[op]
        usage = {config: volumes[config] * scale for config in indices_of(masks[op])}
        for index in problem.user_edges[op]:
            paths = path_sets[index]
            if paths is None:
                raise StateError(f"edge {index} has no paths yet")
            consumer = problem.edges[index].consumer
            factor = scale // (scales[consumer] * len(problem.operand_edges[consumer]))
            best = _best_of_rows(paths, levels[consumer])
            for config in usage:
                usage[config] += factor * best[paths[config]]
        values[op] = usage
        levels[op] = _levels(usage)
    bound = sum((Fraction(levels[op][0][0], scales[op]) for op in problem.entries), Fraction(0))
    return AccumulatedUsage(tuple(values), tuple(scales), bound)


def _levels(usage: dict[int, int]) -> list[tuple[int, int]]:
    """(value, set of configs with it), the highest value first."""
    masks: dict[int, int] = {}
    for config, value in usage.items():
        masks[value] = masks.get(value, 0) | (1 << config)
    return sorted(masks.items(), reverse=True)


def _best_of_rows(paths: PathSet, levels: list[tuple[int, int]]) -> dict[int, int]:
    """Row -> highest value among its configs; configs with the same layout share a row."""
    return {row: next(value for value, mask in levels if mask & row) for row in set(paths.values())}
