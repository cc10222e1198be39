"""Multiple-choice knapsack: of each group at most one item, the most value within a capacity. Exact, by dynamic
programming over the capacity (Dudzinski and Walukiewicz 1987); O(items * capacity) time, O(groups * capacity) memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def choose_items(groups: Sequence[Sequence[tuple[int, int]]], capacity: int) -> list[int | None]:
    """Index of the item taken from each group, or None, for items `(value, size)`; sizes and capacity >= 0.

    Of equally good choices the one with the earlier items.
    """
    best = np.zeros(capacity + 1, dtype=np.int64)
    taken = np.full((len(groups), capacity + 1), -1, dtype=np.int16)
    for row, items in zip(taken, groups, strict=True):
        before = best.copy()
        for i, (value, size) in enumerate(items):
            if size > capacity:
                continue
            better = before[: capacity + 1 - size] + value > best[size:]
            best[size:][better] = before[: capacity + 1 - size][better] + value
            row[size:][better] = i
    left, result = capacity, []
    for row, items in zip(reversed(taken), reversed(groups), strict=True):
        i = int(row[left])
        result.append(None if i < 0 else i)
        left -= items[i][1] if i >= 0 else 0
    return result[::-1]
