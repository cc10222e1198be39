"""Options of one node that another option of the same node replaces without loss (dead-end elimination).

Option i is dominated by j if, whatever the neighbours choose, j costs no more and takes no more memory:

    cost[i] - cost[j] + sum over pairs of min over neighbour's options (matrix[i, .] - matrix[j, .])  >=  0

(Goldstein's criterion, Biophys. J. 66, 1994; the minimum is over what i allows, and j must allow it too.) Rows and
columns that are alike are compared once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.solver.graphs.cost_tables import classed
from optimizer.solver.graphs.graph_problem import FORBIDDEN
from optimizer.solver.graphs.usages import Table

NEVER = -(1 << 60)
"""What i gains over j where j is forbidden and i is not."""
WORK_LIMIT = 30_000_000
"""Comparisons of cells for one pair; pairs that would take more count as never dominated unless rows are alike."""
_CHUNK = 4_000_000


def survivors(costs: Table, matrices: Sequence[Table], extra: Table) -> Table:
    """Options that no other dominates, ascending. Of options that dominate each other the first stays.

    `costs` has one entry per option, none of them FORBIDDEN; each of `matrices` the node's options as rows; `extra`
    the bytes that count, shape (options, segments).
    """
    count = len(costs)
    if count < 2:
        return np.arange(count)
    parts = [classed(matrix) for matrix in matrices]
    uses = classed(extra)
    kinds = np.stack([uses.class_of, *(part.class_of for part in parts)], axis=1)
    order = np.lexsort((np.arange(count), costs))
    first: dict[bytes, int] = {}
    for i in order:
        first.setdefault(kinds[i].tobytes(), int(i))
    left = np.asarray(sorted(first.values()), dtype=np.int64)
    gain = costs[left][:, None] - costs[left][None, :]
    use_of = uses.class_of[left]
    gain = np.where(_never_more(uses.rows)[np.ix_(use_of, use_of)], gain, NEVER)
    for part in parts:
        members = part.class_of[left]
        gain = np.maximum(gain + _least_gain(part.rows)[np.ix_(members, members)], NEVER)
    dominated = gain >= 0
    np.fill_diagonal(dominated, False)
    mutual = dominated & dominated.T
    dominated &= ~(mutual & (np.arange(len(left))[:, None] < np.arange(len(left))[None, :]))
    return np.asarray(left[~dominated.any(axis=1)])


def _never_more(uses: Table) -> NDArray[np.bool_]:
    """[i, j]: whether use j takes no more than use i anywhere."""
    result = np.ones((len(uses), len(uses)), dtype=np.bool_)
    for column in uses.T:
        result &= column[None, :] <= column[:, None]
    return result


def _least_gain(rows: Table) -> Table:
    """[i, j]: the least that row i costs more than row j, over the columns that i allows."""
    columns = classed(rows.T).rows.T
    count, width = columns.shape
    result = np.full((count, count), NEVER, dtype=np.int64)
    np.fill_diagonal(result, 0)
    if count * count * width > WORK_LIMIT:
        return result
    step = max(1, _CHUNK // (count * width))
    closed = columns >= FORBIDDEN
    for start in range(0, count, step):
        part = slice(start, start + step)
        difference = columns[part, None, :] - columns[None, :, :]
        difference[:, closed] = NEVER
        difference = np.where(closed[part, None, :], FORBIDDEN, difference)
        result[part] = difference.min(axis=2)
    return np.where(result >= FORBIDDEN, 0, result)
