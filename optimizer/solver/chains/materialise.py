"""A chain with every answer of its oracle written out: the input of the exact solvers.

`ShardSolver` asks for live configs only and decides on the way which edges are resharded. The exact
solvers (DP, CP-SAT, brute force) need the same problem as complete tables. Two readings exist:

- with the edge modes that a ShardSolver found, the tables hold exactly the problem it solved;
- without, every edge and entry may be direct or resharded as the oracle allows (for minimal time).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import contains, indices_of
from optimizer.solver.chains.chain_problem import (
    ChainProblem,
    Edge,
    EdgeMode,
    EdgeOracle,
    ReshardOption,
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
class MaterialisedChain:
    problem: ChainProblem
    masks: tuple[int, ...]
    """Per op: the configs a solution may use."""
    edges: tuple[EdgeTable, ...]
    """Parallel to `problem.edges`."""
    entries: tuple[EdgeTable, ...]
    """Parallel to `problem.entries`: from a single producer config, the copy counted in `resharded_ns`."""


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
    every solution of interest, e.g. what ShardSolver's propagation has left.
    """
    masks = problem.initial_masks()
    if live is not None:
        masks = [mask & kept for mask, kept in zip(masks, live, strict=True)]
    edges = []
    for index, edge in enumerate(problem.edges):
        mode = EdgeMode.EITHER if modes is None else modes[index] or EdgeMode.EITHER
        if index in problem.forced_reshards:
            mode = EdgeMode.RESHARD
        edges.append(_edge_table(oracle, edge, masks, mode, problem.config_counts[edge.producer]))
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
    table = EdgeTable(tuple(rows), _narrowed(options, producers, consumers))
    ways = (oracle.direct_ns, oracle.reshard_ns, oracle.resharded_ns)
    return _priced(table, consumers, *(partial(way, edge) for way in ways))


def entry_table(oracle: EdgeOracle, op: int, mask: int, always_reshard: bool, *, reactive: bool = False) -> EdgeTable:
    """How an op may read operand 0 from outside the chain; `reactive`: reshards only where it cannot directly."""
    direct = 0 if always_reshard else oracle.external(op, mask) & mask
    options: Sequence[ReshardOption] = () if direct and reactive else oracle.external_reshards(op, mask)
    table = EdgeTable((direct,), _narrowed(options, 1, mask))
    read_ns = partial(oracle.external_reshard_ns, op)  # the copy included
    return _priced(table, mask, lambda _, config: oracle.external_ns(op, config), lambda *_: 0, read_ns)


def _narrowed(options: Sequence[ReshardOption], producers: int, consumers: int) -> tuple[ReshardOption, ...]:
    """Options as finite sets of allowed configs, without those that enable nothing."""
    finite = (
        replace(option, enables=option.enables & consumers, producers=option.producers & producers)
        for option in options
    )
    return tuple(option for option in finite if option.enables and option.producers)


def _priced(
    table: EdgeTable,
    consumers: int,
    direct_ns: Callable[[int, int], int],
    copy_ns: Callable[[int, int], int],
    read_ns: Callable[[int, int], int],
) -> EdgeTable:
    """The table with its times: of a pair, of a copy from a producer into a layout, of a consumer that reads one."""
    widths = len(table.direct), max(consumers.bit_length(), 1)
    direct = [[0] * widths[1] for _ in table.direct]
    for producer, row in enumerate(table.direct):
        for consumer in indices_of(row):
            direct[producer][consumer] = direct_ns(producer, consumer)
    copies = [[0] * widths[0] for _ in table.reshards]
    reads = [[0] * widths[1] for _ in table.reshards]
    for number, option in enumerate(table.reshards):
        for producer in indices_of(option.producers):
            copies[number][producer] = copy_ns(producer, option.layout_id)
        for consumer in indices_of(option.enables):
            reads[number][consumer] = read_ns(option.layout_id, consumer)
    return replace(table, direct_ns=_frozen(direct), reshard_ns=_frozen(copies), resharded_ns=_frozen(reads))


def _frozen(rows: Sequence[Sequence[int]]) -> Matrix:
    return tuple(tuple(row) for row in rows)
