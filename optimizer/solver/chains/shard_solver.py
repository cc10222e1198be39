"""ShardSolver: one config per op of an L1 chain, compatible along every edge, with the most cores.

The algorithm of tt-mlir's `ShardSolver` (docs/solver.md):

1. entry ops: configs that accept the external (DRAM interleaved) operand, else a reshard at the entry;
2. edges in schedule order: PathSet of compatible config pairs among those alive; if there is none, a
   reshard, after which every live producer config pairs with every consumer config the reshard enables;
3. after each edge, propagation in both directions to the fixed point;
4. accumulated core usage backward; of the choices with the most cores the fastest, then tie rank, then index
   (`most_cores`); every reshard in the layout that is fastest (`bridges`).

Where an op has several operands inside the chain, arc consistency does not decide feasibility and the
shares of step 4 are only a bound; there step 4 is CP-SAT's (`chain_cpsat`), within a limit that the status reports.

Differences from tt-mlir: times decide where cores do not; no limit on the number of configs; exact usage
instead of `float`; an edge whose direct paths contradict the rest of the chain is resharded too, not only one
that has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import contains, indices_of
from optimizer.solver.chains.bridges import Connections
from optimizer.solver.chains.chain_costs import ChainObjective
from optimizer.solver.chains.chain_cpsat import solve_chain_cpsat
from optimizer.solver.chains.chain_problem import (
    ChainInfeasible,
    ChainProblem,
    ChainResult,
    ChainSolution,
    EdgeMode,
    EdgeOracle,
    Failure,
    SolveStats,
    SolveStatus,
)
from optimizer.solver.chains.core_usage import AccumulatedUsage, accumulate_core_usage, usage_scales
from optimizer.solver.chains.materialise import materialise
from optimizer.solver.chains.most_cores import select_most_cores
from optimizer.solver.chains.path_network import PathNetwork
from optimizer.solver.chains.shard_trace import EdgeStep, EntryStep, Observer, ResolvedStep


@dataclass(frozen=True)
class _Selection:
    """The choice with the most cores among what is alive."""

    configs: tuple[int, ...] | None
    complete: bool
    """Whether it is proven to be the best, or that there is none."""
    bound: int
    """No choice has more cores."""


class ShardSolver:
    """Solves one chain. `solve()` does everything; `resolve()` and then `accumulated_core_usage` give the stages one by
    one. One instance serves one solve."""

    def __init__(
        self,
        problem: ChainProblem,
        oracle: EdgeOracle,
        *,
        by_cpsat: bool = False,
        observe: Observer | None = None,
    ) -> None:
        """`by_cpsat`: CP-SAT selects, as it always does where an op has several operands inside the chain; `observe`
        is told of every step (`shard_trace`)."""
        self._problem = problem
        self._oracle = oracle
        self._by_cpsat = by_cpsat
        self._observe = observe
        self._network = PathNetwork(problem, problem.initial_masks())
        self._scales = usage_scales(problem)
        self._modes: list[EdgeMode | None] = [None] * len(problem.edges)
        self._connections = Connections(problem, oracle)
        self._stats = SolveStats()
        self._resolved = False

    def solve(self) -> ChainResult:
        """Resolve the constraints and select; never raises for an infeasible chain."""
        failure = self.resolve()
        if failure is not None:
            return failure
        live = tuple(self._network.masks)
        found = self._select_max_cores()
        if found.configs is None:
            if found.complete:
                return self._infeasible(Failure.SEARCH)
            return replace(self._infeasible(Failure.LIMIT), status=SolveStatus.UNKNOWN)
        return self._solution(found, live)

    def resolve(self) -> ChainInfeasible | None:
        """Build and propagate every edge. None on success."""
        if self._resolved:
            raise StateError("this chain is already resolved")
        self._resolved = True
        for op, mask in enumerate(self._network.masks):
            if not mask:
                return self._infeasible(Failure.NO_CONFIG, op=op)
        for op in self._problem.entries:
            if not self._preprocess_entry(op):
                return self._infeasible(Failure.ENTRY, op=op)
        for index in self._problem.resolution_order:
            masks, built = tuple(self._network.masks), self._stats.paths_built
            failure = self._build_edge(index)
            self._tell_edge(index, masks, self._stats.paths_built - built, failure)
            if failure is not None:
                return self._infeasible(failure, edge_index=index)
        self._stats = replace(self._stats, paths_left=self._network.count_paths())
        self._tell_resolved()
        return None

    def accumulated_core_usage(self) -> AccumulatedUsage:
        """Accumulated usage of the configs alive; only after a successful `resolve`."""
        network = self._network
        return accumulate_core_usage(self._problem, network.masks, network.path_sets, self._scales)

    def _tell_edge(self, index: int, before: tuple[int, ...], pairs: int, failure: Failure | None) -> None:
        if self._observe is not None:
            edge, mode, options = (
                self._problem.edges[index],
                self._modes[index],
                tuple(self._connections.reshards.get(index, ())),
            )
            after = () if failure is not None else tuple(self._network.masks)
            self._observe(EdgeStep(index, edge, mode, options, pairs, before, after, failure))

    def _tell_resolved(self) -> None:
        if self._observe is not None:
            paths = tuple(paths or {} for paths in self._network.path_sets)
            self._observe(ResolvedStep(tuple(self._network.masks), paths, self.accumulated_core_usage()))

    def _preprocess_entry(self, op: int) -> bool:
        """Narrow an entry op to configs that can read the external operand."""
        live = self._network.masks[op]
        accepted = 0
        if op not in self._problem.always_reshard_entry:
            accepted = self._oracle.external(op, live) & live
        self._connections.entry_direct[op] = accepted
        if not accepted:
            options = self._connections.entry_reshards[op] = self._oracle.external_reshards(op, live)
            for option in options:
                accepted |= option.enables & live if contains(option.producers, 0) else 0
        self._network.masks[op] = accepted
        if self._observe is not None:
            offered = tuple(self._connections.entry_reshards.get(op, ()))
            self._observe(EntryStep(op, live, self._connections.entry_direct[op], offered))
        return accepted != 0

    def _build_edge(self, index: int) -> Failure | None:
        """PathSet of one edge, with a reshard if direct paths are not enough."""
        direct: Sequence[int] = ()
        if index not in self._problem.forced_reshards:
            direct = self._query_direct(index)
        has_direct = any(direct)
        if has_direct:
            before = self._network.snapshot()
            if self._add_paths(index, direct):
                self._modes[index] = EdgeMode.DIRECT
                self._connections.direct[index] = direct
                return None
            self._network.restore(before)
        bridged = self._query_reshards(index)
        if not any(bridged):
            return Failure.PROPAGATION if has_direct else Failure.NO_PATH
        self._modes[index] = EdgeMode.RESHARD
        return None if self._add_paths(index, bridged) else Failure.PROPAGATION

    def _add_paths(self, index: int, rows: Sequence[int]) -> bool:
        self._stats = replace(self._stats, paths_built=self._stats.paths_built + sum(row.bit_count() for row in rows))
        return self._network.add_paths(index, rows) is None

    def _query_direct(self, index: int) -> list[int]:
        edge = self._problem.edges[index]
        producers, consumers = self._network.masks[edge.producer], self._network.masks[edge.consumer]
        rows = self._oracle.paths(edge, producers, consumers)
        if len(rows) != self._problem.config_counts[edge.producer]:
            raise StateError(f"the oracle gave {len(rows)} rows for edge {index}, one per producer config is needed")
        return [row & consumers if contains(producers, config) else 0 for config, row in enumerate(rows)]

    def _query_reshards(self, index: int) -> list[int]:
        """Rows after a reshard; remembers the options for the final choice of the layout."""
        edge = self._problem.edges[index]
        producers, consumers = self._network.masks[edge.producer], self._network.masks[edge.consumer]
        options = self._connections.reshards[index] = self._oracle.reshards(edge, producers, consumers)
        rows = [0] * self._problem.config_counts[edge.producer]
        for option in options:
            enables = option.enables & consumers
            if enables:
                for config in indices_of(option.producers & producers):
                    rows[config] |= enables
        return rows

    def _select_max_cores(self) -> _Selection:
        if self._by_cpsat or not self._problem.is_forest:
            table = materialise(self._problem, self._oracle, modes=self._modes, live=self._network.masks)
            found = solve_chain_cpsat(table, ChainObjective.CORE_USAGE)
            if isinstance(found, ChainInfeasible):
                return _Selection(None, found.status is SolveStatus.INFEASIBLE, 0)
            assert found.bound is not None, "CP-SAT gives a bound with every choice"
            return _Selection(found.configs, found.status is SolveStatus.OPTIMAL, found.bound)
        usage = self.accumulated_core_usage()
        configs = select_most_cores(self._problem, self._network, usage, self._connections)
        return _Selection(configs, complete=True, bound=usage.bound.__floor__())

    def _solution(self, found: _Selection, live: tuple[int, ...]) -> ChainSolution:
        if found.configs is None or None in self._modes:
            raise StateError("no solution to report")
        configs, ways = found.configs, self._connections
        edges = [ways.across(i, configs[e.producer], configs[e.consumer]) for i, e in enumerate(self._problem.edges)]
        entries = [(op, ways.into(op, configs[op]).layout_id) for op in self._problem.entries]
        return ChainSolution(
            status=SolveStatus.OPTIMAL if found.complete else SolveStatus.FEASIBLE,
            configs=configs,
            edge_reshards=tuple(way.layout_id for way in edges),
            entry_reshards=tuple(entries),
            core_usage=self._problem.total_cores(configs),
            time_ns=ways.total_ns(configs),
            bound=found.bound,
            modes=tuple(mode for mode in self._modes if mode is not None),
            live=live,
            stats=self._stats,
        )

    def _infeasible(self, failure: Failure, *, op: int | None = None, edge_index: int | None = None) -> ChainInfeasible:
        edge = None if edge_index is None else self._problem.edges[edge_index]
        return ChainInfeasible(
            status=SolveStatus.INFEASIBLE,
            failure=failure,
            op=edge.consumer if edge is not None else op,
            edge=edge,
            modes=tuple(self._modes),
            stats=self._stats,
        )
