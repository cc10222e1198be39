"""Orders keep to what is given as far as they can; what needs itself is named."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import GraphError
from optimizer.ir.topological import topological_order
from tests.samples import examples


@settings(max_examples=examples(200))
@given(st.permutations(range(8)), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_what_is_needed_comes_before(ranks: list[int], pairs: set[tuple[int, int]]) -> None:
    needs = [{b for a, b in pairs if a == i and ranks[b] < ranks[i]} for i in range(8)]

    order = topological_order(needs, str)

    assert sorted(order) == list(range(8))
    assert all(order.index(b) < order.index(i) for i in range(8) for b in needs[i])


def test_an_order_that_holds_is_kept() -> None:
    assert topological_order([set(), {0}, set(), {1, 2}], str) == [0, 1, 2, 3]


def test_a_long_cycle_is_shortened() -> None:
    with pytest.raises(GraphError, match=r"a cycle: \d+ -> .* -> \(14 more\) -> \d+$"):
        topological_order([{(i + 1) % 20} for i in range(20)], str)
