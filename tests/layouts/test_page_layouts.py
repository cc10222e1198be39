"""Page layouts: conversions appear exactly where an op needs them."""

from __future__ import annotations

from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.page_layouts import AssignPageLayouts


def kinds(graph: Graph) -> list[str]:
    return [op.op.removeprefix("ttnn.") for op in graph.ops()]


def pooled(b: GraphBuilder, x: str) -> str:
    return b.op(
        "ttnn.max_pool2d", x, name="pool", batch_size=1, input_height=8, input_width=8, channels=32,
        kernel_size=(2, 2), stride=(2, 2),
    )  # fmt: skip


def test_a_row_major_result_is_tilized_once_for_all_readers() -> None:
    b = GraphBuilder("pool")
    p = pooled(b, b.input("x", (1, 1, 64, 32)))
    graph = b.finish(b.op("ttnn.add", b.op("ttnn.exp", p), b.op("ttnn.neg", p)))
    pages = AssignPageLayouts().apply(graph)
    assert kinds(graph) == ["max_pool2d", "to_layout", "exp", "neg", "add"]
    assert pages[p] is PageLayout.ROW_MAJOR
    assert all(pages[v] is PageLayout.TILE for v in graph.outputs)


def test_indices_and_tables_start_row_major() -> None:
    b = GraphBuilder("embedding")
    ids, table = b.input("ids", (1, 32), DType.U32), b.parameter("table", (100, 64))
    graph = b.finish(b.op("ttnn.embedding", ids, table))
    pages = AssignPageLayouts().apply(graph)
    assert kinds(graph) == ["embedding"]
    assert pages["ids"] is pages["table"] is PageLayout.ROW_MAJOR


def test_a_weight_wanted_both_ways_is_converted_on_the_host() -> None:
    b = GraphBuilder("tied")
    ids, table = b.input("ids", (1, 32), DType.U32), b.parameter("table", (100, 64))
    h = b.op("ttnn.embedding", ids, table)
    graph = b.finish(b.op("ttnn.linear", h, table, transpose_b=True))
    AssignPageLayouts().apply(graph)
    assert sorted(kinds(graph)) == ["embedding", "linear", "to_layout"]
    assert [op.op for op in graph.run_ops()] == ["ttnn.embedding", "ttnn.linear"]


def test_ops_on_rows_give_rows() -> None:
    b = GraphBuilder("pool")
    graph = b.finish(b.op("ttnn.exp", pooled(b, b.input("x", (1, 1, 64, 32))), name="exp"))
    pages = AssignPageLayouts(on_rows=frozenset({"exp"})).apply(graph)
    assert kinds(graph) == ["max_pool2d", "exp"]
    assert pages[graph.outputs[0]] is PageLayout.ROW_MAJOR


def test_a_result_follows_the_converted_operand() -> None:
    b = GraphBuilder("pad")
    padded = b.op("ttnn.pad", b.op("ttnn.exp", b.input("x", (1, 1, 32, 32))), padding=((0, 0), (1, 0), (0, 0), (0, 0)))
    graph = b.finish(b.op("ttnn.neg", padded))
    pages = AssignPageLayouts().apply(graph)
    assert kinds(graph) == ["exp", "to_layout", "pad", "to_layout", "neg"]
    assert pages[padded] is PageLayout.ROW_MAJOR


def test_an_input_that_the_graph_tiles_itself_comes_in_rows() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 8, 8, 64))
    flat = b.op("ttnn.reshape", x, shape=(1, 1, 64, 64))
    graph = b.finish(b.op("ttnn.relu", b.op("ttnn.to_layout", flat, layout="tile")))

    pages = AssignPageLayouts().apply(graph)

    assert (pages["x"], pages[flat]) == (PageLayout.ROW_MAJOR, PageLayout.ROW_MAJOR)
    assert pages[graph.outputs[0]] is PageLayout.TILE
    assert [op.op for op in graph.ops()] == ["ttnn.reshape", "ttnn.to_layout", "ttnn.relu"]


def test_a_reshape_that_cuts_rows_needs_tiles() -> None:
    b = GraphBuilder("g")
    rows = b.op("ttnn.upsample", b.input("x", (1, 8, 8, 64)), scale_factor=(2, 2))
    graph = b.finish(b.op("ttnn.reshape", rows, shape=(1, 1, 256, 64)), b.op("ttnn.reshape", rows, shape=(1, 512, 32)))

    pages = AssignPageLayouts().apply(graph)

    assert [pages[v] for v in graph.outputs] == [PageLayout.ROW_MAJOR, PageLayout.TILE]
