"""A graph problem with its capacity, by all exact means in the order of their price.

    presolve -> prices of memory (bound, choices) -> presolve below the best choice -> frontier DP -> CP-SAT

Each step ends it if nothing cheaper than the best choice is left. All limits count work, not seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from optimizer.solver.graphs.elimination import DEFAULT_TABLE_LIMIT
from optimizer.solver.graphs.graph_presolve import Presolved, presolve
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution
from optimizer.solver.graphs.lagrangian import maximise
from reference_solvers.frontier import STATE_LIMIT, solve_frontier


@dataclass(frozen=True)
class ExactLimits:
    """How much work each step may do; 0 leaves the step out."""

    price_iterations: int = 20
    """Eliminations that raise the bound."""
    table_cells: int = DEFAULT_TABLE_LIMIT
    """Of the largest table of an elimination."""
    states: int = STATE_LIMIT
    """States that the frontier DP keeps after each node."""
    cpsat_work: float = 60.0
    """CP-SAT's deterministic seconds."""


def solve_graph(
    problem: GraphProblem,
    hint: Sequence[int] | None = None,
    *,
    upper_bound: int | None = None,
    limits: ExactLimits | None = None,
    stop: Callable[[], bool] | None = None,
) -> GraphSolution:
    """The best choice that fits and a proven bound; `value == lower_bound` if it is the optimum.

    `hint` is a choice to begin with. With `upper_bound` only choices of less value are looked for: if there is none,
    `chosen` is None and `lower_bound` the upper bound. `stop` ends the search early, with what is known by then.
    """
    return _Search(problem, upper_bound, limits or ExactLimits(), stop).run(hint)


class _Search:
    def __init__(
        self, problem: GraphProblem, upper_bound: int | None, limits: ExactLimits, stop: Callable[[], bool] | None
    ) -> None:
        self._problem = problem
        self._limits = limits
        self._stop = stop
        self._cutoff = FORBIDDEN if upper_bound is None else upper_bound
        self._best = GraphSolution(None, FORBIDDEN, 0)
        self._bound = 0
        self._prices = [0.0] * len(problem.capacity)

    def run(self, hint: Sequence[int] | None) -> GraphSolution:
        if hint is not None and self._problem.fits(hint):
            self._offer(tuple(hint))
        limits = self._limits
        steps = (
            (self._by_prices, limits.price_iterations),
            (self._by_frontier, limits.states),
            (self._by_cpsat, limits.cpsat_work),
        )
        for step in (step for step, work in steps if work):
            small = presolve(self._problem, self._below)
            if not small.feasible:
                self._bound = self._below
            elif not self._is_over:
                step(small)
            if self._is_over:
                break
        bound = min(self._bound, self._below)
        return GraphSolution(self._best.chosen, self._best.value, bound)

    @property
    def _below(self) -> int:
        """Only choices of less value matter."""
        return min(self._cutoff, self._best.value)

    @property
    def _is_over(self) -> bool:
        return self._bound >= self._below or (self._stop is not None and self._stop())

    def _offer(self, chosen: tuple[int, ...]) -> None:
        value = self._problem.value(chosen)
        if value < self._below:
            self._best = GraphSolution(chosen, value, 0)

    def _learn(self, small: Presolved, found: GraphSolution) -> None:
        """What a step says about the smaller problem, which holds every choice below `_below`."""
        proven = min(self._below, found.lower_bound + small.offset)
        if found.chosen is not None:
            self._offer(small.restore(found.chosen))
        self._bound = max(self._bound, proven)

    def _by_prices(self, small: Presolved) -> None:
        found = maximise(
            small.problem,
            self._limits.price_iterations,
            upper_bound=self._below - small.offset if self._below < FORBIDDEN else None,
            table_limit=self._limits.table_cells,
            stop=self._stop,
        )
        for step, price in zip(small.steps, found.prices, strict=True):
            self._prices[step] = price
        chosen = None if found.best is None else found.best.chosen
        self._learn(small, GraphSolution(chosen, FORBIDDEN, found.lower_bound))

    def _by_frontier(self, small: Presolved) -> None:
        found = solve_frontier(
            small.problem,
            state_limit=self._limits.states,
            upper_bound=self._below - small.offset,
            prices=[self._prices[step] for step in small.steps],
            stop=self._stop,
        )
        self._learn(small, found.solution)

    def _by_cpsat(self, small: Presolved) -> None:
        # Imported here: it loads OR-tools, which most problems do not need.
        from optimizer.solver.graphs.graph_cpsat import solve_cpsat

        upper = self._below - small.offset
        found = solve_cpsat(small.problem, work_limit=self._limits.cpsat_work, upper_bound=upper, stop=self._stop)
        self._learn(small, found)
