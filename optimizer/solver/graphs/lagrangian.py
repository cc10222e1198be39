"""Lower bounds that respect the capacity: the best prices for memory (Lagrangian duality), by a proximal bundle method.

With a price per byte in every row of the memory,

    L(prices) = min over choices of (cost + price of the bytes taken)  -  price of the whole capacity

is a lower bound of every choice that fits. The minimum is found by elimination (itself a bound where it is not exact).
L is concave and piecewise linear: each choice found is one of its planes. The next prices maximise the planes found so
far, less the squared distance from the best prices (Lemarechal; Kiwiel, "Proximity control in bundle methods", 1990).

Whatever the prices, the bound is exact (`optimizer.solver.graphs.priced`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from optimizer.process import logs
from optimizer.solver.graphs.capacity import capacity_of
from optimizer.solver.graphs.elimination import DEFAULT_TABLE_LIMIT, eliminate
from optimizer.solver.graphs.elimination_memo import EliminationMemo
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution
from optimizer.solver.graphs.priced import Floats, PricedProblem

_log = logs.room("solver")

PLANES = 48
"""Planes kept; the oldest go first."""
INNER_ITERATIONS = 400
"""Of the projected gradient that finds the next prices."""
FIRST_STEP = 0.01
"""Of the bound: what the first step is expected to gain at most."""
SERIOUS = 0.1
"""Share of the predicted gain from which new prices become the centre."""
LEAST_GAIN = 0.25
"""Of the bound, which is an integer: less is not worth an elimination."""
LONGER_STEPS = 4
REPAIRS = 12
"""Eliminations to find a choice that fits, if none was met before."""
REPAIR_PRICE = 0.002
"""Least price of a whole row that overflows, as a share of the bound."""
CANDIDATES = 16


@dataclass(frozen=True)
class LagrangianResult:
    """The best bound found, and the choices met on the way."""

    lower_bound: int
    """No choice within the capacity costs less."""
    prices: tuple[float, ...]
    """Per step of the problem, the price of a byte that gave the bound."""
    best: GraphSolution | None
    """The cheapest choice that fits, if any was met."""
    candidates: tuple[tuple[int, ...], ...]
    """Choices with the least cost plus price at some prices, fitting or not; those of the best bounds first."""
    iterations: int


def maximise(
    problem: GraphProblem,
    iterations: int = 30,
    *,
    upper_bound: int | None = None,
    start: Sequence[float] | None = None,
    known: Sequence[int] | None = None,
    table_limit: int = DEFAULT_TABLE_LIMIT,
    stop: Callable[[], bool] | None = None,
) -> LagrangianResult:
    """Raise the bound by at most so many eliminations, and by `REPAIRS` more find a choice that fits if none was met.

    Ends early when the bound reaches `upper_bound` or the best choice found, when no prices are better, or when
    `stop` says so (asked between eliminations; the first is always made). `start` gives prices per step, `known` a
    choice (see `eliminate`).
    """
    return _Bundle(problem, upper_bound, known, table_limit).run(iterations, start, stop)


class _Bundle:
    def __init__(
        self, problem: GraphProblem, upper_bound: int | None, known: Sequence[int] | None, table_limit: int
    ) -> None:
        self._problem = problem
        self._capacity = capacity_of(problem)
        self._priced = PricedProblem(problem, self._capacity)
        self._upper = upper_bound
        self._known = known
        self._table_limit = table_limit
        self._memo = EliminationMemo()
        self._rows = len(self._capacity.steps)
        # Prices are handled per whole row: every row then counts alike whatever its unit.
        self._unit = np.maximum(self._capacity.limits, 1).astype(np.float64)
        self._centre: Floats = np.zeros(self._rows)
        self._centre_value = -np.inf
        self._prices: Floats = np.zeros(self._rows)
        self._bound = -1
        self._best: GraphSolution | None = None
        self._met: dict[tuple[int, ...], int] = {}
        self._planes: list[tuple[float, Floats]] = []
        self._weights: Floats = np.zeros(0)

    def run(self, iterations: int, start: Sequence[float] | None, stop: Callable[[], bool] | None) -> LagrangianResult:
        if start is not None and self._rows:
            self._centre = np.maximum(np.asarray(start, dtype=np.float64)[list(self._capacity.steps)], 0) * self._unit
        done, step = 0, 0.0
        trial: Floats | None = self._centre
        infeasible = bool((self._capacity.limits < 0).any())
        while trial is not None and not infeasible and done < max(1, iterations):
            if done and stop is not None and stop():
                break
            value = self._evaluate(trial)
            done += 1
            _log.debug("prices", round=done, bound=self._bound, fits=self._best and self._best.value)
            if done == 1:
                self._centre_value = value
                step = self._first_step(value)
            else:
                gain = self._model(trial) - self._centre_value
                if value - self._centre_value >= SERIOUS * gain:
                    step *= 2 if value - self._centre_value >= 0.5 * gain else 1
                    self._centre, self._centre_value = trial, value
                else:
                    step *= 0.6
            if self._closed() or not self._planes or not self._rows:
                break
            step, trial = self._promising(step)
            if trial is None:
                break
        if self._best is None and self._planes and not self._closed():
            done += self._repair(stop)
        return self._result(done, infeasible)

    def _repair(self, stop: Callable[[], bool] | None) -> int:
        """Raise the prices of rows that overflow until a choice fits; returns the eliminations made."""
        trial, excess = self._centre, self._planes[-1][1]
        raised = max(1.0, abs(self._centre_value)) * REPAIR_PRICE
        for done in range(REPAIRS):
            if self._best is not None or (stop is not None and stop()):
                return done
            trial = np.where(excess > 0, np.maximum(2 * trial, raised), trial)
            self._evaluate(trial)
            excess = self._planes[-1][1]
        return REPAIRS

    # -- one evaluation --------------------------------------------------------------------------------------
    def _evaluate(self, trial: Floats) -> float:
        """L at the trial prices; takes in the plane, the bound and the choice."""
        value, chosen, prices = self._solve(trial / self._unit)
        bound = min(FORBIDDEN, -(-value // self._priced.scale))
        if bound > self._bound:
            self._bound, self._prices = bound, prices
        if chosen is None:
            return value / self._priced.scale
        self._met[chosen] = max(bound, self._met.get(chosen, bound))
        cost, excess = self._problem.value(chosen), self._priced.uses.excess(chosen)
        slope = excess / self._unit
        # Where elimination split a table, the choice costs more than the bound: the plane is lowered to touch it.
        height = min(float(cost), value / self._priced.scale - float(np.dot(slope, trial)))
        self._planes.append((height, slope))
        self._weights = np.append(self._weights, 0.0 if len(self._weights) else 1.0)
        if len(self._planes) > PLANES:
            least = int(np.argmin(self._weights[:-1]))
            del self._planes[least]
            self._weights = np.delete(self._weights, least)
        if bool((excess <= 0).all()) and (self._best is None or cost < self._best.value):
            self._best = GraphSolution(chosen, cost, 0)
        return value / self._priced.scale

    def _solve(self, prices: Floats) -> tuple[int, tuple[int, ...] | None, Floats]:
        """L in 1/scale, a choice that attains it (nearly, where elimination splits tables), the prices rounded."""
        charged = self._priced.charge(prices)
        found = eliminate(self._priced.problem, charged.costs, self._table_limit, memo=self._memo, start=self._known)
        self._known = found.chosen or self._known
        if found.lower_bound >= FORBIDDEN and not charged.prices.any():
            return FORBIDDEN * self._priced.scale, None, prices
        return found.lower_bound - charged.paid, found.chosen, charged.prices

    def _closed(self) -> bool:
        known = [x for x in (self._upper, None if self._best is None else self._best.value, FORBIDDEN) if x is not None]
        return self._bound >= min(known)

    # -- next prices -----------------------------------------------------------------------------------------
    def _first_step(self, value: float) -> float:
        """Step after which the first plane promises to have closed the gap."""
        known = [x for x in (self._upper, None if self._best is None else self._best.value) if x is not None]
        target = max(1.0, min([FIRST_STEP * abs(value), *(x - value for x in known)]))
        if not self._planes:
            return target
        slope = self._planes[0][1]
        return float(target / max(1e-12, np.dot(slope, slope)))

    def _model(self, prices: Floats) -> float:
        """The planes' upper bound of L."""
        return min((c + float(np.dot(g, prices)) for c, g in self._planes), default=np.inf)

    def _promising(self, step: float) -> tuple[float, Floats | None]:
        """The next prices and the step to them, longer where it promises nothing; None if no step does."""
        for _ in range(LONGER_STEPS):
            trial = self._next(step)
            if self._model(trial) - self._centre_value > LEAST_GAIN:
                return step, trial
            step *= 10
        return step, None

    def _next(self, step: float) -> Floats:
        """argmax over prices >= 0 of min(planes) - |prices - centre|^2 / (2 step).

        Solved over the planes' weights (a simplex), where the prices are max(0, centre + step * slopes @ weights);
        accelerated projected gradient.
        """
        heights = np.asarray([c for c, _ in self._planes])
        slopes = np.stack([g for _, g in self._planes])
        # Rows that no choice met so far overflows, and that cost nothing yet, cost nothing now.
        short = np.flatnonzero((self._centre > 0) | (slopes > 0).any(axis=0))
        slopes, centre = np.ascontiguousarray(slopes[:, short]), self._centre[short]
        heights = heights - heights.min()
        # einsum, not BLAS: its threads wait for each other on a busy machine, and sum in an order of their number.
        longest = float(np.linalg.eigvalsh(np.einsum("ik,jk->ij", slopes, slopes))[-1])
        curvature = step * longest + 1e-6 * float(heights.max()) + 1e-9
        weights = _onto_simplex(self._weights)
        ahead, momentum = weights, 1.0
        for _ in range(INNER_ITERATIONS):
            prices = np.maximum(0.0, centre + step * np.einsum("i,ij->j", ahead, slopes))
            after = _onto_simplex(ahead - (heights + np.einsum("ij,j->i", slopes, prices)) / curvature)
            faster = (1 + np.sqrt(1 + 4 * momentum * momentum)) / 2
            ahead = after + (momentum - 1) / faster * (after - weights)
            if np.abs(after - weights).max() < 1e-10:
                weights = after
                break
            weights, momentum = after, faster
        self._weights = weights
        result: Floats = np.zeros(self._rows)
        result[short] = np.maximum(0.0, centre + step * np.einsum("i,ij->j", weights, slopes))
        return result

    def _result(self, done: int, infeasible: bool) -> LagrangianResult:
        bound = FORBIDDEN if infeasible else max(0, self._bound)
        prices = [0.0] * len(self._problem.capacity)
        for t, price in zip(self._capacity.steps, self._prices, strict=True):
            prices[t] = float(price)
        best = self._best
        if best is not None:
            bound = min(bound, best.value)
            best = GraphSolution(best.chosen, best.value, bound)
        ranked = sorted(self._met, key=lambda chosen: (-self._met[chosen], chosen))
        return LagrangianResult(bound, tuple(prices), best, tuple(ranked[:CANDIDATES]), done)


def _onto_simplex(point: Floats) -> Floats:
    """The nearest point with no coordinate below 0 and sum 1 (Held, Wolfe, Crowder 1974)."""
    point = point - point.max()
    ordered = np.sort(point)[::-1]
    excess = np.cumsum(ordered) - 1
    count = np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(ordered - excess / count > 0)[-1])
    return np.asarray(np.maximum(point - excess[last] / (last + 1), 0.0))
