"""Weighted set packing: against all subsets, with memory and with excluded groups."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.solver.packing import Item, pack
from tests.samples import examples


def item(value: int, members: str, **memory: int) -> Item:
    return Item(value, frozenset(members), {int(step[1:]): size for step, size in memory.items()})


def test_items_that_share_a_member_exclude_each_other() -> None:
    assert pack([item(5, "ab"), item(4, "bc"), item(2, "cd")]) == (0, 2)


def test_two_small_items_may_be_worth_more_than_a_large_one() -> None:
    assert pack([item(5, "abcd"), item(3, "ab"), item(3, "cd")]) == (1, 2)


def test_what_is_left_of_the_memory_is_kept_at_every_step() -> None:
    items = [item(5, "a", t0=60), item(4, "b", t0=60), item(3, "c", t1=60)]
    assert pack(items, {0: 100, 1: 100}) == (0, 2)


def test_an_item_that_makes_room_lets_another_one_in() -> None:
    assert pack([item(1, "a", t0=-50), item(4, "b", t0=60)], {0: 10}) == (0, 1)


def test_excluded_groups_are_not_taken_as_a_whole() -> None:
    assert pack([item(5, "a"), item(4, "b"), item(3, "c")], excluded=[frozenset({0, 1})]) == (0, 2)


def test_nothing_is_packed_of_nothing() -> None:
    assert pack([]) == ()


@st.composite
def _items(draw: st.DrawFn) -> list[Item]:
    members = st.frozensets(st.integers(0, 6), min_size=1, max_size=3)
    memory = st.dictionaries(st.integers(0, 3), st.integers(-20, 60), max_size=3)
    return draw(st.lists(st.builds(Item, st.integers(1, 50), members, memory), min_size=1, max_size=7))


@settings(max_examples=examples(60), deadline=None)
@given(_items(), st.lists(st.integers(0, 80), min_size=4, max_size=4))
def test_packings_are_worth_as_much_as_the_best_of_all_subsets(items: list[Item], free: list[int]) -> None:
    left = dict(enumerate(free))

    def worth(chosen: tuple[int, ...]) -> int:
        taken = [items[i] for i in chosen]
        apart = all(a.members.isdisjoint(b.members) for a, b in combinations(taken, 2))
        fits = all(sum(t.memory.get(step, 0) for t in taken) <= limit for step, limit in left.items())
        return sum(t.value for t in taken) if apart and fits else -1

    every = (c for n in range(len(items) + 1) for c in combinations(range(len(items)), n))
    assert worth(pack(items, left)) == max(map(worth, every))
