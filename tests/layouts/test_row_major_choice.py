"""Element-wise ops go on rows region by region, and only where the whole graph is faster for it."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.row_major_choice import faster_on_rows
from optimizer.options import Options
from optimizer.pipeline import optimize

NONE = frozenset[str]()


def two_regions() -> Graph:
    """exp and neg are one region, abs is another: a matmul lies between them."""
    b = GraphBuilder("g")
    x = b.op("ttnn.neg", b.op("ttnn.exp", b.input("x", (1, 1, 64, 64)), name="exp"), name="neg")
    y = b.op("ttnn.linear", x, b.parameter("w", (64, 64)), name="fc")
    return b.finish(b.op("ttnn.abs", y, name="abs"))


def saving(**regions_ns: int) -> Callable[[frozenset[str]], int]:
    """A graph of 100 ns that saves so much if an op is on rows."""
    return lambda on_rows: 100 - sum(regions_ns.get(op_id, 0) for op_id in on_rows)


def test_regions_change_as_a_whole_where_that_is_faster() -> None:
    assert faster_on_rows(two_regions(), NONE, lambda _: True, saving(exp=5, neg=-3, abs=-1)) == {"exp", "neg"}
    assert faster_on_rows(two_regions(), NONE, lambda _: True, saving(exp=5, neg=-6, abs=1)) == {"abs"}


def test_what_cannot_run_so_parts_regions() -> None:
    assert faster_on_rows(two_regions(), NONE, lambda op: op.id != "neg", saving(exp=5, neg=9)) == {"exp"}


def test_what_is_fixed_stays() -> None:
    assert faster_on_rows(two_regions(), frozenset({"neg"}), lambda _: False, saving(neg=-9)) == {"neg"}


def test_a_choice_that_does_not_run_is_no_choice() -> None:
    def time_ns(on_rows: frozenset[str]) -> int | None:
        return None if "abs" in on_rows else 100 - len(on_rows)

    assert faster_on_rows(two_regions(), NONE, lambda _: True, time_ns) == {"exp", "neg"}


def pooled_sum(rows: int) -> Graph:
    """A pool gives rows, an addition may take them so, a matmul needs tiles."""
    b = GraphBuilder("pooled")
    pools = [
        b.op("ttnn.max_pool2d", b.input(f"x{i}", (1, 1, rows, 32)), name=f"pool{i}", batch_size=1,
             input_height=rows // 8, input_width=8, channels=32, kernel_size=(2, 2), stride=(2, 2))
        for i in range(2)
    ]  # fmt: skip
    return b.finish(b.op("ttnn.add", *pools, name="sum"))


def test_the_option_never_makes_the_dram_plan_slower() -> None:
    device = DeviceSpec.preset("n150")
    plain, enabled = (
        optimize(pooled_sum(4096), device, Options.from_mapping({"policy": "dram", "row_major_enabled": on}))
        for on in (False, True)
    )

    assert enabled.summary.predicted_time_ns < plain.summary.predicted_time_ns
    assert not enabled.layouts["sum_out"].is_tile
    assert plain.layouts["sum_out"].is_tile
