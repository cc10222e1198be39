"""The engines that solve one L1 chain, by the name that the option `chain_solver` gives them.

Both solve the same problem: the most cores, with reshards only where ShardSolver's rule inserts them. Which edges
those are is decided by propagation along the chain, so both begin with it; then `bitset` chooses on its PathSets, and
`cpsat` asks CP-SAT. Where only time counts, reshards are allowed everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from optimizer.errors import UnknownNameError
from optimizer.process import logs
from optimizer.solver.chains.chain_costs import ChainObjective
from optimizer.solver.chains.chain_cpsat import solve_chain_cpsat
from optimizer.solver.chains.chain_dp import solve_linear_chain
from optimizer.solver.chains.chain_problem import (
    ChainProblem,
    ChainResult,
    EdgeOracle,
)
from optimizer.solver.chains.materialise import MaterialisedChain
from optimizer.solver.chains.shard_solver import ShardSolver
from optimizer.solver.chains.shard_trace import EdgeStep, EntryStep, Observer, SolverStep

_log = logs.room("solver")


class ChainEngine(Protocol):
    """Takes one config per op of a chain."""

    @property
    def name(self) -> str: ...

    def solve(self, problem: ChainProblem, oracle: EdgeOracle, observe: Observer | None = None) -> ChainResult:
        """The most cores, with reshards where no direct path is left. `observe` is told of every step."""
        ...

    def fastest(self, table: MaterialisedChain) -> ChainResult:
        """The least time, then the most cores, of a chain written out."""
        ...


@dataclass(frozen=True)
class BitsetEngine:
    """ShardSolver; for time, dynamic programming along the chain where it is linear, which gives the same as CP-SAT."""

    name: str = "bitset"

    def solve(self, problem: ChainProblem, oracle: EdgeOracle, observe: Observer | None = None) -> ChainResult:
        return ShardSolver(problem, oracle, observe=_heard(observe)).solve()

    def fastest(self, table: MaterialisedChain) -> ChainResult:
        if table.problem.is_linear:  # milliseconds, and OR-tools is not loaded
            return solve_linear_chain(table, ChainObjective.TIME)
        return solve_chain_cpsat(table, ChainObjective.TIME)


@dataclass(frozen=True)
class CpSatEngine:
    """CP-SAT on the chain written out. Past its limit of deterministic time the best choice so far is `feasible`."""

    name: str = "cpsat"

    def solve(self, problem: ChainProblem, oracle: EdgeOracle, observe: Observer | None = None) -> ChainResult:
        return ShardSolver(problem, oracle, by_cpsat=True, observe=_heard(observe)).solve()

    def fastest(self, table: MaterialisedChain) -> ChainResult:
        return solve_chain_cpsat(table, ChainObjective.TIME)


def _heard(observe: Observer | None) -> Observer | None:
    """The observer, and the log if anybody reads it."""
    if not _log.tells_debug:
        return observe

    def tell(step: SolverStep) -> None:
        _tell(step)
        if observe is not None:
            observe(step)

    return tell


def _tell(step: SolverStep) -> None:
    """Log the sizes of sets before and after a step, what was built, and why an edge failed."""
    if isinstance(step, EntryStep):
        sizes = {"before": step.before.bit_count(), "direct": step.direct.bit_count(), "after": step.after.bit_count()}
        _log.debug("entry", op=step.op, **sizes, reshards=len(step.reshards))
    elif isinstance(step, EdgeStep):
        _log.debug(
            "edge",
            producer=step.edge.producer,
            consumer=step.edge.consumer,
            mode=step.mode,
            pairs=step.pairs_built,
            reshards=len(step.reshards),
            before=[mask.bit_count() for mask in step.before],
            after=[mask.bit_count() for mask in step.after],
            because=step.failure,
        )
    else:
        left = [step.pairs_left(index) for index in range(len(step.path_sets))]
        _log.debug("resolved", live=[mask.bit_count() for mask in step.live], pairs=left, cores=int(step.usage.bound))


ENGINES: dict[str, ChainEngine] = {e.name: e for e in (BitsetEngine(), CpSatEngine())}


def engine(name: str) -> ChainEngine:
    """The engine of a name. UnknownNameError lists those there are."""
    if name not in ENGINES:
        raise UnknownNameError("chain solver", name, ENGINES, node="chain_solver")
    return ENGINES[name]
