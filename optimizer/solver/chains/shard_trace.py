"""What ShardSolver does to a chain, as data: sets of live configs, PathSets, reshards, accumulated core usage.

The solver tells an `Observer` of every step, if it was given one; without, it records nothing. Sets of configs are
masks (`bitset`), so that a record costs a few integers; counts and members are worked out when they
are asked for. `ChainTrace.of` solves a chain and keeps all its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from optimizer.solver.chains.bitset import contains, indices_of
from optimizer.solver.chains.chain_problem import (
    ChainProblem,
    ChainResult,
    Edge,
    EdgeMode,
    EdgeOracle,
    Failure,
    ReshardOption,
)
from optimizer.solver.chains.core_usage import AccumulatedUsage


@dataclass(frozen=True, slots=True)
class EntryStep:
    """An entry op narrowed to the configs that can read the operand from outside the chain."""

    op: int
    before: int
    """Configs that fit into L1 on their own."""
    direct: int
    """Of those, the ones that accept the operand as it is."""
    reshards: tuple[ReshardOption, ...]
    """Layouts that the operand may be brought to; empty if none was asked for."""

    @property
    def after(self) -> int:
        """Configs that are left; empty if the chain fails here."""
        enabled = self.direct
        for option in self.reshards:
            enabled |= option.enables & self.before if contains(option.producers, 0) else 0
        return enabled


@dataclass(frozen=True, slots=True)
class EdgeStep:
    """The PathSet of one edge built, and its consequences propagated."""

    index: int
    edge: Edge
    mode: EdgeMode | None
    """Whether pairs are direct, resharded or either; None if there are none."""
    reshards: tuple[ReshardOption, ...]
    """Layouts that may be inserted, best first; empty if none was asked for."""
    pairs_built: int
    """Compatible pairs among the configs that were alive."""
    before: tuple[int, ...]
    """Per op of the chain: configs alive before the edge was built."""
    after: tuple[int, ...]
    """The same after propagation; empty if the edge failed."""
    failure: Failure | None = None
    """Why the chain fails at this edge."""

    def eliminated(self, op: int) -> int:
        """Configs of an op that the edge has cost."""
        return self.before[op] & ~self.after[op] if self.after else 0


@dataclass(frozen=True, slots=True)
class ResolvedStep:
    """Every edge is built and nothing changes any more: what the selection chooses from."""

    live: tuple[int, ...]
    """Per op: configs alive."""
    path_sets: tuple[Mapping[int, int], ...]
    """Per edge: producer config -> compatible consumer configs."""
    usage: AccumulatedUsage
    """Core usage that every config can reach downstream."""

    def pairs_left(self, index: int) -> int:
        """Pairs of an edge that propagation has left."""
        return sum(row.bit_count() for row in self.path_sets[index].values())


SolverStep = EntryStep | EdgeStep | ResolvedStep
Observer = Callable[[SolverStep], None]


class Solver(Protocol):
    """What a trace is taken of: `ChainEngine.solve`, or a ShardSolver of its own."""

    def __call__(self, problem: ChainProblem, oracle: EdgeOracle, observe: Observer | None = None) -> ChainResult: ...


@dataclass(frozen=True)
class ChainTrace:
    """One solve from its first step to its result."""

    problem: ChainProblem
    initial: tuple[int, ...]
    """Per op: configs that fit into L1 on their own."""
    entries: tuple[EntryStep, ...]
    edges: tuple[EdgeStep, ...]
    """In the order in which they were built; those after a failure are absent."""
    resolved: ResolvedStep | None
    """None if the chain failed before."""
    result: ChainResult

    @staticmethod
    def of(solve: Solver, problem: ChainProblem, oracle: EdgeOracle) -> ChainTrace:
        """Solve a chain, and keep every step."""
        steps: list[SolverStep] = []
        result = solve(problem, oracle, steps.append)
        return ChainTrace(
            problem,
            tuple(problem.initial_masks()),
            tuple(s for s in steps if isinstance(s, EntryStep)),
            tuple(s for s in steps if isinstance(s, EdgeStep)),
            next((s for s in steps if isinstance(s, ResolvedStep)), None),
            result,
        )

    def left(self, op: int) -> int:
        """Configs of an op that were alive in the end, or when the chain failed."""
        if self.resolved is not None:
            return self.resolved.live[op]
        masks = next((step.after or step.before for step in reversed(self.edges)), None)
        if masks is not None:
            return masks[op]
        return next((step.after for step in self.entries if step.op == op), self.initial[op])

    def ranked(self, op: int) -> tuple[int, ...]:
        """Live configs of an op, most core usage downstream first, then by tie; empty if the chain failed."""
        if self.resolved is None:
            return ()
        usage = self.resolved.usage.scaled[op]
        return tuple(sorted(indices_of(self.left(op)), key=lambda c: (-usage[c], self.problem.tie_key(op, c))))
