"""Exact selection where ops have several operands inside the chain.

Depth first over the ops in schedule order; every choice is propagated, and the accumulated core usage of
what is left bounds the total (`optimizer.solver.chains.core_usage`). Among all choices with the most cores, and of
those with the least time, the result is the one whose (tie rank, index) sequence in schedule order is
lexicographically smallest, so it does not depend on the order of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from optimizer.solver.chains.bitset import indices_of
from optimizer.solver.chains.chain_problem import ChainProblem
from optimizer.solver.chains.core_usage import AccumulatedUsage, accumulate_core_usage
from optimizer.solver.chains.path_network import PathNetwork, Snapshot

DEFAULT_NODE_LIMIT = 20_000
"""Choices tried before the search gives up: a count, not a time, so that results are reproducible."""


@dataclass(frozen=True)
class SearchResult:
    configs: tuple[int, ...] | None
    complete: bool
    """The whole space was searched: the result is optimal, or there is none."""
    bound: Fraction
    """Upper bound of the core usage; the optimum itself if `complete` and found."""
    nodes: int


@dataclass
class _Frame:
    """One op to branch on: the state before the choice and the configs not tried yet."""

    op: int
    state: Snapshot
    candidates: Iterator[int]


def search_max_cores(
    problem: ChainProblem,
    network: PathNetwork,
    scales: Sequence[int],
    node_limit: int,
    time_of: Callable[[Sequence[int]], int],
) -> SearchResult:
    """Best complete choice within the network's live configs. Leaves the network in an arbitrary state."""
    return _Search(problem, network, scales, node_limit, time_of).run()


class _Search:
    def __init__(
        self,
        problem: ChainProblem,
        network: PathNetwork,
        scales: Sequence[int],
        node_limit: int,
        time_of: Callable[[Sequence[int]], int],
    ) -> None:
        self._problem = problem
        self._network = network
        self._scales = scales
        self._node_limit = node_limit
        self._best: tuple[int, ...] | None = None
        self._best_cores = -1
        self._best_order: tuple[int, tuple[tuple[int, int], ...]] = (0, ())
        self._time_of = time_of

    def run(self) -> SearchResult:
        root_bound = self._usage().bound
        stack: list[_Frame] = []
        self._descend(0, stack)
        nodes = 0
        while stack:
            frame = stack[-1]
            config = next(frame.candidates, None)
            if config is None:
                stack.pop()
                continue
            if nodes >= self._node_limit:
                return SearchResult(self._best, complete=False, bound=root_bound, nodes=nodes)
            nodes += 1
            self._network.restore(frame.state)
            if self._network.set(frame.op, config) is None:
                self._descend(frame.op + 1, stack)
        bound = root_bound if self._best is None else Fraction(self._best_cores)
        return SearchResult(self._best, complete=True, bound=bound, nodes=nodes)

    def _usage(self) -> AccumulatedUsage:
        network = self._network
        return accumulate_core_usage(self._problem, network.masks, network.path_sets, self._scales)

    def _descend(self, op: int, stack: list[_Frame]) -> None:
        """Prune the current state, record it if it is complete, or open a frame for the next free op."""
        masks = self._network.masks
        while op < self._problem.num_ops and masks[op].bit_count() == 1:
            op += 1
        usage = self._usage()
        if usage.bound < self._best_cores:
            return
        if op == self._problem.num_ops:
            self._record()
            return
        values = usage.scaled[op]
        order = sorted(indices_of(masks[op]), key=lambda c: (-values[c], self._problem.tie_key(op, c)))
        stack.append(_Frame(op, self._network.snapshot(), iter(order)))

    def _record(self) -> None:
        """Take the complete choice if it has more cores than the best, or as many and comes before it."""
        configs = tuple(mask.bit_length() - 1 for mask in self._network.masks)
        cores = self._problem.total_cores(configs)
        order = self._time_of(configs), tuple(self._problem.tie_key(op, c) for op, c in enumerate(configs))
        if cores > self._best_cores or order < self._best_order:
            self._best, self._best_cores, self._best_order = configs, cores, order
