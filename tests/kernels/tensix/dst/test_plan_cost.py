"""Plans against every plan there is: in small bodies none is cheaper than the one chosen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import InfeasibleError, UnknownNameError
from optimizer.kernels.tensix.dst.dag import TileDag, TileNode, renumbered, usable_forms
from optimizer.kernels.tensix.dst.live_sets import LiveSets, Step, bits
from optimizer.kernels.tensix.dst.plan import BodyPlan, Relief, plan_body
from optimizer.kernels.tensix.dst.schedule import Schedule
from optimizer.kernels.tensix.dst.slots import Scheme
from optimizer.kernels.tensix.dst.stages import whole
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from tests.samples import examples

KINDS = ("add", "mul", "max", "abs", "exp")


def orders(dag: TileDag) -> Iterator[tuple[Step, ...]]:
    """Every order and form, with every choice of inputs that stay in DST from step to step."""
    sets = LiveSets(dag)

    def extended(done: int, ready: int, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
        if len(steps) == len(dag.nodes):
            yield steps
        for n in bits(ready):
            after = done | 1 << n
            held = steps[-1].keep if steps else ()
            for form in usable_forms(dag, dag.inputs + n):
                there = sorted({*held, *sets.demands[n][form].inputs})
                keeps = (k for size in range(len(there) + 1) for k in combinations(there, size))
                for keep in keeps:
                    yield from extended(
                        after, sets.ready_behind(ready, n, after), (*steps, Step(dag.inputs + n, form, keep))
                    )

    return extended(0, sets.first, ())


def plans(dag: TileDag, tiles: int, capacity: int) -> Iterator[BodyPlan]:
    for order, scheme in product(orders(dag), Scheme):
        stage = whole(dag, order)
        unroll = min(tiles, stage.slots.unroll(capacity, scheme))
        if unroll >= 1:
            yield BodyPlan(dag, (stage,), unroll, scheme, tiles)


@st.composite
def bodies(draw: st.DrawFn) -> TileDag:
    inputs = draw(st.integers(1, 2))
    nodes: list[TileNode] = []
    for n in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(KINDS))
        args = tuple(draw(st.integers(0, inputs + n - 1)) for _ in range(TILE_OPS[kind].arity))
        nodes.append(TileNode(kind, args))
    results = {inputs + len(nodes) - 1, *draw(st.sets(st.integers(0, inputs + len(nodes) - 1), max_size=1))}
    return TileDag(inputs, tuple(nodes), tuple(sorted(results)), draw(st.sampled_from(["bf16", "f32"])))


@settings(max_examples=examples(40))
@given(bodies(), st.integers(1, 9), st.sampled_from([2, 4, 8]))
def test_no_plan_of_a_small_body_is_cheaper(dag: TileDag, tiles: int, capacity: int) -> None:
    dag = renumbered(dag)[0]
    every = min((plan.cost for plan in plans(dag, tiles, capacity)), default=None)
    try:
        chosen = plan_body(dag, tiles, capacity)
    except InfeasibleError:
        assert every is None
        return
    assert (every is None) == (chosen.relief not in (Relief.NONE, Relief.REORDER))
    if every is not None:
        assert chosen.cost <= every


def test_fewer_sections_are_not_taken_where_inits_cost_more() -> None:
    """Seven maxima of two inputs: three sections tile by tile, or four op by op with a third of the inits."""
    dag = TileDag(2, (TileNode("max", (0, 1)),), (2,), "f32")
    chosen = plan_body(dag, 7, 4)
    fewest = min(plans(dag, 7, 4), key=lambda plan: (plan.sections, plan.cost))
    assert (fewest.sections, fewest.inits) == (3, 21)
    assert (chosen.sections, chosen.inits) == (4, 12)
    assert chosen.cost < fewest.cost


def test_a_product_that_is_a_result_is_computed_again_for_what_overwrites_it() -> None:
    """Neither a copy nor a section of its own."""
    dag = TileDag(2, (TileNode("mul", (0, 1)), TileNode("neg", (2,))), (2, 3))
    (stage,) = plan_body(dag, 1, 8).stages
    assert [i.op for i in stage.slots.instructions] == ["mul", "mul", "neg"]


@pytest.mark.parametrize(
    ("schedule", "order"),
    [("given", "mul abs add"), ("pressure", "mul add abs"), ("critical-path", "mul add abs")],
)
def test_the_order_is_the_schedules(schedule: Schedule, order: str) -> None:
    """Example 6 with a product in f32, which is computed in DST: abs last overwrites it where nobody needs it."""
    dag = TileDag(3, (TileNode("mul", (0, 1)), TileNode("abs", (3,)), TileNode("add", (3, 2))), (4, 5), "f32")
    (stage,) = plan_body(dag, 1, 8, schedule=schedule).stages
    ops = [i.op for i in stage.slots.instructions]
    assert [op for op in ops if not op.startswith("copy")] == order.split()
    assert ops.count("copy_dst") == (schedule == "given")


def test_the_longest_path_may_come_before_reuse() -> None:
    """After v, A reads it and ends soon; B and G begin what is longest."""
    x, y, z, v, a, b, g, e, f, h, k = range(11)
    reads = {v: ("exp", x), a: ("abs", v), b: ("abs", y), g: ("exp", z), e: ("max", a, b), f: ("max", b, g)}
    reads |= {h: ("exp", f), k: ("max", h, v)}
    nodes = tuple(TileNode(str(op), tuple(map(int, args))) for op, *args in reads.values())
    dag = TileDag(3, nodes, (e, k), "f32")
    second = {}
    for schedule in ("pressure", "critical-path"):
        (stage,) = plan_body(dag, 1, 8, schedule=schedule).stages
        second[schedule] = next(step.value for step in stage.order if step.value != v)
    assert second["pressure"] == a
    assert second["critical-path"] in (b, g)


def test_unknown_ways_are_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="unknown schedule 'presure', did you mean 'pressure'"):
        KernelOptions(schedule="presure")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="unknown push 'tile'"):
        KernelOptions(push="tile")  # type: ignore[arg-type]
