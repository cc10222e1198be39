"""Masks of keys that are no whole tiles are filled, once each, however the graph arrives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.export.annotated_json import dumps
from optimizer.importers import load
from optimizer.importers.passes.tile_padding import tile_padding
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph, Op
from optimizer.ir.padding import HIDDEN
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.verify import verify

N150 = DeviceSpec.preset("n150")
FILL, SDPA = "ttnn.fill_implicit_tile_padding", "ttnn.scaled_dot_product_attention"


def attention(keys: int, layers: int = 1, dtype: DType = DType.BF16) -> Graph:
    """Layers of attention of one head under the same mask, which is an input."""
    b = GraphBuilder("attention")
    x, mask = b.input("x", (1, 1, keys, 64)), b.input("mask", (1, 1, keys, keys), dtype)
    for _ in range(layers):
        x = b.op(SDPA, x, x, x, mask, is_causal=False, scale=0.125)
    return b.finish(x)


def ops(graph: Graph, name: str) -> list[Op]:
    return [op for op in graph.ops() if op.op == name]


def test_one_fill_serves_all_attentions() -> None:
    graph = attention(197, layers=3)
    assert tile_padding.apply(graph) == 3
    (fill,) = ops(graph, FILL)
    assert (fill.inputs, fill.attrs) == (("mask",), {"value": HIDDEN})
    assert {op.inputs[3] for op in ops(graph, SDPA)} == set(fill.outputs)
    assert tile_padding.apply(graph) == 0


def test_whole_tiles_and_no_mask_need_none() -> None:
    assert tile_padding.apply(attention(192)) == 0
    b = GraphBuilder("free")
    x = b.input("x", (1, 1, 197, 64))
    assert tile_padding.apply(b.finish(b.op(SDPA, x, x, x))) == 0


def test_block_floats_are_unpacked_first() -> None:
    graph = attention(197, dtype=DType.BFP8_B)
    tile_padding.apply(graph)
    (cast,) = ops(graph, "ttnn.typecast")
    assert ops(graph, FILL)[0].inputs == cast.outputs


def test_masks_of_one_token_are_filled_too() -> None:
    b = GraphBuilder("decode")
    q, cache, mask = b.input("q", (1, 2, 32, 64)), b.input("kv", (2, 1, 80, 64)), b.input("mask", (2, 1, 32, 80))
    step = b.op("ttnn.scaled_dot_product_attention_decode", q, cache, cache, mask, cur_pos=(3, 4), is_causal=False)
    assert tile_padding.apply(b.finish(step)) == 1


@pytest.mark.parametrize(
    ("names", "columns", "dim", "fills"),
    [
        (("divide",), 50, -1, 1),
        (("divide", "relu", "reshape"), 50, -1, 1),
        (("divide",), 64, -1, 0),
        (("divide",), 50, 2, 0),
        (("multiply",), 50, -1, 0),
        (("divide", "matmul"), 50, -1, 0),
    ],
)
def test_softmax_of_what_may_be_infinite_there(names: tuple[str, ...], columns: int, dim: int, fills: int) -> None:
    b = GraphBuilder("softmax")
    x, y = b.input("x", (1, 1, 50, columns)), b.input("y", (1, 1, 50, columns))
    for name in names:
        if name == "matmul":
            x = b.op("ttnn.matmul", x, b.parameter("w", (columns, columns)))
        elif name == "reshape":
            x = b.op("ttnn.reshape", x, shape=(1, 1, 50, columns))
        else:
            x = b.op(f"ttnn.{name}", x, *([] if name == "relu" else [y]))
    graph = b.finish(b.op("ttnn.softmax", x, dim=dim))
    assert tile_padding.apply(graph) == fills
    assert tile_padding.apply(graph) == 0


def test_softmax_of_block_floats_keeps_its_type() -> None:
    b = GraphBuilder("packed")
    x, y = (b.input(name, (1, 1, 50, 48), DType.BFP8_B) for name in "xy")
    result = optimize(b.finish(b.op("ttnn.softmax", b.op("ttnn.divide", x, y), dim=-1)), N150, Options())
    graph = result.graph
    assert graph.value(graph.outputs[0]).dtype is DType.BFP8_B
    assert graph.value(ops(graph, "ttnn.softmax")[0].outputs[0]).dtype is DType.BF16
    assert len(ops(graph, FILL)) == 1


@pytest.mark.parametrize(
    ("positions", "names", "fills"),
    [
        (50, ("divide",), 1),
        (50, ("divide", "matmul", "rms_norm"), 1),
        (64, ("divide",), 0),
        (50, ("add", "matmul"), 0),
    ],
)
def test_keys_that_may_be_infinite_there(positions: int, names: tuple[str, ...], fills: int) -> None:
    b = GraphBuilder("keys")
    q, k = b.input("q", (1, 1, positions, 64)), b.input("k", (1, 1, positions, 64))
    for name in names:
        more = {"matmul": (64, 64), "rms_norm": (64,)}.get(name, (1, 1, positions, 64))
        k = b.op(f"ttnn.{name}", k, b.parameter(f"with_{name}", more), **({"epsilon": 0.0} if "norm" in name else {}))
    graph = b.finish(b.op(SDPA, q, k, q))
    assert tile_padding.apply(graph) == fills
    assert [op.attrs["value"] for op in ops(graph, FILL)] == [0.0] * fills
    assert tile_padding.apply(graph) == 0


@pytest.mark.parametrize("way", ["library", "document"])
def test_every_way_into_the_pipeline_fills(way: str) -> None:
    graph = attention(77)
    if way == "document":
        values = {v.id: {"shape": list(v.shape), "dtype": v.dtype.value, "kind": v.kind.value} for v in
                  graph.values.values()}  # fmt: skip
        listed = [{"id": o.id, "op": o.op, "inputs": list(o.inputs), "outputs": list(o.outputs), "attrs": o.attrs}
                  for o in graph.ops()]  # fmt: skip
        model = {"name": "m", "inputs": graph.inputs, "outputs": graph.outputs}
        text = json.dumps({"schema": "ttopt.graph/1", "model": model, "values": values, "ops": listed})
        imported = load(text.encode())
        assert imported.report.fused == {"tile-padding": 1}
        result = optimize(imported, N150, Options())
    else:
        result = optimize(graph, N150, Options())
        assert ops(graph, FILL) == []  # the caller's graph is not changed
    assert len(ops(result.graph, FILL)) == 1
    again = load(dumps(result).encode()).graph
    assert len(ops(again, FILL)) == 1


def test_the_verifier_misses_the_fill() -> None:
    result = optimize(attention(77), N150, Options(policy="dram"))
    (fill,) = ops(result.graph, FILL)
    result.graph.replace_op(replace(fill, attrs={"value": 0.0}))
    found = verify(result, create("analytical", N150, result.options.l1_small_bytes)).errors
    assert [where for where, text in found if "for elements" in text] == [ops(result.graph, SDPA)[0].id]
