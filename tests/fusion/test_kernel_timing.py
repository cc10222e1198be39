"""Predicted times of kernels: like TTNN's for one op, and what more work, more cores and more trips do to them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from placed_graphs import BLOCK, HEIGHT, placed, shards

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.fusion.finding import Finder, find_regions
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.regions import Scheme
from optimizer.fusion.timing import compute_of, cost_of, work_of
from optimizer.ir.builder import GraphBuilder
from optimizer.kernels.tensix.ir import Op, Region, attributes
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.layouts.memory_config import DRAM_TILE, TensorLayout
from optimizer.limit.predictions import Predictor
from optimizer.opmodel.analytical.timing import constants
from optimizer.opmodel.base import Bound, OpCost
from optimizer.opmodel.registry import create
from optimizer.result import OptimizedGraph

X = (1, 1, 2048, 1024)
HOME = shards(X, (8, 8))
"""8x4 tiles on each of 64 cores."""
ROWS = shards(X, (64, 1), HEIGHT)
"""1x32 tiles on each of 64 cores."""


def one_op(name: str, operands: int, home: TensorLayout = HOME, **attrs: object) -> OptimizedGraph:
    """An op whose operands and result all have the same shards."""
    b = GraphBuilder(name)
    inputs = [b.input(f"x{k}", X) for k in range(operands)]
    v = b.op(f"ttnn.{name}", *inputs, name="op", **attrs)  # type: ignore[arg-type]
    return placed(b.finish(v), {**dict.fromkeys(inputs, home), v: home})


def times(result: OptimizedGraph, op_id: str = "op") -> tuple[int, OpCost]:
    """What the OpModel says of an op, and what a kernel of that op alone takes."""
    model = create("analytical", result.device)
    _, cost = Predictor(result.graph, result.layouts, model).answers(op_id, result.records[op_id])
    region = Finder(result).regions_of((op_id,))[0]
    return cost.time_ns, cost_of(region, lowered(program_of(region), result.device), result.layouts, result.device)


# -- a kernel of one op ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "operands", "within"),
    [
        ("exp", 1, 0.01), ("tanh", 1, 0.01), ("gelu", 1, 0.01), ("relu", 1, 0.04), ("square", 1, 0.04),
        ("sqrt", 1, 0.03), ("add", 2, 0.05), ("subtract", 2, 0.05), ("multiply", 2, 0.04), ("divide", 2, 0.23),
    ],
)  # fmt: skip
def test_an_elementwise_kernel_takes_as_long_as_the_op(name: str, operands: int, within: float) -> None:
    op_ns, kernel = times(one_op(name, operands))
    assert kernel.time_ns == pytest.approx(op_ns, rel=within)


def test_a_softmax_is_never_faster_than_the_op() -> None:
    op_ns, kernel = times(one_op("softmax", 1, ROWS, dim=-1))
    assert op_ns <= kernel.time_ns


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_a_norm_takes_what_was_measured_per_tile_at_least(name: str) -> None:
    known = constants("wormhole_b0")
    _, kernel = times(one_op(name, 1, ROWS))
    assert kernel.time_ns >= 0.99 * (known["t0_ns.norm"] + 32 * known[f"norm_tile_cycles.{name}"])


def linear(depth: int) -> OptimizedGraph:
    """A linear over a depth of so many elements, its rows and its result in block shards, weights in DRAM."""
    b = GraphBuilder("linear")
    x, w = b.input("x", (*X[:-1], depth)), b.parameter("w", (depth, X[-1]))
    v = b.op("ttnn.linear", x, w, name="op")
    return placed(b.finish(v), {x: shards((*X[:-1], depth), (8, 8)), v: HOME})


def test_a_product_without_multicast_is_slower_than_the_op_where_cores_share_its_weights() -> None:
    result = linear(1024)
    op_ns, _ = times(result)
    alone = next(r for r in Finder(result).regions_of(("op",)) if r.scheme == Scheme())
    kernel = cost_of(alone, lowered(program_of(alone), result.device), result.layouts, result.device)
    assert kernel.time_ns > 3 * op_ns
    assert kernel.dram_read_bytes == 64 * 32 * 4 * 2048
    assert kernel.bound is Bound.DRAM


def test_a_product_with_multicast_takes_about_as_long_as_the_op() -> None:
    op_ns, kernel = times(linear(256))
    assert kernel.time_ns == pytest.approx(op_ns, rel=0.25)
    assert kernel.dram_read_bytes == 8 * 32 * 2048


# -- several ops -------------------------------------------------------------------------------------------
def chain(*ops: str, home: TensorLayout = HOME, source: TensorLayout | None = None) -> OptimizedGraph:
    b = GraphBuilder("chain")
    v = b.input("x", X)
    layouts = {v: source or home}
    for op in ops:
        v = b.op(f"ttnn.{op}", v)
        layouts[v] = home
    return placed(b.finish(v), layouts)


def kernel_ns(result: OptimizedGraph, device: DeviceSpec | None = None) -> int:
    (region,) = find_regions(result)
    return cost_of(region, lowered(program_of(region), result.device), result.layouts, device or result.device).time_ns


def test_ops_together_start_once() -> None:
    alone = [times(one_op(name, 1))[0] for name in ("exp", "tanh")]
    start_ns = constants("wormhole_b0")["t0_ns.eltwise"]
    assert kernel_ns(chain("exp", "tanh")) == pytest.approx(sum(alone) - start_ns, rel=0.02)


def test_a_further_op_takes_longer() -> None:
    assert kernel_ns(chain("exp", "tanh")) < kernel_ns(chain("exp", "tanh", "square"))


def test_operands_that_are_brought_take_longer_than_those_at_home() -> None:
    at_home, from_dram = kernel_ns(chain("relu", "square")), kernel_ns(chain("relu", "square", source=DRAM_TILE))
    assert from_dram > 1.5 * at_home


def test_one_core_that_all_read_from_serves_them_one_after_the_other() -> None:
    spread = chain("relu", "square", source=shards(X, (64, 1), HEIGHT))
    narrow = chain("relu", "square", source=shards(X, (1, 1), BLOCK))
    assert kernel_ns(narrow) > 3 * kernel_ns(spread)


def test_a_board_with_a_faster_clock_computes_faster() -> None:
    result = chain("exp", "tanh")
    faster = replace(result.device, clock_mhz=2 * result.device.clock_mhz)
    assert kernel_ns(result, faster) < kernel_ns(result)


def test_traffic_with_dram_is_that_of_what_is_brought_and_taken() -> None:
    result = chain("relu", "square", source=DRAM_TILE)
    (region,) = find_regions(result)
    cost = cost_of(region, lowered(program_of(region), result.device), result.layouts, result.device)
    assert (cost.dram_read_bytes, cost.dram_write_bytes) == (2048 * 1024 * 2, 0)


# -- what is counted ---------------------------------------------------------------------------------------
def test_calls_are_counted_with_their_loops() -> None:
    result = chain("exp", "square")
    (region,) = find_regions(result)
    compute = compute_of(lowered(program_of(region), result.device), result.device.arch)
    counted = {name: count for name, _, count in compute.arithmetic}
    assert counted == {"copy": 32, "exp": 32, "square": 32}
    assert (compute.packed, compute.unpacked_bytes) == (32, 32 * 2048)
    assert compute.sections == 4


def test_weights_are_counted_for_the_core_that_reads_them_for_all() -> None:
    b = GraphBuilder("linear")
    x, w = b.input("x", (1, 1, 256, 128)), b.parameter("w", (128, 32))
    y = b.op("ttnn.linear", x, w)
    v = b.op("ttnn.relu", y)
    home = shards((1, 1, 256, 32), (8, 1), HEIGHT)
    result = placed(b.finish(v), {x: shards((1, 1, 256, 128), (8, 1), HEIGHT), y: home, v: home})
    (region,) = find_regions(result)
    work = work_of(region, lowered(program_of(region), result.device), result.layouts, result.device)
    assert work.kernel is not None
    assert [(t.tiles, t.multiplied, t.readers) for t in work.kernel.reads] == [(4, True, 1)]
    assert work.kernel.compute.products == 4


def test_every_call_that_a_tile_op_makes_has_a_price() -> None:
    """Of all forms of all tile ops: no op may become unpriceable by a new spelling."""
    calls = {form.call.function for op in TILE_OPS.values() for form in op.forms}
    for function in sorted(calls - {"matmul_tiles"}):
        assert compute_of(program_calling(function), "wormhole_b0").arithmetic, function


def test_an_unknown_call_is_named() -> None:
    with pytest.raises(StateError, match="no time is known of conjure"):
        compute_of(program_calling("conjure"), "wormhole_b0")


def program_calling(function: str) -> Op:
    """A lowered program whose compute thread makes one call."""
    call = Op(f"ttkernel.{function}", (), (), attributes({"args": ()}))
    thread = Op("ttl.compute_thread", (), (), attributes({"sym_name": "compute"}), (Region((), (call,)),))
    return Op("ttl.program", (), (), attributes({"sym_name": "k", "grid": (1, 1)}), (Region((), (thread,)),))
