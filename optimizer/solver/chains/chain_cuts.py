"""Which stretches of a linear chain are faster than DRAM, by dynamic programming.

Every op either runs from DRAM to DRAM, or in a stretch of consecutive ops that is entered from DRAM and leaves its last
result there:

    in_dram[i]   = min(in_dram[i-1] + plain_ns[i],             min over c of inside[i][c] + leave_ns[i][c])
    inside[i][c] = min(in_dram[i-1] + enter_ns[i][c],          min over p of inside[i-1][p] + step_ns[i-1][p][c])

Of equally fast ways the one with the fewest stretches is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizer.errors import StateError
from optimizer.solver.chains.chain_costs import INFEASIBLE, MAX_COST, Costs, add_costs, edge_times
from optimizer.solver.chains.chain_problem import EdgeOracle, Table
from optimizer.solver.chains.materialise import MaterialisedChain, entry_table


@dataclass(frozen=True)
class CuttableChain:
    """A linear chain that may be left and entered at any op; INFEASIBLE marks what is impossible."""

    plain_ns: tuple[int, ...]
    """Per op: its time outside any stretch."""
    enter_ns: tuple[Costs, ...]
    """Per op and config: time as the first op of a stretch, copy into L1 included."""
    step_ns: tuple[Costs, ...]
    """Per op but the last: [config][config of the next op], time of the next op and of a copy in between."""
    leave_ns: tuple[Costs, ...]
    """Per op and config: time to bring the result to DRAM."""


def cuttable(
    chain: MaterialisedChain,
    oracle: EdgeOracle,
    plain_ns: tuple[int, ...],
    leave_ns: Table,
    closed: frozenset[int] = frozenset(),
) -> CuttableChain:
    """A materialised linear chain that may be cut; no stretch begins at an op of `closed`. StateError if not linear."""
    problem = chain.problem
    if not problem.is_linear or len(problem.edges) != problem.num_ops - 1:
        raise StateError("only a chain in which every op reads the one before it once can be cut")
    counts = problem.config_counts
    enter = []
    for op, mask in enumerate(chain.masks):
        if op in closed:
            enter.append(np.full(counts[op], INFEASIBLE, dtype=np.int64))
            continue
        table = entry_table(oracle, op, mask, op in problem.always_reshard_entry)
        enter.append(edge_times(table, counts[op])[0])
    steps = [edge_times(table, counts[edge.consumer]) for edge, table in zip(problem.edges, chain.edges, strict=True)]
    leave = [np.array(row, dtype=np.int64) for row in leave_ns]
    return CuttableChain(plain_ns, tuple(enter), tuple(steps), tuple(leave))


def paying_stretches(chain: CuttableChain) -> tuple[range, ...]:
    """Positions of the stretches in the fastest way to run the chain; empty if that is all in DRAM."""
    unit = len(chain.plain_ns) + 1
    in_dram = [0]
    inside: Costs = np.zeros(0, dtype=np.int64)
    begun: Costs = inside
    """Per config of the last op: where its stretch begins in the fastest way to it."""
    last: list[int | None] = []
    """Per op: where the stretch begins that ends with it, None if it runs in DRAM, in the fastest way that leaves its
    result in DRAM."""
    for i, plain in enumerate(chain.plain_ns):
        entered = add_costs(_scaled(chain.enter_ns[i], unit), np.array(in_dram[-1] + 1))
        if i and len(inside):
            arriving = add_costs(inside[:, None], _scaled(chain.step_ns[i - 1], unit))
            goes_on = arriving.min(axis=0) <= entered
            begun = np.where(goes_on, begun[arriving.argmin(axis=0)], i)
            inside = np.where(goes_on, arriving.min(axis=0), entered)
        else:
            inside, begun = entered, np.full(len(entered), i)
        left = add_costs(inside, _scaled(chain.leave_ns[i], unit))
        best = int(left.argmin()) if len(left) else None
        staying = in_dram[-1] + plain * unit
        pays = best is not None and left[best] < min(staying, MAX_COST)
        last.append(int(begun[best]) if pays else None)
        in_dram.append(int(left[best]) if pays else staying)
    return _read_back(last)


def _scaled(times: Costs, unit: int) -> Costs:
    return np.where(times < MAX_COST, times * unit, INFEASIBLE)


def _read_back(last: list[int | None]) -> tuple[range, ...]:
    found, i = [], len(last)
    while i:
        begin = last[i - 1]
        if begin is None:
            i -= 1
        else:
            found.append(range(begin, i))
            i = begin
    return tuple(reversed(found))
