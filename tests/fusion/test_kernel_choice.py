"""Which groups of a plan become kernels: those that save time, each op in one, with room in L1."""

from __future__ import annotations

from dataclasses import replace

import pytest
from placed_graphs import HEIGHT, placed, shards

from optimizer.fusion.binding import fused_kernels, savings
from optimizer.fusion.choosing import NO_ROOM, SLOWER, choose
from optimizer.ir.builder import GraphBuilder
from optimizer.layouts.memory_config import TensorLayout
from optimizer.limit.predictions import Predictor
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph

X = (1, 1, 2048, 1024)
HOME = shards(X, (8, 8))


def priced(result: OptimizedGraph) -> OptimizedGraph:
    """The result with what the OpModel predicts of its ops."""
    predictor = Predictor(result.graph, result.layouts, create("analytical", result.device))
    records = {k: replace(r, predicted=predictor.prediction(k, r, 0)) for k, r in result.records.items()}
    return replace(result, records=records)


def chain(*ops: str) -> OptimizedGraph:
    b = GraphBuilder("chain")
    v = b.input("x", X)
    layouts: dict[str, TensorLayout] = {v: HOME}
    for op in ops:
        v = b.op(f"ttnn.{op}", v)
        layouts[v] = HOME
    return priced(placed(b.finish(v), layouts, fuse_kernels=True))


def test_a_chain_that_starts_once_pays() -> None:
    result = chain("exp", "square", "tanh")
    choice = choose(result)
    assert [region.op_ids for region in choice.taken] == [("exp", "square", "tanh")]
    assert choice.refused == ()
    assert 2 * 3082 * 0.9 < choice.saved_ns < 2 * 3082 * 1.4


def test_what_is_saved_is_ops_less_kernel() -> None:
    result = chain("exp", "square")
    (record,) = savings(result, fused_kernels(result))
    spent = sum(p.time_ns for op in record["ops"] if (p := result.records[op].predicted) is not None)
    assert record["ops_ns"] == spent
    assert record["saved_ns"] == spent - record["predicted_ns"] == choose(result).saved_ns


def test_a_group_that_is_slower_stays_as_it_is_and_says_so() -> None:
    b = GraphBuilder("sum")
    x, y = b.input("x", X), b.input("y", X)
    there = b.op("ttnn.to_memory_config", x, name="reshard")
    v = b.op("ttnn.multiply", there, y)
    far = shards(X, (1, 1), HEIGHT)
    result = priced(placed(b.finish(v), {"x": far, there: HOME, "y": HOME, v: HOME}, fuse_kernels=True))
    slow = {k: replace(r, predicted=replace(p, time_ns=1)) for k, r in result.records.items() if (p := r.predicted)}
    choice = choose(replace(result, records=slow))
    assert choice.taken == ()
    (refused,) = choice.refused
    assert (refused.ops, refused.because, refused.ops_ns) == (("reshard", "multiply"), SLOWER, 2)
    assert refused.predicted_ns is not None
    assert refused.predicted_ns > 2


def test_only_the_stretch_that_pays_is_taken() -> None:
    """The exponential counts for nothing here, so a kernel that holds it saves less than one without."""
    result = chain("exp", "square", "abs")
    exp = result.records["exp"].predicted
    assert exp is not None
    result.records["exp"] = replace(result.records["exp"], predicted=replace(exp, time_ns=1))
    assert [region.op_ids for region in choose(result).taken] == [("square", "abs")]


def test_groups_without_room_in_l1_are_named() -> None:
    """Operand and result take 1 MiB each on every core, more than L1 has together."""
    b = GraphBuilder("wide")
    shape = (1, 1, 8192, 4096)
    home = shards(shape, (8, 8))
    x = b.op("ttnn.permute", b.input("x", (1, 1, 4096, 8192)), dims=(0, 1, 3, 2))
    v = b.op("ttnn.square", b.op("ttnn.exp", x))
    graph = b.finish(b.op("ttnn.permute", v, dims=(0, 1, 3, 2)))
    result = priced(placed(graph, dict.fromkeys((x, "exp_out", v), home), fuse_kernels=True))
    assert [(r.because, r.ops) for r in choose(result).refused] == [(NO_ROOM, ("exp", "square"))]


def test_without_predicted_times_every_group_is_taken() -> None:
    result = chain("exp", "square")
    records = {k: replace(r, predicted=None) for k, r in result.records.items()}
    choice = choose(replace(result, records=records))
    assert [region.op_ids for region in choice.taken] == [("exp", "square")]
    assert choice.saved_ns == 0


def test_the_choice_is_the_same_every_time() -> None:
    assert choose(chain("exp", "square", "tanh")) == choose(chain("exp", "square", "tanh"))


@pytest.mark.parametrize("policy", ["dfsharding", "dfsharding2"])
@pytest.mark.slow
def test_other_policies_fuse_where_it_pays(policy: str) -> None:
    b = GraphBuilder("blocks")
    v = b.input("x", X)
    for n in range(2):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (1024, 1024)))
        v = b.op("ttnn.cos", b.op("ttnn.square", b.op("ttnn.sin", v)))
    graph = b.finish(v)
    apart = optimize(graph, "n150", Options(policy=policy))
    fused = optimize(graph, "n150", Options(policy=policy, fuse_kernels=True))
    saved = sum(region["saved_ns"] for region in fused.fused_kernels)
    assert saved > 0
    assert fused.summary.predicted_time_ns == apart.summary.predicted_time_ns - saved
    assert fused.summary.programs < apart.summary.programs
