"""Weighted set packing by CP-SAT: of items that take members, those that are worth most together.

    maximise   sum of the values of the items taken
    subject to no member is in two of them
               none of the groups that are excluded is taken as a whole

Plain integers; it knows no graph and no board.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ortools.sat.sat_parameters_pb2 import SatParameters

from optimizer.solver.cpsat_run import BinaryModel, run

WORK_LIMIT = 5.0
"""Deterministic seconds of CP-SAT; packings of a few hundred items take a small part of one."""


@dataclass(frozen=True)
class Item:
    """Something that may be taken once."""

    value: int
    """Above 0."""
    members: frozenset[Hashable]
    """What it takes for itself."""


def pack(items: Sequence[Item], excluded: Sequence[frozenset[int]] = ()) -> tuple[int, ...]:
    """Indices of the items to take, ascending."""
    if not items:
        return ()
    model = BinaryModel()
    taken = [model.new_var() for _ in items]
    for holders in _by_member(items).values():
        if len(holders) > 1:
            model.at_most([taken[i] for i in holders], [1] * len(holders), 1)
    for group in excluded:
        model.at_most([taken[i] for i in sorted(group)], [1] * len(group), len(group) - 1)
    model.minimise(taken, [-item.value for item in items])
    parameters = SatParameters()
    parameters.num_workers = 1
    parameters.max_deterministic_time = WORK_LIMIT
    values = run(model, parameters).values or (0,) * len(items)
    return tuple(i for i in range(len(items)) if values[taken[i]])


def _by_member(items: Sequence[Item]) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        for member in sorted(item.members, key=repr):
            found.setdefault(member, []).append(i)
    return found
