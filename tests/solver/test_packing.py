"""Weighted set packing: against all subsets, with excluded groups."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.packing import Item, pack
from tests.samples import examples


def item(value: int, members: str) -> Item:
    return Item(value, frozenset(members))


def test_items_that_share_a_member_exclude_each_other() -> None:
    assert pack([item(5, "ab"), item(4, "bc"), item(2, "cd")]) == (0, 2)


def test_two_small_items_may_be_worth_more_than_a_large_one() -> None:
    assert pack([item(5, "abcd"), item(3, "ab"), item(3, "cd")]) == (1, 2)


def test_excluded_groups_are_not_taken_as_a_whole() -> None:
    assert pack([item(5, "a"), item(4, "b"), item(3, "c")], excluded=[frozenset({0, 1})]) == (0, 2)


def test_nothing_is_packed_of_nothing() -> None:
    assert pack([]) == ()


@st.composite
def _items(draw: st.DrawFn) -> list[Item]:
    members = st.frozensets(st.integers(0, 6), min_size=1, max_size=3)
    return draw(st.lists(st.builds(Item, st.integers(1, 50), members), min_size=1, max_size=7))


@settings(max_examples=examples(60), deadline=None)
@given(_items(), st.sets(st.integers(0, 6), max_size=2))
def test_packings_are_worth_as_much_as_the_best_of_all_subsets(items: list[Item], apart: set[int]) -> None:
    excluded = [frozenset(apart)] if len(apart) == 2 and max(apart) < len(items) else []

    def worth(chosen: tuple[int, ...]) -> int:
        taken = [items[i] for i in chosen]
        disjoint = all(a.members.isdisjoint(b.members) for a, b in combinations(taken, 2))
        possible = not any(group <= set(chosen) for group in excluded)
        return sum(t.value for t in taken) if disjoint and possible else -1

    every = (c for n in range(len(items) + 1) for c in combinations(range(len(items)), n))
    assert worth(pack(items, excluded)) == max(map(worth, every))
