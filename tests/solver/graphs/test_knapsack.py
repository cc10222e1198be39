"""The multiple-choice knapsack against all combinations."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from optimizer.solver.graphs.knapsack import choose_items

Groups = list[list[tuple[int, int]]]
GROUPS = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 6)), max_size=3), max_size=4)


def worth(groups: Groups, chosen: tuple[int | None, ...] | list[int | None]) -> tuple[int, int]:
    """(value, size) of a choice."""
    taken = [group[i] for group, i in zip(groups, chosen, strict=True) if i is not None]
    return sum(value for value, _ in taken), sum(size for _, size in taken)


@given(GROUPS, st.integers(0, 12))
def test_as_good_as_the_best_of_all_combinations(groups: Groups, capacity: int) -> None:
    value, size = worth(groups, choose_items(groups, capacity))
    every = (worth(groups, chosen) for chosen in product(*([None, *range(len(group))] for group in groups)))
    assert size <= capacity
    assert value == max(v for v, s in every if s <= capacity)
