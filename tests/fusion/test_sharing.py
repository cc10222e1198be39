"""Which cores read a region's operands for others, and that all cores compute the right values then."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from placed_graphs import BLOCK, HEIGHT, WIDTH, placed, shards
from region_witness import BOARD, run_region, shrunk

from optimizer.fusion.finding import Finder
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.placement import Home, Kind
from optimizer.fusion.regions import Region, Scheme
from optimizer.fusion.sharing import MOST_SHARED, by_writer, rectangle, schemes, senders, shared
from optimizer.ir.builder import GraphBuilder
from optimizer.kernels.tensix.arguments import cores_of
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.layouts.memory_config import DRAM_TILE, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import TILE

executed = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")
GRIDS = {BLOCK: (8, 8), HEIGHT: (64, 1), WIDTH: (1, 64)}


def dense(
    kind: TensorMemoryLayout,
    shard: tuple[int, int] = (2, 2),
    depth: int = 4,
    *,
    at_home: str = "",
    x: TensorLayout | None = None,
) -> Region:
    """gelu(a @ w + bias) + x at a home of 64 shards; `at_home`: operand that lies on the cores, too."""
    grid = GRIDS[kind]
    rows, columns = (grid[k] * shard[k] * TILE for k in range(2))
    b = GraphBuilder("dense")
    shapes = {"a": (1, 1, rows, depth * TILE), "w": (depth * TILE, columns)}
    a, w = (b.input(name, shape) for name, shape in shapes.items())
    m = b.op("ttnn.linear", a, w, b.input("bias", (columns,)), activation="gelu")
    v = b.op("ttnn.add", m, b.input("x", (1, 1, rows, columns)))
    home = shards((1, 1, rows, columns), grid, kind)
    layouts = {m: home, v: home, "x": x or home}
    if at_home:
        layouts[at_home] = shards(shapes[at_home], grid, kind)
    result = placed(b.finish(v), layouts)
    return Finder(result).regions_of([op.id for op in result.graph.ops()])[0]


# -- who sends to whom ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "part", "pipes", "first"),
    [
        (BLOCK, Kind.LEFT, 8, ((0, 0), ((1, 8), (0, 1)))),
        (BLOCK, Kind.RIGHT, 8, ((0, 0), ((0, 1), (1, 8)))),
        (BLOCK, Kind.ROW, 8, ((0, 0), ((0, 1), (1, 8)))),
        (BLOCK, Kind.SCALAR, 1, ((0, 0), ((0, 8), (0, 8)))),
        (HEIGHT, Kind.RIGHT, 1, ((0, 0), ((0, 8), (0, 8)))),
        (WIDTH, Kind.LEFT, 1, ((0, 0), ((0, 8), (0, 8)))),
    ],
)
def test_one_core_of_those_with_the_same_part_sends_it(
    kind: TensorMemoryLayout, part: Kind, pipes: int, first: tuple[object, object]
) -> None:
    found = senders(dense(kind).home, part)
    assert len(found) == pipes
    assert (found[0].source, found[0].ranges) == first


@pytest.mark.parametrize(("kind", "part"), [(HEIGHT, Kind.LEFT), (WIDTH, Kind.RIGHT), (BLOCK, Kind.FULL)])
def test_what_every_core_has_of_its_own_is_not_sent(kind: TensorMemoryLayout, part: Kind) -> None:
    assert senders(dense(kind).home, part) == ()


def test_a_single_row_of_cores_sends_along_it() -> None:
    home = Home.of(shards((1, 1, 4 * TILE, TILE), (4, 1), HEIGHT), (1, 1, 4 * TILE, TILE))
    assert home is not None
    (pipe,) = senders(home, Kind.RIGHT)
    assert (pipe.source, pipe.ranges) == ((0, 0), ((1, 4), (0, 1)))


def test_cores_that_are_no_rectangle_read_for_themselves() -> None:
    shape = (1, 1, 12 * TILE, TILE)
    home = Home.of(shards(shape, (12, 1), HEIGHT), shape)
    assert home is not None
    assert rectangle(home) is None
    assert senders(home, Kind.RIGHT) == ()


def test_operands_of_products_are_multicast_before_others_where_semaphores_are_few() -> None:
    region = dense(BLOCK).fed(Scheme(True))
    row = next(o for o in region.inputs if o.kind is Kind.ROW)
    many = replace(region, inputs=(*(replace(row, value=f"row{k}") for k in range(MOST_SHARED)), *region.inputs))
    kinds = [o.kind for o in shared(many)]
    assert len(kinds) == MOST_SHARED
    assert kinds[:2] == [Kind.LEFT, Kind.RIGHT]


# -- schemes -------------------------------------------------------------------------------------------------
def test_a_product_comes_whole_or_in_pieces_with_multicast_or_without() -> None:
    found = tuple(schemes(dense(BLOCK, depth=16)))
    assert found == tuple(Scheme(multicast, k) for multicast in (False, True) for k in (0, 4, 8))


def test_rows_of_several_tiles_at_home_come_whole() -> None:
    """A piece of their depth is no run of tiles in the shard."""
    assert {s.k_block for s in schemes(dense(HEIGHT, at_home="a"))} == {0}
    assert {s.k_block for s in schemes(dense(HEIGHT, (1, 2), at_home="a"))} == {0, 1, 2}


def test_the_writer_brings_what_is_on_the_right_if_the_reader_brings_the_left() -> None:
    for at_home, expected in (("", [Kind.RIGHT]), ("a", [])):
        region = dense(HEIGHT, at_home=at_home).fed(Scheme(True))
        assert [o.kind for o in region.inputs if by_writer(region, o)] == expected


def test_weights_are_read_once_per_column_of_cores() -> None:
    region = dense(BLOCK).fed(Scheme(True, 2))
    sources = {s.kind: s.text for s in emit_program(lowered(program_of(region), BOARD))}
    assert sources["writer"].count("noc_async_write_multicast(") == 1
    assert re.search(r"for \(uint32_t (pipe_\d+) = 0; \1 < 8; \+\+\1\)", sources["writer"])


# -- executed on all cores -----------------------------------------------------------------------------------
CASES = {
    "block shards": (dense(BLOCK), Scheme(True)),
    "block shards in pieces, each core for itself": (dense(BLOCK), Scheme(k_block=2)),
    "block shards in pieces, x from DRAM": (dense(BLOCK, x=DRAM_TILE), Scheme(True, 2)),
    "block shards in pieces, sums in L1": (dense(BLOCK, (4, 2)), Scheme(True, 2)),
    "height shards in pieces": (dense(HEIGHT), Scheme(True, 2)),
    "height shards, left at home": (dense(HEIGHT, at_home="a"), Scheme(True)),
    "height shards, left at home in pieces": (dense(HEIGHT, (1, 2), at_home="a"), Scheme(True, 1)),
    "width shards, right at home in pieces": (dense(WIDTH, at_home="w"), Scheme(True, 2)),
}
SLOW = tuple(CASES)[3:6]


@executed
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES])
def test_cores_that_share_operands_compute_right_values(name: str) -> None:
    region, scheme = CASES[name]
    small = shrunk(region, (2, 3) if region.home.layout.memory_layout is BLOCK else (4, 4), region.home.shard)
    small = small.fed(scheme)
    cores = cores_of(lowered(program_of(small), BOARD))
    assert len(cores) in (4, 6)
    run = run_region(small, cores[-1])
    assert run.elements == region.home.tiles * TILE * TILE
    assert run.mismatches == 0
