"""CP-SAT on models in its own exchange format (`CpModelProto`).

The models are written without `ortools.sat.python.cp_model`: that loads pandas, which takes longer than most of our
problems take to solve.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from ortools.sat import cp_model_pb2, sat_parameters_pb2
from ortools.sat.python.cp_model_helper import SolveWrapper

from optimizer.errors import StateError
from optimizer.process import logs

_log = logs.room("solver")

POLL_SECONDS = 0.05
"""How often `stop` is asked."""
UNBOUNDED = -(1 << 63)
"""Lower end of a row that has none."""

Var = int
"""Index of a 0-1 variable; `-1 - index` is its negation."""


@dataclass(frozen=True)
class CpSatAnswer:
    """What became of a run."""

    feasible: bool
    """False if it is proven that there is no choice."""
    optimal: bool
    values: tuple[int, ...] | None
    """Of all variables, if a choice was found."""
    bound: int
    """No choice costs less."""


class BinaryModel:
    """0-1 variables, clauses and linear rows of integers, least cost."""

    def __init__(self) -> None:
        self.proto = cp_model_pb2.CpModelProto()

    def new_var(self) -> Var:
        self.proto.variables.add(domain=(0, 1))
        return len(self.proto.variables) - 1

    def exactly_one(self, members: Sequence[Var]) -> None:
        self.proto.constraints.add().exactly_one.literals.extend(members)

    def implies(self, x: Var, ways: Sequence[Var]) -> None:
        """If x, then one of these."""
        self.proto.constraints.add().bool_or.literals.extend((-1 - x, *ways))

    def forbid(self, x: Var) -> None:
        self._row((x,), (1,), 0, 0)

    def sums_to(self, parts: Sequence[Var], whole: Var) -> None:
        """The parts' values add up to another variable's."""
        self._row((*parts, whole), (*([1] * len(parts)), -1), 0, 0)

    def at_most(self, members: Sequence[Var], sizes: Sequence[int], limit: int) -> None:
        self._row(members, sizes, UNBOUNDED, limit)

    def minimise(self, members: Sequence[Var], costs: Sequence[int]) -> None:
        self.proto.objective.vars.extend(members)
        self.proto.objective.coeffs.extend(costs)
        self.proto.objective.scaling_factor = 1

    def cut_off(self, most: int) -> None:
        """Only choices that cost no more."""
        self.proto.objective.domain.extend((0, max(0, most)))

    def _row(self, members: Sequence[Var], sizes: Sequence[int], least: int, most: int) -> None:
        row = self.proto.constraints.add().linear
        terms = sorted(zip(members, sizes, strict=True))
        row.vars.extend(x for x, _ in terms)
        row.coeffs.extend(size for _, size in terms)
        row.domain.extend((least, most))


def run(
    model: BinaryModel, parameters: sat_parameters_pb2.SatParameters, stop: Callable[[], bool] | None = None
) -> CpSatAnswer:
    """Solve; `stop` is asked every 50 ms, and ends the search with what is known by then.

    Ctrl-C reaches the thread that waits here, and passes once the search has ended.
    """
    parameters.catch_sigint_signal = False
    solver = SolveWrapper()
    solver.set_parameters(parameters)
    answers: list[cp_model_pb2.CpSolverResponse] = []
    search = partial(solver.solve, model.proto)
    worker = threading.Thread(target=lambda: answers.append(search()), name="cp-sat", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(POLL_SECONDS)
            if stop is not None and stop():
                solver.stop_search()
    finally:
        while worker.is_alive():
            solver.stop_search()
            worker.join(POLL_SECONDS)
    if not answers:
        raise StateError("CP-SAT ended without an answer")
    answer = answers[0]
    optimal = answer.status == cp_model_pb2.OPTIMAL
    found = optimal or answer.status == cp_model_pb2.FEASIBLE
    outcome = CpSatAnswer(
        answer.status != cp_model_pb2.INFEASIBLE,
        optimal,
        tuple(answer.solution) if found else None,
        max(0, ceil(answer.best_objective_bound - 1e-6)),
    )
    _log.info(
        "cp-sat",
        variables=len(model.proto.variables),
        rows=len(model.proto.constraints),
        feasible=outcome.feasible,
        optimal=optimal,
        found=found,
        bound=outcome.bound,
    )
    return outcome
