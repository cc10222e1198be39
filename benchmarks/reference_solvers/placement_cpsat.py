"""CP-SAT as a second engine for addresses: one rectangle per buffer, time by address, none overlapping.

It is strong where few buffers live at a time and the search of `placement_search` is weak, and the other way
round. One worker with a limit in deterministic time gives the same answer in every run.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.errors import StateError
from reference_solvers.placement_search import SearchResult


def solve_placement_cpsat(
    buffers: Sequence[tuple[int, int, int]],
    capacity: int,
    *,
    deterministic_time: float | None = None,
    seconds: float | None = None,
    seed: int = 0,
    workers: int = 1,
) -> SearchResult:
    """Addresses for buffers `(start, end, size)`, `end` exclusive, in `[0, capacity)`; limits where given."""
    from ortools.sat.python import cp_model

    if any(size > capacity for _, _, size in buffers):
        return SearchResult(None, True, 0)
    model = cp_model.CpModel()
    starts = [model.new_int_var(0, capacity - size, f"address{i}") for i, (_, _, size) in enumerate(buffers)]
    model.add_no_overlap_2d(
        [
            model.new_fixed_size_interval_var(start, end - start, f"time{i}")
            for i, (start, end, _) in enumerate(buffers)
        ],
        [model.new_fixed_size_interval_var(starts[i], size, f"room{i}") for i, (_, _, size) in enumerate(buffers)],
    )
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = workers
    solver.parameters.random_seed = seed
    solver.parameters.use_timetabling_in_no_overlap_2d = True
    if deterministic_time is not None:
        solver.parameters.max_deterministic_time = deterministic_time
    if seconds is not None:
        solver.parameters.max_time_in_seconds = seconds
    status = solver.status_name(solver.solve(model))
    branches = int(solver.num_branches)
    if status in ("OPTIMAL", "FEASIBLE"):
        return SearchResult(tuple(int(solver.value(s)) for s in starts), True, branches)
    if status in ("INFEASIBLE", "UNKNOWN"):
        return SearchResult(None, status == "INFEASIBLE", branches)
    raise StateError(f"CP-SAT does not accept the placement: {status}")
