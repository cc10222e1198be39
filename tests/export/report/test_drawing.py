"""The graph's picture: nodes lie apart, edges go down along lines of their own and through no node."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.export.report.drawing.columns import GAP
from optimizer.export.report.drawing.picture import Box, Picture, picture
from optimizer.export.report.drawing.ranks import WIDEST, placed
from tests.samples import examples

SIZES = ((160, 32), (136, 18))
Segment = tuple[int, int, int, int]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Sizes of up to 60 nodes, and edges from earlier nodes to later ones."""
    count = draw(st.integers(1, 60))
    sizes = draw(st.lists(st.sampled_from(SIZES), min_size=count, max_size=count))
    edges: dict[tuple[int, int], None] = {}
    for target in range(1, count):
        near = st.integers(max(0, target - 3), target - 1)
        far = st.integers(0, target - 1)
        for source in draw(st.lists(st.one_of(near, near, far), max_size=3, unique=True)):
            edges[source, target] = None
    return sizes, list(edges)


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def segments(path: tuple[tuple[int, int], ...]) -> list[Segment]:
    return [(min(a, c), min(b, d), max(a, c), max(b, d)) for (a, b), (c, d) in pairwise(path)]


def crosses(segment: Segment, box: Box) -> bool:
    left, top, right, bottom = segment
    return left < box.x + box.width and right > box.x and top < box.y + box.height and bottom > box.y


@given(graphs())
@settings(max_examples=examples(120))
def test_nodes_lie_apart_and_within_the_picture(graph: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    sizes, edges = graph
    found = picture(sizes, edges)
    assert [(box.width, box.height) for box in found.boxes] == sizes
    assert not any(overlap(a, b) for a, b in combinations(found.boxes, 2))
    points = [point for path in found.paths for point in path]
    corners = [(b.x + b.width, b.y + b.height) for b in found.boxes]
    assert all(0 <= x <= found.width and 0 <= y <= found.height for x, y in (*points, *corners))


@given(graphs())
@settings(max_examples=examples(120))
def test_edges_end_at_their_nodes_and_go_through_no_other(
    graph: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    sizes, edges = graph
    found = picture(sizes, edges)
    for (source, target), path in zip(edges, found.paths, strict=True):
        out, into = found.boxes[source], found.boxes[target]
        assert path[0] == (out.middle, out.y + out.height)
        assert path[-1] == (into.middle, into.y)
        assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(path)), "at right angles"
        assert not [box for box in found.boxes for segment in segments(path) if crosses(segment, box)]


@given(graphs())
@settings(max_examples=examples(120))
def test_long_ways_down_are_shared_by_edges_of_one_node_only(
    graph: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    sizes, edges = graph
    found = picture(sizes, edges)
    ways = [(source, s) for (source, _), path in zip(edges, found.paths, strict=True) for s in segments(path)]
    long = [(source, s) for source, s in ways if s[0] == s[2] and s[3] - s[1] > GAP]
    for (one, a), (other, b) in combinations(long, 2):
        shared = min(a[3], b[3]) - max(a[1], b[1])
        assert one == other or a[0] != b[0] or shared <= GAP


@given(graphs())
@settings(max_examples=examples(60))
def test_every_node_is_below_what_it_reads(graph: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
    sizes, edges = graph
    grid = placed(len(sizes), edges)
    assert all(grid.rows[source] < grid.rows[target] for source, target in edges)
    assert len(set(zip(grid.rows, grid.lanes, strict=True))) == len(sizes)
    assert max(grid.rows.count(row) for row in grid.rows) <= WIDEST


def test_a_branch_keeps_its_lane_and_the_longest_way_goes_straight_down() -> None:
    """0 -> 1 -> 2 -> 4 with a side branch 0 -> 3 -> 4."""
    grid = placed(5, [(0, 1), (1, 2), (0, 3), (2, 4), (3, 4)])
    assert [grid.lanes[node] for node in (0, 1, 2, 4)] == [0, 0, 0, 0]
    assert grid.lanes[3] == 1


def test_an_input_is_right_above_its_first_reader() -> None:
    grid = placed(6, [(0, 2), (2, 3), (3, 4), (4, 5), (1, 5)])
    assert grid.rows[1] == grid.rows[5] - 1


def long_row(count: int) -> Picture:
    return picture([SIZES[0]] * count, [(at, at + 1) for at in range(count - 1)])


@pytest.mark.parametrize("count", [60, 300, 2000])
def test_a_long_graph_has_the_shape_of_a_screen(count: int) -> None:
    found = long_row(count)
    assert 1.4 < found.width / found.height < 2.9


def test_the_same_graph_gives_the_same_picture() -> None:
    assert long_row(100) == long_row(100)


def test_no_nodes_give_an_empty_picture() -> None:
    assert picture([], []).boxes == ()
