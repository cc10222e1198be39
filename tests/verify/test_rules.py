"""The verifier finds every kind of damage: each test breaks one thing in a good result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Op
from optimizer.layouts.dram_sharded_matmuls import bank_shards
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE, TensorLayout
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from optimizer.verify import place_buffer, verify
from tests.plans import planned

N150 = DeviceSpec.preset("n150")


@pytest.fixture
def model() -> OpModel:
    return create("analytical", N150, 32768)


@pytest.fixture
def good() -> OptimizedGraph:
    """Two linears and a residual add: one chain, one spill, one value read twice."""
    b = GraphBuilder("good")
    x = b.input("x", (1, 1, 512, 1024))
    h = b.op("ttnn.linear", x, b.parameter("w0", (1024, 1024)), name="fc0", activation="relu")
    h = b.op("ttnn.linear", h, b.parameter("w1", (1024, 1024)), name="fc1")
    return planned(b.finish(b.op("ttnn.add", h, x, name="residual")), N150, Options(policy="dfsharding"))


def sharded(result: OptimizedGraph) -> str:
    """Id of the first sharded value."""
    return next(v for v, layout in result.layouts.items() if layout.is_sharded)


def test_a_good_result_passes(good: OptimizedGraph, model: OpModel) -> None:
    report = verify(good, model)
    assert report.errors == []
    assert report.peak_l1_bytes == good.summary.l1_peak_bytes
    assert [s.op for s in report.steps] == [op.id for op in good.graph.ops()]


def _drop_layout(r: OptimizedGraph) -> None:
    del r.layouts[sharded(r)]


def _wrong_grid(r: OptimizedGraph) -> None:
    v = sharded(r)
    layout = r.layouts[v]
    spec = layout.shard_spec
    assert spec is not None
    moved = replace(spec, core_ranges=tuple((x0 + 1, y0, x1 + 1, y1) for x0, y0, x1, y1 in spec.core_ranges))
    r.layouts[v] = TensorLayout(layout.page_layout, replace(layout.memory, shard_spec=moved))


def _small_shard(r: OptimizedGraph) -> None:
    v = sharded(r)
    layout = r.layouts[v]
    spec = layout.shard_spec
    assert spec is not None
    r.layouts[v] = TensorLayout(layout.page_layout, replace(layout.memory, shard_spec=replace(spec, shape=(32, 32))))


def _broken_tile(r: OptimizedGraph) -> None:
    v = sharded(r)
    layout = r.layouts[v]
    spec = layout.shard_spec
    assert spec is not None
    odd = replace(spec, shape=(spec.shape[0] + 1, spec.shape[1]))
    r.layouts[v] = TensorLayout(layout.page_layout, replace(layout.memory, shard_spec=odd))


def _output_in_l1(r: OptimizedGraph) -> None:
    r.layouts[r.graph.outputs[0]] = L1_TILE


def _other_layout_than_the_op_gives(r: OptimizedGraph) -> None:
    value = r.graph.value(r.graph.op("fc0").outputs[0])
    r.layouts[value.id] = DRAM_TILE


def _wrong_order(r: OptimizedGraph) -> None:
    order = [op.id for op in r.graph.ops()]
    r.graph.reorder([*order[1:], order[0]])


def _wrong_shape(r: OptimizedGraph) -> None:
    value = r.graph.value(r.graph.op("fc0").outputs[0])
    r.graph.set_value(replace(value, shape=(1, 1, 512, 512)))


def _dead_copy(r: OptimizedGraph) -> None:
    spill = next(op for op in r.graph.ops() if op.op == "ttnn.to_memory_config")
    copy = r.graph.add_value(replace(r.graph.value(spill.outputs[0]), id="extra"))
    r.layouts["extra"] = DRAM_TILE
    r.graph.add_op(Op("extra_copy", spill.op, spill.inputs, (copy.id,)))
    r.records["extra_copy"] = r.records[spill.id]


def _smaller_board(r: OptimizedGraph) -> None:
    r.device = replace(r.device, worker_l1_bytes=200_000)


def _lower_cap(r: OptimizedGraph) -> None:
    r.options = replace(r.options, tensor_l1_usage_cap=0.05)


def _missing_record(r: OptimizedGraph) -> None:
    del r.records["fc1"]


def _weight_over_banks(r: OptimizedGraph) -> None:
    r.layouts["w1"] = bank_shards((1024, 1024), N150.dram_banks, 1)


def _activation_over_banks(r: OptimizedGraph) -> None:
    r.layouts[r.graph.op("fc0").outputs[0]] = bank_shards((1, 1, 512, 1024), N150.dram_banks, 1)


def _more_banks_than_there_are(r: OptimizedGraph) -> None:
    r.layouts["w1"] = bank_shards((1024, 1024), N150.dram_banks + 1, 1)


DAMAGE: dict[str, tuple[Callable[[OptimizedGraph], None], str]] = {
    "no layout": (_drop_layout, "value without a layout"),
    "cores outside the grid": (_wrong_grid, "leave the 8x8 grid"),
    "shards too small": (_small_shard, "do not cover"),
    "broken tile": (_broken_tile, "not made of whole tiles"),
    "output in L1": (_output_in_l1, "graph output must be DRAM interleaved"),
    "layout the op does not give": (_other_layout_than_the_op_gives, "gives l1"),
    "schedule": (_wrong_order, "before it is computed"),
    "shape": (_wrong_shape, "shape rule gives"),
    "dead copy": (_dead_copy, "copy that nothing reads"),
    "weight over banks for another kernel": (_weight_over_banks, "which ttnn.linear 'fc1' does not read"),
    "activation over banks": (_activation_over_banks, "only weights as they are given may be"),
    "banks": (_more_banks_than_there_are, "leave the 1x12 grid"),
    "L1 of the board": (_smaller_board, "B of L1"),
    "L1 limit": (_lower_cap, "the op takes"),
    "record": (_missing_record, "op without a record"),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_found(damage: str, good: OptimizedGraph, model: OpModel) -> None:
    harm, message = DAMAGE[damage]
    harm(good)
    report = verify(good, model)
    assert any(message in text for _, text in report.errors), report.errors


@pytest.mark.parametrize(
    ("live", "size", "expected"),
    [
        ([], 64, (0, 64)),
        ([(0, 100)], 64, (100, 164)),
        ([(0, 100), (150, 200)], 50, (100, 150)),
        ([(0, 100), (150, 200)], 51, (200, 251)),
        ([(40, 60)], 40, (0, 40)),
    ],
)
def test_buffers_take_the_first_hole_from_the_top(
    live: list[tuple[int, int]], size: int, expected: tuple[int, int]
) -> None:
    assert place_buffer({str(i): span for i, span in enumerate(live)}, size) == expected


def test_weights_in_l1_are_there_at_every_step(good: OptimizedGraph, model: OpModel) -> None:
    before = verify(good, model).steps
    good.layouts["w1"] = L1_TILE
    after = verify(good, model)
    size = 1024 * 1024 * 2 // N150.num_cores
    assert after.errors == []
    assert [s.resident_bytes for s in after.steps] == [s.resident_bytes + size for s in before]
    assert [s.extent_bytes >= t.extent_bytes + size for s, t in zip(after.steps, before, strict=True)] == [True] * len(
        before
    )
