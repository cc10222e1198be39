"""A chain with every answer of its oracle written out: the input of the exact solvers.

`ShardSolver` asks for live configs only and decides on the way which edges are resharded. The exact
solvers (DP, CP-SAT, brute force) need the same problem as complete tables. Two readings exist:

- with the edge modes that a ShardSolver found, the tables hold exactly the problem it solved;
- without, every edge and entry may be direct or resharded as the oracle allows (for minimal time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import contains, indices_of
from optimizer.solver.chains.chain_problem import (
    ChainProblem,
    Edge,
    EdgeMode,
    EdgeOracle,
    ReshardOption,
    TimeOracle,
)

Matrix = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class EdgeTable:
    """What one edge allows and costs. Empty cost tables mean 0; costs of impossible pairs are 0 and unused."""

    direct: tuple[int, ...]
    """Per producer config: consumer configs reached directly."""
    reshards: tuple[ReshardOption, ...] = ()
    direct_ns: Matrix = ()
    """[producer config][consumer config]"""
    reshard_ns: Matrix = ()
    """[option][producer config]"""
    resharded_ns: Matrix = ()
    """[option][consumer config]"""


@dataclass(frozen=True)
class EntryTable:
    """What one chain entry allows and costs, like `EdgeTable` with a single producer config."""

    direct: int
    reshards: tuple[ReshardOption, ...] = ()
    direct_ns: tuple[int, ...] = ()
    """[config]"""
    reshard_ns: Matrix = ()
    """[option][config]"""


@dataclass(frozen=True)
class MaterialisedChain:
    problem: ChainProblem
    masks: tuple[int, ...]
    """Per op: the configs a solution may use."""
    edges: tuple[EdgeTable, ...]
    """Parallel to `problem.edges`."""
    entries: tuple[EntryTable, ...]
    """Parallel to `problem.entries`."""


def materialise(
    problem: ChainProblem,
    oracle: EdgeOracle,
    *,
    modes: Sequence[EdgeMode | None] | None = None,
    live: Sequence[int] | None = None,
) -> MaterialisedChain:
    """Ask the oracle everything.

    `modes` are `ChainSolution.modes` or `ChainInfeasible.modes` (None for an edge that was not reached: it may
    be either); without them everything is allowed. `live` narrows the questions to configs known to contain
    every solution of interest, e.g. what ShardSolver's propagation has left. Costs are read if the oracle
    is a `TimeOracle`.
    """
    masks = problem.initial_masks()
    if live is not None:
        masks = [mask & kept for mask, kept in zip(masks, live, strict=True)]
    edges = []
    for index, edge in enumerate(problem.edges):
        mode = EdgeMode.EITHER if modes is None else modes[index] or EdgeMode.EITHER
        if index in problem.forced_reshards:
            mode = EdgeMode.RESHARD
        table = _edge_table(oracle, edge, masks, mode, problem.config_counts[edge.producer])
        edges.append(_priced_edge(oracle, edge, table, masks) if isinstance(oracle, TimeOracle) else table)
    entries = [
        entry_table(oracle, op, masks[op], op in problem.always_reshard_entry, reactive=modes is not None)
        for op in problem.entries
    ]
    return MaterialisedChain(problem, tuple(masks), tuple(edges), tuple(entries))


def _edge_table(oracle: EdgeOracle, edge: Edge, masks: Sequence[int], mode: EdgeMode, num_producers: int) -> EdgeTable:
    producers, consumers = masks[edge.producer], masks[edge.consumer]
    rows = [0] * num_producers
    if mode is not EdgeMode.RESHARD:
        answer = oracle.paths(edge, producers, consumers)
        if len(answer) != num_producers:
            raise StateError(f"the oracle gave {len(answer)} rows for {edge}, one per producer config is needed")
        rows = [row & consumers if contains(producers, config) else 0 for config, row in enumerate(answer)]
    options: Sequence[ReshardOption] = ()
    if mode is not EdgeMode.DIRECT:
        options = oracle.reshards(edge, producers, consumers)
    return EdgeTable(tuple(rows), _narrowed(options, producers, consumers))


def entry_table(oracle: EdgeOracle, op: int, mask: int, always_reshard: bool, *, reactive: bool = False) -> EntryTable:
    """How an op may read operand 0 from outside the chain; `reactive`: reshards only where it cannot directly."""
    direct = 0 if always_reshard else oracle.external(op, mask) & mask
    options: Sequence[ReshardOption] = () if direct and reactive else oracle.external_reshards(op, mask)
    table = EntryTable(direct, _narrowed(options, 1, mask))
    return _priced_entry(oracle, op, table, mask) if isinstance(oracle, TimeOracle) else table


def _narrowed(options: Sequence[ReshardOption], producers: int, consumers: int) -> tuple[ReshardOption, ...]:
    """Options as finite sets of allowed configs, without those that enable nothing."""
    finite = (
        replace(option, enables=option.enables & consumers, producers=option.producers & producers)
        for option in options
    )
    return tuple(option for option in finite if option.enables and option.producers)


def _priced_edge(oracle: TimeOracle, edge: Edge, table: EdgeTable, masks: Sequence[int]) -> EdgeTable:
    widths = len(table.direct), max(masks[edge.consumer].bit_length(), 1)
    direct = [[0] * widths[1] for _ in table.direct]
    for producer, row in enumerate(table.direct):
        for consumer in indices_of(row):
            direct[producer][consumer] = oracle.direct_ns(edge, producer, consumer)
    copies = [[0] * widths[0] for _ in table.reshards]
    reads = [[0] * widths[1] for _ in table.reshards]
    for number, option in enumerate(table.reshards):
        for producer in indices_of(option.producers):
            copies[number][producer] = oracle.reshard_ns(edge, producer, option.layout_id)
        for consumer in indices_of(option.enables):
            reads[number][consumer] = oracle.resharded_ns(edge, option.layout_id, consumer)
    return replace(table, direct_ns=_frozen(direct), reshard_ns=_frozen(copies), resharded_ns=_frozen(reads))


def _priced_entry(oracle: TimeOracle, op: int, table: EntryTable, mask: int) -> EntryTable:
    width = max(mask.bit_length(), 1)
    direct = [0] * width
    for config in indices_of(table.direct):
        direct[config] = oracle.external_ns(op, config)
    copies = [[0] * width for _ in table.reshards]
    for number, option in enumerate(table.reshards):
        for config in indices_of(option.enables):
            copies[number][config] = oracle.external_reshard_ns(op, option.layout_id, config)
    return replace(table, direct_ns=tuple(direct), reshard_ns=_frozen(copies))


def _frozen(rows: Sequence[Sequence[int]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


class TableOracle:
    """A materialised chain as a `TimeOracle`: answers come from its tables (replays and tests)."""

    def __init__(self, chain: MaterialisedChain) -> None:
        self._edges = dict(zip(chain.problem.edges, chain.edges, strict=True))
        self._entries = dict(zip(chain.problem.entries, chain.entries, strict=True))

    def external(self, op: int, consumer_mask: int) -> int:
        return self._entries[op].direct & consumer_mask

    def external_reshards(self, op: int, consumer_mask: int) -> Sequence[ReshardOption]:
        return _narrowed(self._entries[op].reshards, 1, consumer_mask)

    def paths(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[int]:
        rows = self._edges[edge].direct
        return [row & consumer_mask if contains(producer_mask, config) else 0 for config, row in enumerate(rows)]

    def reshards(self, edge: Edge, producer_mask: int, consumer_mask: int) -> Sequence[ReshardOption]:
        return _narrowed(self._edges[edge].reshards, producer_mask, consumer_mask)

    def direct_ns(self, edge: Edge, producer_config: int, consumer_config: int) -> int:
        return _cell(self._edges[edge].direct_ns, producer_config, consumer_config)

    def reshard_ns(self, edge: Edge, producer_config: int, layout_id: int) -> int:
        table = self._edges[edge]
        return _cell(table.reshard_ns, _option_number(table.reshards, layout_id), producer_config)

    def resharded_ns(self, edge: Edge, layout_id: int, consumer_config: int) -> int:
        table = self._edges[edge]
        return _cell(table.resharded_ns, _option_number(table.reshards, layout_id), consumer_config)

    def external_ns(self, op: int, config: int) -> int:
        costs = self._entries[op].direct_ns
        return costs[config] if costs else 0

    def external_reshard_ns(self, op: int, layout_id: int, config: int) -> int:
        table = self._entries[op]
        return _cell(table.reshard_ns, _option_number(table.reshards, layout_id), config)


def _cell(matrix: Matrix, row: int, column: int) -> int:
    return matrix[row][column] if matrix else 0


def _option_number(options: Sequence[ReshardOption], layout_id: int) -> int:
    for number, option in enumerate(options):
        if option.layout_id == layout_id:
            return number
    raise StateError(f"no reshard option with layout {layout_id}")
