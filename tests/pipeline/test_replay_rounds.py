"""`--check ttmetal`: what the real tt-metal refuses is found, solved again, and reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from unittest import mock

import pytest

from optimizer.answers.checking import check_record
from optimizer.device import DeviceSpec
from optimizer.errors import OptionError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.opmodel.base import OpConstraints, OpCost, OpModel, OpQuery, Rejection
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.pipeline.replay import replay
from optimizer.process import plugins
from optimizer.process.registered import OPMODELS
from optimizer.result import OptimizedGraph

pytestmark = pytest.mark.usefixtures("needs_ttnn")


def like_relu(query: OpQuery) -> OpQuery:
    return replace(query, op="ttnn.relu", inputs=query.inputs[:1], attrs=(), config=None)


class TrustingOpModel(AnalyticalOpModel):
    """Believes that layer norms take height shards, which tt-metal never does, and no other shards."""

    name = "trusting"

    def constraints(self, query: OpQuery) -> OpConstraints:
        if query.op != "ttnn.layer_norm" or query.inputs[0].layout.is_dram:
            return super().constraints(query)
        if query.inputs[0].layout.memory_layout is not TensorMemoryLayout.HEIGHT_SHARDED:
            return OpConstraints.rejected(Rejection.VALIDATION, "height shards only")
        return super().constraints(like_relu(query))

    def cost(self, query: OpQuery) -> OpCost:
        return super().cost(like_relu(query) if query.op == "ttnn.layer_norm" else query)


@contextmanager
def registered(model: type[AnalyticalOpModel]) -> Iterator[str]:
    """A backend that exists for one test, as another distribution's would."""
    point = EntryPoint(model.name, f"{model.__module__}:{model.__name__}", OPMODELS.group)
    with mock.patch.object(plugins, "published", lambda group: (point,) if group == point.group else ()):
        yield model.name


def norms() -> Graph:
    b = GraphBuilder("norms")
    v = b.op("ttnn.gelu", b.input("x", (1, 1, 2048, 1024)), name="gelu")
    v = b.op("ttnn.layer_norm", v, name="norm")
    return b.finish(b.op("ttnn.relu", v, name="relu"))


def run(graph: Graph, **options: object) -> OptimizedGraph:
    return optimize(graph, DeviceSpec.preset("n150"), Options.from_mapping({"policy": "dfsharding", **options}))


def test_a_plan_that_tt_metal_takes_needs_one_replay() -> None:
    check = run(norms(), check="ttmetal").summary.check
    assert (check.ok, check.rounds, check.repaired, check.refused) == (True, 1, (), ())
    assert check.l1["exact"] == check.l1["steps"] == check.ops


def test_what_tt_metal_refuses_is_solved_again() -> None:
    with registered(TrustingOpModel) as name:
        trusted = run(norms(), opmodel=name)
        result = run(norms(), opmodel=name, check="ttmetal")
        assert not check_record(trusted, "ttmetal")["ok"]
        assert check_record(result, "ttmetal")["ok"]
    check = result.summary.check
    assert check.ok
    assert check.rounds > 1
    assert [r.op for r in check.repaired] == ["norm"] * len(check.repaired)
    assert check.repaired[0].kind == "validation"
    before, after = (r.layouts[r.graph.op("norm").inputs[0]] for r in (trusted, result))
    assert (before.memory_layout, after.memory_layout) == ("height_sharded", "interleaved")


def test_a_class_of_refusals_is_learnt_at_once() -> None:
    with registered(TrustingOpModel) as name:
        check = run(norms(), opmodel=name, check="ttmetal").summary.check
    assert (check.ok, check.rounds, len(check.repaired)) == (True, 2, 1)


@pytest.mark.slow
def test_repairs_are_deterministic() -> None:
    with registered(TrustingOpModel) as name:
        first, second = (run(norms(), opmodel=name, check="ttmetal") for _ in range(2))
    assert json.dumps({**first.to_json(), "timings": {}}) == json.dumps({**second.to_json(), "timings": {}})


def test_a_replay_names_every_refused_op_and_goes_on(n150_judge: OpModel) -> None:
    with registered(TrustingOpModel) as name:
        result = run(norms(), opmodel=name)
    report = replay(result, n150_judge, {})
    assert [step.op for step in report.failures] == ["norm"]
    assert report.steps[-1].op == list(result.graph.ops())[-1].id


def test_backends_that_run_no_programs_cannot_judge() -> None:
    with pytest.raises(OptionError, match="runs no programs"):
        replay(run(norms()), AnalyticalOpModel(DeviceSpec.preset("n150"), 32768), {})


@pytest.fixture
def n150_judge() -> OpModel:
    return registry.create("ttmetal", DeviceSpec.preset("n150"))
