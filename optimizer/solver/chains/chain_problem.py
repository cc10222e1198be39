"""The layout problem of one L1 chain, in plain integers: what goes into the solvers and what comes out.

A chain is a list of ops in schedule order with directed operand edges between them. Every op has a list
of configs; a solution takes one config per op such that on every edge the consumer's config accepts the
producer's output layout, directly or through one reshard. Which pairs are accepted is asked of an
`EdgeOracle`, one edge at a time and only for configs that are still alive, because every answer behind
it costs OpModel calls. The solvers know neither graphs nor layouts nor the OpModel: configs are indices,
sets of configs are integers (`optimizer.solver.chains.bitset`), reshard layouts are ids of the oracle's choosing.

Chains of the DFSharding policy are linear; forks, diamonds and repeated operands are accepted as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import ALL, full_mask

Table = tuple[tuple[int, ...], ...]
"""One integer per config, per op."""


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """Operand `operand` of op `consumer` is the output of op `producer`; both are chain positions."""

    producer: int
    consumer: int
    operand: int = 0


@dataclass(frozen=True, slots=True)
class ReshardOption:
    """One layout that may be inserted between producer and consumer, or before a chain entry, where the
    external operand counts as producer config 0."""

    layout_id: int
    enables: int
    """Consumer configs that accept this layout on the edge's operand."""
    producers: int = ALL
    """Producer configs from whose output the copy can be made."""


@dataclass(frozen=True)
class ChainProblem:
    """A chain without its compatibility tables. Raises StateError if the tables do not fit together."""

    core_usage: Table
    """Grid volume (cores) of every config's output; its shape defines how many configs each op has."""
    edges: tuple[Edge, ...] = ()
    """Operand edges inside the chain, each (consumer, operand) once, producers before consumers."""
    tie_rank: Table = ()
    """Among choices as good in cores and time the lower rank wins, then the lower index. Empty: all 0."""
    time_ns: Table = ()
    """Time of the op itself under every config. Empty: all 0."""
    exit_ns: Table = ()
    """Time to bring the output where it leaves the chain (spill to DRAM), 0 for inner ops. Empty: all 0."""
    always_reshard_entry: tuple[int, ...] = ()
    """Entry ops (no operand inside the chain) that never read their external input directly (convolutions)."""
    forced_reshards: tuple[int, ...] = ()
    """Indices into `edges` that must be resharded (the user's `insert_memreconfig`)."""

    def __post_init__(self) -> None:
        if not self.core_usage:
            raise StateError("a chain needs at least one op")
        counts = self.config_counts
        for name in ("tie_rank", "time_ns", "exit_ns"):
            table: Table = getattr(self, name)
            if table and tuple(len(row) for row in table) != counts:
                raise StateError(f"'{name}' has not one value per config of 'core_usage'")
        if any(volume < 0 for row in self.core_usage for volume in row):
            raise StateError("'core_usage' must not be negative")
        self._check_edges()

    def _check_edges(self) -> None:
        seen: set[tuple[int, int]] = set()
        for edge in self.edges:
            if not 0 <= edge.producer < edge.consumer < self.num_ops:
                raise StateError(f"edge {edge.producer} -> {edge.consumer} is not in schedule order")
            if (edge.consumer, edge.operand) in seen:
                raise StateError(f"operand {edge.operand} of op {edge.consumer} has two producers")
            seen.add((edge.consumer, edge.operand))
        entries = set(self.entries)
        if not entries.issuperset(self.always_reshard_entry):
            raise StateError("'always_reshard_entry' names an op that is no chain entry")
        if any(not 0 <= index < len(self.edges) for index in self.forced_reshards):
            raise StateError("'forced_reshards' names an edge that does not exist")

    @property
    def num_ops(self) -> int:
        return len(self.core_usage)

    @cached_property
    def config_counts(self) -> tuple[int, ...]:
        return tuple(len(row) for row in self.core_usage)

    @cached_property
    def operand_edges(self) -> tuple[tuple[int, ...], ...]:
        """Per op: indices of the edges into it, by operand."""
        return self._edges_by([edge.consumer for edge in self.edges])

    @cached_property
    def user_edges(self) -> tuple[tuple[int, ...], ...]:
        """Per op: indices of the edges out of it, by consumer and operand."""
        return self._edges_by([edge.producer for edge in self.edges])

    def _edges_by(self, ends: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        lists: list[list[int]] = [[] for _ in range(self.num_ops)]
        for index in self.resolution_order:
            lists[ends[index]].append(index)
        return tuple(tuple(row) for row in lists)

    @cached_property
    def resolution_order(self) -> tuple[int, ...]:
        """Edge indices by consumer, then operand: the order in which paths are built."""
        return tuple(sorted(range(len(self.edges)), key=lambda i: (self.edges[i].consumer, self.edges[i].operand)))

    @cached_property
    def entries(self) -> tuple[int, ...]:
        """Ops without an operand inside the chain: their operand 0 comes from outside."""
        consumers = {edge.consumer for edge in self.edges}
        return tuple(op for op in range(self.num_ops) if op not in consumers)

    @property
    def is_forest(self) -> bool:
        """No op has two operand edges, so arc consistency decides feasibility and selection is exact."""
        return all(len(edges) <= 1 for edges in self.operand_edges)

    @property
    def is_linear(self) -> bool:
        """A path 0 -> 1 -> ... -> n-1; several edges between two neighbours are allowed."""
        steps = {(edge.producer, edge.consumer) for edge in self.edges}
        return steps == {(op, op + 1) for op in range(self.num_ops - 1)}

    def initial_masks(self) -> list[int]:
        """Per op: all of its configs."""
        return [full_mask(count) for count in self.config_counts]

    def tie_key(self, op: int, config: int) -> tuple[int, int]:
        """Order among configs of one op that are equal in cores and time: (rank, index), the smaller is preferred."""
        return (self.tie_rank[op][config] if self.tie_rank else 0, config)

    def total_cores(self, configs: Sequence[int]) -> int:
        """The core-usage objective of a complete choice: the sum of grid volumes."""
        return sum(self.core_usage[op][config] for op, config in enumerate(configs))


class EdgeOracle(Protocol):
    """Answers questions about one chain: what is compatible, and what connections take in ns, on top of
    `ChainProblem.time_ns`.

    Masks passed in are the configs still alive; bits outside them are ignored in the answer, so they need not be
    evaluated. Equal questions must get equal answers, whatever else is alive. Times may be negative (a consumer that
    runs faster on this operand layout than its base time says)."""

    def external(self, op: int, consumer_mask: int) -> int:
        """Configs of an entry op that accept their external operand as it is (DRAM interleaved)."""
        ...

    def external_reshards(self, op: int, consumer_mask: int) -> Sequence[ReshardOption]:
        """Layouts to which the external operand of an entry op may be brought first, best first."""
        ...

    def paths(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[int]:
        """Per producer config (all of them, by index): the consumer configs that accept its output layout."""
        ...

    def reshards(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[ReshardOption]:
        """Layouts that may be inserted on the edge, best first."""
        ...

    def direct_ns(self, edge: Edge, producer_config: int, consumer_config: int) -> int:
        """Extra time of the consumer when it reads the producer's layout directly."""
        ...

    def reshard_ns(self, edge: Edge, producer_config: int, layout_id: int) -> int:
        """Time of the copy from the producer's layout into the reshard layout."""
        ...

    def resharded_ns(self, edge: Edge, layout_id: int, consumer_config: int) -> int:
        """Extra time of the consumer when it reads the reshard layout."""
        ...

    def external_ns(self, op: int, config: int) -> int:
        """Extra time of an entry op that reads its external operand as it is."""
        ...

    def external_reshard_ns(self, op: int, layout_id: int, config: int) -> int:
        """Time of the copy into the chain plus the extra time of the entry op that reads it."""
        ...


class EdgeMode(StrEnum):
    """What one edge allows, after the strategy has been applied."""

    DIRECT = "direct"
    RESHARD = "reshard"
    EITHER = "either"


class SolveStatus(StrEnum):
    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    """A solution, but the search was cut off before it was proven best."""
    INFEASIBLE = "infeasible"
    """Proven: no choice satisfies every edge."""
    UNKNOWN = "unknown"
    """Cut off with neither a solution nor a proof."""


class Failure(StrEnum):
    """Where a chain failed."""

    NO_CONFIG = "no-config"
    """An op has no config that fits into L1."""
    ENTRY = "entry"
    """No config of an entry op accepts the external operand, resharded or not."""
    NO_PATH = "no-path"
    """No config pair of an edge is compatible, and no reshard helps."""
    PROPAGATION = "propagation"
    """The edge has compatible pairs, but none agrees with the rest of the chain, and no reshard helps."""
    SEARCH = "search"
    """Every edge has pairs left, but no choice satisfies all edges at once (only with several operands)."""
    LIMIT = "limit"
    """The node limit or the time limit was reached."""


@dataclass(frozen=True, slots=True)
class SolveStats:
    """What a solve took. Every figure is deterministic."""

    paths_built: int = 0
    """Config pairs found compatible (direct or by reshard) when the edges were built."""
    paths_left: int = 0
    """Of those, the pairs left after propagation."""


@dataclass(frozen=True)
class ChainSolution:
    """One config per op, and how every edge is bridged."""

    status: SolveStatus
    """`optimal` or `feasible`."""
    configs: tuple[int, ...]
    edge_reshards: tuple[int | None, ...]
    """Per edge of the problem: the id of the inserted layout, None for a direct edge."""
    entry_reshards: tuple[tuple[int, int | None], ...]
    """Per entry op: (op, id of the layout inserted before it or None)."""
    core_usage: int
    """Sum of the chosen configs' grid volumes."""
    time_ns: int
    """Modelled time of the chain."""
    bound: int | None = None
    """Proven bound of the objective: upper for cores, lower for time. Equal to the objective if optimal."""
    modes: tuple[EdgeMode, ...] = ()
    """Per edge: what was allowed there."""
    live: tuple[int, ...] = ()
    """Per op: configs left after propagation, before selection. Empty if the solver does not propagate."""
    stats: SolveStats = field(default_factory=SolveStats)


@dataclass(frozen=True)
class ChainInfeasible:
    """Why a chain has no solution (or none was found within the limit)."""

    status: SolveStatus
    """`infeasible` or `unknown`."""
    failure: Failure
    op: int | None
    """The op at which it failed: the consumer of `edge`, or the entry op."""
    edge: Edge | None = None
    """The failing edge, if it is one."""
    modes: tuple[EdgeMode | None, ...] = ()
    """Per edge: what was allowed there; None where the solver did not get that far."""
    stats: SolveStats = field(default_factory=SolveStats)

    def describe(self, names: Sequence[str] | None = None) -> str:
        """One sentence for a report; `names` are the ops' names in chain order."""

        def name(op: int) -> str:
            return names[op] if names is not None else f"op {op}"

        place = "the chain" if self.op is None else name(self.op)
        if self.edge is not None:
            place = f"{name(self.edge.producer)} -> {name(self.edge.consumer)} (operand {self.edge.operand})"
        return f"{place}: {_SENTENCES[self.failure]}"


_SENTENCES = {
    Failure.NO_CONFIG: "no config fits into L1",
    Failure.ENTRY: "no config accepts the external operand, neither as it is nor resharded",
    Failure.NO_PATH: "no pair of configs is compatible and no reshard helps",
    Failure.PROPAGATION: "no compatible pair of configs agrees with the rest of the chain and no reshard helps",
    Failure.SEARCH: "every edge can be satisfied, but not all edges at once",
    Failure.LIMIT: "the search limit was reached without a solution",
}


ChainResult = ChainSolution | ChainInfeasible
