"""Which results of TTNN calls share their operand's buffer, as buffer addresses on a simulated n150 say."""

from __future__ import annotations

import pytest

from optimizer.ir.builder import GraphBuilder
from optimizer.layouts.aliases import frees_operand, may_alias, may_keep_operand
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR, DRAM_TILE, L1_ROW_MAJOR, L1_TILE, TensorLayout
from optimizer.layouts.op_config import Conv2dConfig


@pytest.mark.parametrize(
    ("shape", "into", "tiled", "shared"),
    [
        ((1, 40, 40, 256), (1, 1, 1600, 256), False, True),
        ((1, 40, 40, 256), (1, 1, 1600, 256), True, False),
        ((1, 1, 40, 256), (40, 1, 1, 256), False, True),
        ((1, 1, 64, 256), (1, 2, 32, 256), True, True),
        ((1, 1, 1, 64), (1, 1, 2, 32), False, False),
        ((), (1,), True, True),
        ((), (1, 1), False, True),
    ],
)
def test_reshapes_that_relabel_their_rows(
    shape: tuple[int, ...], into: tuple[int, ...], tiled: bool, shared: bool
) -> None:
    b = GraphBuilder("reshape")
    graph = b.finish(b.op("ttnn.reshape", b.input("x", shape), shape=into))
    layout = DRAM_TILE if tiled else DRAM_ROW_MAJOR
    (op,) = graph.ops()
    assert may_alias(graph, op, layout, layout) == shared


@pytest.mark.parametrize(
    ("shape", "dims", "tiled", "shared"),
    [
        ((1, 1, 32, 64), (1, 0, 2, 3), True, True),
        ((1, 1, 32, 64), (0, 1, 2, 3), True, True),
        ((1, 1, 32, 32), (0, 1, 3, 2), True, False),
        ((2, 32, 32, 64), (0, 2, 1, 3), False, False),
        ((4, 1, 1, 32), (0, 2, 1, 3), False, True),
        ((4, 1, 1, 32), (0, 2, 1, 3), True, False),
        ((1, 40, 32, 64), (1, 0, 2, 3), True, False),
    ],
)
def test_permutes_that_move_nothing(shape: tuple[int, ...], dims: tuple[int, ...], tiled: bool, shared: bool) -> None:
    """A permute of equal sizes moves elements: taken for its operand, its result would never be freed."""
    b = GraphBuilder("permute")
    graph = b.finish(b.op("ttnn.permute", b.input("x", shape), dims=dims))
    layout = DRAM_TILE if tiled else DRAM_ROW_MAJOR
    (op,) = graph.ops()
    assert may_alias(graph, op, layout, layout) == shared


def test_a_transpose_of_equal_sizes_is_a_copy() -> None:
    b = GraphBuilder("transpose")
    graph = b.finish(b.op("ttnn.transpose", b.input("x", (1, 32, 32)), dim0=1, dim1=2))
    (op,) = graph.ops()
    assert not may_alias(graph, op, DRAM_TILE, DRAM_TILE)


@pytest.mark.parametrize("tiled", [True, False])
def test_padding_within_tiles_is_in_place_and_of_rows_a_copy(tiled: bool) -> None:
    b = GraphBuilder("pad")
    padded = b.op("ttnn.pad", b.input("x", (2, 3, 5, 6)), padding=((0, 0), (0, 0), (0, 0), (0, 3)), value=0.0)
    graph = b.finish(padded)
    layout = DRAM_TILE if tiled else DRAM_ROW_MAJOR
    (op,) = graph.ops()
    assert may_alias(graph, op, layout, layout) == tiled


def test_a_split_into_one_part_is_its_operand() -> None:
    b = GraphBuilder("split")
    graph = b.finish(b.op("ttnn.split", b.input("x", (32, 64)), sizes=(64,), dim=1))
    (op,) = graph.ops()
    assert may_alias(graph, op, DRAM_TILE, DRAM_TILE)


@pytest.mark.parametrize(
    ("shards", "source", "kept"),
    [("width_sharded", L1_ROW_MAJOR, True), ("width_sharded", L1_TILE, False), ("block_sharded", L1_ROW_MAJOR, False)],
)
def test_rows_in_width_shards_may_outlive_the_conv_that_frees_them(
    shards: str, source: TensorLayout, kept: bool
) -> None:
    config = Conv2dConfig(deallocate_activation=True, shard_layout=shards)

    assert frees_operand(config, source)
    assert may_keep_operand(config, source) == kept
