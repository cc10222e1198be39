"""What runs learn from each other spares work and changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.importers import load
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.opmodel.base import OpConstraints, OpQuery, Rejection
from optimizer.opmodel.cached import CachedOpModel
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.pipeline.learned import KEPT_CHAINS, Learned
from optimizer.sharding.chains.chain_resolver import ChainResolver
from tests.samples import examples, sampled

N150 = DeviceSpec.preset("n150")


def perceptron(name: str, layers: int, rows: int = 256, width: int = 512) -> Graph:
    """Layers that are all alike, their ids made of the graph's name."""
    b = GraphBuilder(name)
    value = b.input(f"{name}_x", (1, 1, rows, width))
    for i in range(layers):
        product = b.op("ttnn.linear", value, b.parameter(f"{name}_w{i}", (width, width)), name=f"{name}_fc{i}")
        value = b.op("ttnn.layer_norm", b.op("ttnn.gelu", product), b.parameter(f"{name}_g{i}", (width,)))
    return b.finish(value)


def document(graph: Graph, learned: Learned | None = None, **options: object) -> str:
    chosen = Options.from_mapping(options)
    record = optimize(graph, N150, chosen, learned=learned).to_json()
    return json.dumps({k: v for k, v in record.items() if k != "timings"})


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The ops of every chain that was really solved."""
    chains: list[tuple[str, ...]] = []
    solve = ChainResolver._solve

    def noted(self: ChainResolver) -> object:
        chains.append(tuple(op.id for op in self.oracle.ops))
        return solve(self)

    monkeypatch.setattr(ChainResolver, "_solve", noted)
    return chains


def test_what_a_second_graph_has_in_common_is_neither_asked_nor_solved_again(solved: list[tuple[str, ...]]) -> None:
    learned = Learned()
    optimize(perceptron("first", 3), N150, Options(policy="dfsharding"), learned=learned)
    first, legal = list(solved), dict(learned.legal)
    result = optimize(perceptron("second", 3), N150, Options(policy="dfsharding"), learned=learned)
    assert first
    assert solved == first
    assert learned.legal == legal
    assert all(stage["misses"] == 0 for stage in result.timings["opmodel"].values())


def test_names_of_the_first_graph_are_not_in_the_result_of_the_second() -> None:
    learned = Learned()
    optimize(perceptron("first", 3), N150, Options(policy="dfsharding2"), learned=learned)
    assert "first" not in document(perceptron("second", 3), learned, policy="dfsharding2")


def test_policies_of_a_sweep_share_their_chains(solved: list[tuple[str, ...]]) -> None:
    learned = Learned()
    for policy in ("dfsharding", "dfsharding2"):
        optimize(perceptron("net", 2), N150, Options(policy=policy), learned=learned)
    assert solved
    assert len(solved) == len(set(solved))


@pytest.mark.parametrize("other", [{"chain_objective": "time"}, {"max_legal_layouts": 8}, {"tensor_l1_usage_cap": 0.5}])
@pytest.mark.slow
def test_options_that_change_a_chain_are_told_apart(other: dict[str, object]) -> None:
    learned, graph = Learned(), perceptron("net", 2)
    document(graph, learned, policy="dfsharding")
    assert document(graph, learned, policy="dfsharding", **other) == document(graph, policy="dfsharding", **other)


def test_what_was_refused_of_one_program_counts_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = OpConstraints.rejected(Rejection.VALIDATION, "not here")

    def no_gelu(query: OpQuery) -> OpConstraints | None:
        return refused if query.op == "ttnn.gelu" and query.inputs[0].layout.is_sharded else None

    learned, graph = Learned(), perceptron("net", 2)
    plain = document(graph, learned, policy="dfsharding")
    make = CachedOpModel.__init__

    def corrected(self: CachedOpModel, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        self.correct_by(no_gelu)

    with monkeypatch.context() as patch:
        patch.setattr(CachedOpModel, "__init__", corrected)
        assert document(graph, learned, policy="dfsharding") == document(graph, policy="dfsharding") != plain
    assert document(graph, learned, policy="dfsharding") == plain


def test_what_becomes_too_much_is_forgotten() -> None:
    learned, graph = Learned(), perceptron("net", 2)
    learned.chains.update((number, None) for number in range(KEPT_CHAINS + 1))
    assert document(graph, learned, policy="dfsharding") == document(graph, policy="dfsharding")
    assert 0 < len(learned.chains) < KEPT_CHAINS


@st.composite
def similar_graphs(draw: st.DrawFn) -> list[Graph]:
    """Graphs of few kinds of layers, so that they have many in common, at other places and with other neighbours."""
    graphs = []
    for number in range(draw(st.integers(2, 4))):
        b = GraphBuilder(f"g{number}")
        values = [b.input(f"x{number}", (1, 1, 64 * draw(st.sampled_from([1, 4])), 256))]
        for i in range(draw(st.integers(1, 7))):
            a = draw(st.sampled_from(values[-2:]))
            kind = draw(st.sampled_from(["gelu", "add", "linear", "softmax", "permute"]))
            if kind == "add":
                values.append(b.op("ttnn.add", a, draw(st.sampled_from(values))))
            elif kind == "linear":
                values.append(b.op("ttnn.linear", a, b.parameter(f"w{number}_{i}", (256, 256))))
            elif kind == "permute":
                turned = b.op("ttnn.permute", a, dims=(0, 1, 3, 2))
                values.append(b.op("ttnn.permute", turned, dims=(0, 1, 3, 2)))
            else:
                values.append(b.op(f"ttnn.{kind}", a))
        graphs.append(b.finish(values[-1]))
    return graphs


@settings(max_examples=examples(20))
@given(graphs=similar_graphs(), policy=st.sampled_from(["dfsharding", "dfsharding2", "global"]))
@pytest.mark.slow
def test_a_result_is_the_same_whatever_ran_before(graphs: list[Graph], policy: str) -> None:
    learned = Learned()
    for graph in graphs:
        assert document(graph, learned, policy=policy) == document(graph, policy=policy)


FEW = ("mobilenetv2_legacy17", "bert_base_s128_legacy17")
MORE = ("resnet50_b1_legacy17", *FEW, "gpt2_s128_dynamo20")


@pytest.mark.parametrize(
    ("policy", "names"),
    sampled(
        [("global", FEW), *((p, MORE) for p in ("dfsharding", "dfsharding2", "global"))], [], [("dfsharding2", MORE)]
    ),
)
def test_models_after_models_are_planned_as_alone(policy: str, names: tuple[str, ...], fixtures: Path) -> None:
    """Policy `global` makes the plans of the others on its way."""
    learned = Learned()
    for name in names:
        graph = load(fixtures / f"{name}.onnx").graph
        assert document(graph, learned, policy=policy) == document(graph, policy=policy)
