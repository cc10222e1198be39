"""Weights that stay in L1 between runs: where it pays, as far as they fit, at the top of every bank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.result import OptimizedGraph
from optimizer.sharding.base import PolicyInput
from optimizer.sharding.dram import DramPolicy
from optimizer.sharding.plan_program import replay_plan, weights_in_l1
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.weight_choice import WeightChoice
from optimizer.solver.graphs.elimination import eliminate
from optimizer.verify import verify
from tests.plans import planned
from tests.samples import examples

pytestmark = pytest.mark.usefixtures("remembered_answers")


def layers(count: int, width: int, bias: bool = False, shared: bool = False) -> Graph:
    """Linears one after the other, each with its weight or all with the same one."""
    b = GraphBuilder("layers")
    x = b.input("x", (1, 1, 128, width))
    for i in range(count):
        if i == 0 or not shared:
            weights = [b.parameter(f"w{i}", (width, width)), *([b.parameter(f"b{i}", (width,))] if bias else [])]
        x = b.op("ttnn.linear", x, *weights, name=f"fc{i}")
    return b.finish(x)


def problem_of(graph: Graph) -> PolicyInput:
    device = DeviceSpec.preset("n150")
    model = CachedOpModel(create_opmodel("analytical", device, 32768))
    return prepare(graph, model, Options(policy="global"))


def model_of(problem: PolicyInput) -> GlobalProblem:
    plan = DramPolicy().run(problem)
    return GlobalProblem(problem, plan.schedule, [plan.decisions])


def run(graph: Graph, **options: object) -> OptimizedGraph:
    return planned(graph, DeviceSpec.preset("n150"), Options.from_mapping({"policy": "global", **options}))


def test_weights_that_fit_are_read_from_l1_and_the_plan_is_faster() -> None:
    graph = layers(3, 1024)
    kept, none = run(graph), run(graph, weights_in_l1=False)
    assert kept.summary.predicted_time_ns < none.summary.predicted_time_ns
    assert [kept.layouts[f"w{i}"].is_l1 for i in range(3)] == [True] * 3
    assert kept.summary.l1_weights_bytes_total == 3 * 1024 * 1024 * 2
    assert none.summary.l1_weights_bytes_total == 0
    assert all(step.resident_bytes >= kept.summary.l1_weights_bytes for step in verify(kept, _model()).steps)


def _model() -> CachedOpModel:
    return CachedOpModel(create_opmodel("analytical", DeviceSpec.preset("n150"), 32768))


def test_a_matmul_that_multicasts_its_operand_has_its_columns_and_bias_at_home() -> None:
    problem = problem_of(layers(1, 2048, bias=True))
    options = model_of(problem).table.options["fc0"]
    home = [o for o in options if o.operands[1].is_l1 and o.operands[1].is_sharded]
    assert home
    for option in home:
        weight, bias, result = option.operands[1], option.operands[2], option.candidate.output
        assert weight.shard_spec is not None
        assert bias.shard_spec is not None
        assert result.shard_spec is not None
        assert weight.memory_layout is bias.memory_layout is TensorMemoryLayout.WIDTH_SHARDED
        assert weight.shard_spec.core_ranges == bias.shard_spec.core_ranges == result.shard_spec.core_ranges
        assert (weight.shard_spec.shape, bias.shard_spec.shape[0]) == ((2048, result.shard_spec.shape[1]), 32)


def test_matmuls_of_operands_in_l1_have_a_program_config() -> None:
    """What TTNN chooses by itself would depend on what else is in L1 (shards settle it)."""
    problem = problem_of(layers(1, 1024))
    for option in model_of(problem).table.options["fc0"]:
        inside = [layout for layout in option.operands if layout.is_l1 and not layout.is_sharded]
        assert option.candidate.config is not None or not inside


def test_more_weights_than_l1_holds_are_kept_as_far_as_they_fit() -> None:
    """24 weights of 8 MiB are 192 MiB, L1 holds 80."""
    problem = problem_of(layers(24, 2048))
    model = model_of(problem)
    everything = eliminate(model.integers).chosen
    assert everything is not None
    chosen = WeightChoice(model, problem.pricer).filled(everything)
    assert chosen is not None
    decisions = model.decisions(chosen, {})
    replay = replay_plan(problem.pricer, model.schedule, decisions)
    kept = weights_in_l1(problem.pricer, model.schedule, decisions)
    assert replay.overflows == ()
    assert 1 < len(kept) < 24
    assert 0 <= replay.spare_bytes < max(kept.values())


def test_what_several_ops_read_is_kept_once() -> None:
    problem = problem_of(layers(6, 1024, shared=True))
    model = model_of(problem)
    assert list(model.weights) == ["w0"]
    chosen = eliminate(model.integers).chosen
    assert chosen is not None
    decisions = model.decisions(chosen, {})
    assert len(weights_in_l1(problem.pricer, model.schedule, decisions)) == 1
    alone = WeightChoice(model, problem.pricer).without(chosen)
    assert weights_in_l1(problem.pricer, model.schedule, model.decisions(alone, {})) == {}
    again = WeightChoice(model, problem.pricer).filled(alone)
    assert again is not None
    assert model.integers.value(again) <= model.integers.value(chosen)


@settings(max_examples=examples(10))
@given(st.integers(1, 4), st.sampled_from([256, 512, 1024, 2048]), st.booleans(), st.booleans())
def test_a_filled_choice_fits_and_is_no_slower(count: int, width: int, bias: bool, shared: bool) -> None:
    problem = problem_of(layers(count, width, bias, shared))
    model = model_of(problem)
    solution = eliminate(model.integers)
    assert solution.chosen is not None
    weights = WeightChoice(model, problem.pricer)
    base = weights.without(solution.chosen)
    filled = weights.filled(base)
    assert filled is not None
    assert model.integers.value(filled) <= model.integers.value(base)
    replay = replay_plan(problem.pricer, model.schedule, model.decisions(filled, {}))
    assert replay.overflows == ()
    assert replay.time_ns >= solution.lower_bound


@pytest.mark.parametrize("kept", [True, False])
def test_the_replay_counts_weights_at_every_step(kept: bool) -> None:
    problem = problem_of(layers(2, 1024))
    model = model_of(problem)
    chosen = eliminate(model.integers).chosen
    assert chosen is not None
    if not kept:
        chosen = WeightChoice(model, problem.pricer).without(chosen)
    decisions = model.decisions(chosen, {})
    replay = replay_plan(problem.pricer, model.schedule, decisions)
    sizes = weights_in_l1(problem.pricer, model.schedule, decisions)
    assert (len(sizes) == 2) is kept
    assert replay.spare_bytes + sum(sizes.values()) <= problem.pricer.l1_limit_bytes


@st.composite
def forks_with_views(draw: st.DrawFn) -> Graph:
    """Values of 4 MiB of which any may be read again later, reshapes among them: views where they are tiles."""
    b = GraphBuilder("forks")
    shapes = ((1, 1, 2048, 1024), (1, 2, 1024, 1024))
    values = [b.op("ttnn.relu", b.input("x", shapes[0]))]
    for i in range(draw(st.integers(4, 16))):
        a = draw(st.sampled_from(values[-4:]))
        kind = draw(st.sampled_from(["view", "relu", "add", "linear"]))
        if kind == "view":
            flat = b.op("ttnn.reshape", a, shape=shapes[1])
            values.append(b.op("ttnn.reshape", b.op("ttnn.neg", flat), shape=shapes[0]))
        elif kind == "linear":
            values.append(b.op("ttnn.linear", a, b.parameter(f"w{i}", (1024, 1024))))
        elif kind == "add":
            values.append(b.op("ttnn.add", a, draw(st.sampled_from(values[-6:]))))
        else:
            values.append(b.op("ttnn.relu", a))
    return b.finish(values[-1])


def overstated_bytes(problem: PolicyInput, model: GlobalProblem, chosen: Sequence[int]) -> int:
    """By how much the problem charges more for a plan than it takes at its fullest step; not above 0."""
    replay = replay_plan(problem.pricer, model.schedule, model.decisions(chosen, {}))
    return max(model.integers.loads(chosen)) - (problem.pricer.l1_limit_bytes - replay.spare_bytes)


@settings(max_examples=examples(15))
@given(forks_with_views(), st.integers(0, 1000))
def test_no_plan_is_charged_more_than_it_takes(graph: Graph, seed: int) -> None:
    """Random costs give all kinds of plans."""
    problem = problem_of(graph)
    model = model_of(problem)
    draw = np.random.default_rng(seed)
    for scale in (0.0, 0.1, 0.5, 1.0):
        noise = [
            row + np.asarray(draw.random(len(row)) * scale * 20_000, dtype=np.int64) for row in model.integers.costs
        ]
        chosen = eliminate(model.integers, noise).chosen
        assert chosen is not None
        assert overstated_bytes(problem, model, chosen) <= 0


def test_a_view_is_not_charged_beside_its_source() -> None:
    """`a` is read again after the ops on its view: one buffer."""
    b = GraphBuilder("views")
    a = b.op("ttnn.relu", b.input("x", (1, 1, 2048, 1024)), name="a")
    view = b.op("ttnn.reshape", a, name="view", shape=(1, 2, 1024, 1024))
    back = b.op("ttnn.reshape", b.op("ttnn.neg", view, name="read"), name="back", shape=(1, 1, 2048, 1024))
    model = model_of(problem_of(b.finish(b.op("ttnn.add", a, back, name="again"))))
    for name, charged in (("a_out", True), ("view_out", False)):
        uses = model.integers.usages[model.node_of[name]]
        for home, use in zip(model.homes[name], uses, strict=True):
            if home.layout.is_l1 and home.last:
                assert bool(use) is charged
