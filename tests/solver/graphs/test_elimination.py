"""Elimination's parts: what is remembered, how split tables agree, classes of options, stopping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from optimizer.errors import TimeLimitError
from optimizer.solver.graphs.cost_tables import class_merges, classed, least_by_classes, lifted, matched
from optimizer.solver.graphs.elimination import eliminate
from optimizer.solver.graphs.elimination_memo import EliminationMemo
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Table
from tests.samples import examples
from tests.solver.graph_samples import brute_force

CELL = st.one_of(st.integers(0, 9), st.just(FORBIDDEN))


def tables(*shape: int) -> st.SearchStrategy[Table]:
    return arrays.arrays(np.int64, shape, elements=CELL)


def layered(layers: int, seed: int = 7) -> GraphProblem:
    """A chain of layers of three nodes each; the layers are all alike."""
    rng = np.random.default_rng(seed)
    cost, inside, across = rng.integers(0, 50, 6), rng.integers(0, 50, (6, 6)), rng.integers(0, 50, (6, 6))
    pairs = []
    for n in range(layers):
        first, second, third = 3 * n, 3 * n + 1, 3 * n + 2
        pairs += [PairCost(first, second, inside), PairCost(first, third, inside), PairCost(second, third, across)]
        if n:
            pairs.append(PairCost(first - 1, first, across))
    return GraphProblem((cost,) * (3 * layers), tuple(pairs))


@st.composite
def dense_problems(draw: st.DrawFn) -> GraphProblem:
    """Up to six nodes, every pair tied, few different tables."""
    options, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    matrices = draw(st.lists(tables(options, options), min_size=1, max_size=2))
    rows = draw(st.lists(tables(options), min_size=1, max_size=2))
    pairs = [PairCost(a, b, draw(st.sampled_from(matrices))) for b in range(nodes) for a in range(b)]
    return GraphProblem(tuple(draw(st.sampled_from(rows)) for _ in range(nodes)), tuple(pairs))


@settings(max_examples=examples(200))
@given(st.lists(dense_problems(), min_size=2, max_size=3), st.sampled_from([2, 9, 1_000]))
def test_a_memo_kept_over_solves_changes_nothing(problems: list[GraphProblem], table_limit: int) -> None:
    memo = EliminationMemo()
    for problem in (*problems, *problems):
        assert eliminate(problem, table_limit=table_limit, memo=memo) == eliminate(problem, table_limit=table_limit)


@settings(max_examples=examples(200))
@given(dense_problems(), st.integers(1, 30))
def test_however_tables_are_split_the_optimum_lies_between_bound_and_value(
    problem: GraphProblem, table_limit: int
) -> None:
    exact, found = brute_force(problem), eliminate(problem, table_limit=table_limit)
    assert found.lower_bound <= exact.value <= found.value
    if found.chosen is not None:
        assert problem.value(found.chosen) == found.value


def test_equal_layers_are_worked_out_once() -> None:
    memo = EliminationMemo()
    few = eliminate(layered(20), memo=memo)
    worked_out = memo.misses
    many = eliminate(layered(200), memo=memo)
    assert few.value == few.lower_bound
    assert many.value == many.lower_bound
    assert memo.misses <= worked_out + 10
    assert memo.hits > 500


def test_a_memo_forgets_what_is_not_asked_for_again() -> None:
    memo = EliminationMemo(limit_bytes=0)
    dense = GraphProblem((np.arange(2), np.arange(3)), (PairCost(0, 1, np.arange(6).reshape(2, 3)),))
    for _ in range(2):
        eliminate(dense, memo=memo)
    assert memo.hits == 1, "only the last node leaves no table"


@given(st.integers(2, 4), st.integers(1, 3), st.data())
def test_matched_tables_keep_their_sum_and_agree_on_every_option(options: int, wide: int, data: st.DataObject) -> None:
    given_tables = [data.draw(tables(options, wide)) for _ in range(data.draw(st.integers(2, 3)))]
    found = matched(given_tables)
    least = [np.minimum(t.min(axis=1), FORBIDDEN) for t in found]
    assert max(int((row - least[-1]).max()) for row in least) <= len(found)
    for picked in np.ndindex(options, *(wide,) * len(found)):
        before = sum(int(t[picked[0], x]) for t, x in zip(given_tables, picked[1:], strict=True))
        after = sum(int(t[picked[0], x]) for t, x in zip(found, picked[1:], strict=True))
        assert min(before, FORBIDDEN) == min(after, FORBIDDEN)


@given(st.integers(1, 8), st.data())
def test_classes_of_options_give_the_same_least_costs(options: int, data: st.DataObject) -> None:
    own = data.draw(tables(options))
    neighbours = [data.draw(tables(options, data.draw(st.integers(1, 3)))) for _ in range(data.draw(st.integers(1, 3)))]
    by_class = [classed(table) for table in neighbours]
    merges = class_merges([table.class_of for table in by_class])
    found = least_by_classes(own, by_class, merges)
    assert merges.work(by_class) >= found.size
    for picked in np.ndindex(*(table.shape[1] for table in neighbours)):
        totals = own + sum(table[:, x] for table, x in zip(neighbours, picked, strict=True))
        assert found[picked] == min(int(totals.min()), FORBIDDEN)


@given(tables(2, 3))
def test_a_lifted_table_keeps_what_is_forbidden(table: Table) -> None:
    found, least = lifted(table)
    assert ((found >= FORBIDDEN) == (table >= FORBIDDEN)).all()
    assert (found[found < FORBIDDEN] + least == table[table < FORBIDDEN]).all()


def test_elimination_stops_when_asked() -> None:
    asked = iter([False, False, True])
    with pytest.raises(TimeLimitError):
        eliminate(layered(3), stop=lambda: next(asked))


@settings(max_examples=examples(200))
@given(dense_problems(), st.integers(1, 30))
def test_with_a_choice_to_start_from_there_is_always_one(problem: GraphProblem, table_limit: int) -> None:
    """Split tables may lead to a choice with a forbidden pair; a known one is improved instead, or kept."""
    known = brute_force(problem).chosen
    if known is not None:
        found = eliminate(problem, table_limit=table_limit, start=known)
        assert found.chosen is not None
        assert problem.value(found.chosen) == found.value < FORBIDDEN


def test_where_the_choice_read_off_contradicts_itself_the_known_one_is_improved() -> None:
    rng, nodes = np.random.default_rng(44), 7
    known = (1,) * nodes

    def matrix() -> Table:
        table = np.where(rng.random((3, 3)) < 0.4, FORBIDDEN, 0).astype(np.int64)
        table[1, 1] = 0
        return table

    costs = tuple(rng.integers(0, 9, 3) for _ in range(nodes))
    problem = GraphProblem(costs, tuple(PairCost(a, b, matrix()) for b in range(nodes) for a in range(b)))
    assert eliminate(problem, table_limit=9).chosen is None
    found = eliminate(problem, table_limit=9, start=known)
    assert found.value == brute_force(problem).value < problem.value(known)
