"""How two configs are connected: as they are or through one reshard, and the rule that takes one way of several.

All chain solvers follow it. The way of least time is taken; of equally fast ones the direct way, then the first
reshard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from optimizer.errors import StateError
from optimizer.solver.chains.bitset import contains
from optimizer.solver.chains.chain_problem import ChainProblem, EdgeOracle, ReshardOption


@dataclass(frozen=True, slots=True)
class Bridge:
    """One connection."""

    layout_id: int | None
    """The layout inserted; None for a direct one."""
    time_ns: int
    """What the connection adds to the times of both ops; may be negative."""


def bridge(direct_ns: int | None, options: Sequence[tuple[ReshardOption, int]], producer: int) -> Bridge:
    """The way taken out of the direct one (None: not possible) and reshards with their times. StateError if none is."""
    fastest = min((ns for _, ns in options), default=None)
    if direct_ns is not None and (fastest is None or direct_ns <= fastest):
        return Bridge(None, direct_ns)
    if fastest is None:
        raise StateError(f"no way leads from config {producer} to the next op")
    return Bridge(next(option.layout_id for option, ns in options if ns == fastest), fastest)


@dataclass
class Connections:
    """The ways over every edge and entry of one chain as far as they were asked for, and what they take."""

    problem: ChainProblem
    oracle: EdgeOracle
    direct: dict[int, Sequence[int]] = field(default_factory=dict)
    """Edge index -> per producer config: consumer configs that read its layout as it is; absent where not allowed."""
    reshards: dict[int, Sequence[ReshardOption]] = field(default_factory=dict)
    """Edge index -> what may be inserted; absent where not allowed."""
    entry_direct: dict[int, int] = field(default_factory=dict)
    """Entry op -> configs that read the external operand as it is."""
    entry_reshards: dict[int, Sequence[ReshardOption]] = field(default_factory=dict)
    _copies: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(edge, producer config, layout) -> time of the copy."""
    _reads: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(edge, layout, consumer config) -> extra time of the consumer."""

    def across(self, index: int, producer: int, consumer: int) -> Bridge:
        """The way over an edge between two configs."""
        direct_ns, edge = None, self.problem.edges[index]
        if index in self.direct and contains(self.direct[index][producer], consumer):
            direct_ns = self.oracle.direct_ns(edge, producer, consumer)
        options = [
            (option, self._copy_ns(index, producer, option) + self._read_ns(index, option, consumer))
            for option in self.reshards.get(index, ())
            if contains(option.producers, producer) and contains(option.enables, consumer)
        ]
        return bridge(direct_ns, options, producer)

    def into(self, op: int, config: int) -> Bridge:
        """The way from outside to a config of an entry op."""
        direct_ns = self.oracle.external_ns(op, config) if contains(self.entry_direct[op], config) else None
        options = [
            (option, self.oracle.external_reshard_ns(op, option.layout_id, config))
            for option in self.entry_reshards.get(op, ())
            if contains(option.producers, 0) and contains(option.enables, config)
        ]
        return bridge(direct_ns, options, 0)

    def own_ns(self, op: int, config: int) -> int:
        """Time of a config that depends on no other op's: its own, its exit, and its entry."""
        own = sum(table[op][config] for table in (self.problem.time_ns, self.problem.exit_ns) if table)
        return own + (self.into(op, config).time_ns if op in self.entry_direct else 0)

    def total_ns(self, configs: Sequence[int]) -> int:
        """Time of a complete choice."""
        edges = enumerate(self.problem.edges)
        between = sum(self.across(i, configs[edge.producer], configs[edge.consumer]).time_ns for i, edge in edges)
        return between + sum(self.own_ns(op, config) for op, config in enumerate(configs))

    def _copy_ns(self, index: int, producer: int, option: ReshardOption) -> int:
        key = (index, producer, option.layout_id)
        if key not in self._copies:
            self._copies[key] = self.oracle.reshard_ns(self.problem.edges[index], producer, option.layout_id)
        return self._copies[key]

    def _read_ns(self, index: int, option: ReshardOption, consumer: int) -> int:
        key = (index, option.layout_id, consumer)
        if key not in self._reads:
            self._reads[key] = self.oracle.resharded_ns(self.problem.edges[index], option.layout_id, consumer)
        return self._reads[key]
