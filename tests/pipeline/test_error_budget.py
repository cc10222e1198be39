"""`least_pcc`: plans within an error budget, measured by emulation, from the option to the written graph."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.answers.checking import check_record
from optimizer.errors import GraphError, OptionError
from optimizer.export.annotated_json import dumps
from optimizer.export.reader import read_result
from optimizer.export.registry import emit
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.ir.opdef import ON_HOST
from optimizer.ir.vocabulary import CAST
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph, Role
from optimizer.values.compare import compare
from optimizer.values.emulation.graph import emulated_result
from optimizer.values.given import GivenValues
from optimizer.values.graph_values import graph_values

SIZE = 512


def layers(count: int = 3) -> Graph:
    b = GraphBuilder("layers")
    v = b.input("x", (1, 1, 64, SIZE))
    for n in range(count):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (SIZE, SIZE)), name=f"product{n}")
    return b.finish(b.op("ttnn.relu", v, name="last"))


def within(least_pcc: float, graph: Graph | None = None, **more: Any) -> OptimizedGraph:
    return optimize(graph or layers(), "n150", Options(least_pcc=least_pcc), **more)


@cache
def of_layers() -> OptimizedGraph:
    """The layers within 0.98, for tests that only look."""
    return within(0.98)


@pytest.mark.slow
def test_the_measured_correlation_is_within_the_budget_and_the_plan_is_faster() -> None:
    summary = of_layers().summary

    found = summary.precision
    assert found is not None
    assert found.measured_pcc >= 0.98
    assert summary.predicted_time_ns < found.exact_ns
    assert not found.given_up


@pytest.mark.slow
def test_what_was_expected_is_near_what_is_measured() -> None:
    found = of_layers().summary.precision

    assert found is not None
    assert found.predicted_error == pytest.approx(found.measured_error, rel=0.5)


@pytest.mark.slow
def test_the_written_graph_states_what_was_taken() -> None:
    result = of_layers()

    weights = {result.graph.value(f"w{n}").dtype for n in range(3)}
    assert weights & {DType.BFP8_B, DType.BFP4_B}
    taken = [op for op in result.graph.ops() if "precision" in result.records[op.id].reason]
    assert taken
    assert any(COMPUTE in op.attrs for op in taken)
    assert result.graph.value(result.graph.outputs[0]).dtype is DType.BF16


@pytest.mark.slow
def test_a_weight_that_is_wanted_in_two_types_is_converted_once_for_each() -> None:
    b = GraphBuilder("shared")
    x, w = b.input("x", (1, 1, 64, SIZE)), b.parameter("w", (SIZE, SIZE))
    y = b.op("ttnn.linear", b.op("ttnn.linear", x, w, name="first"), w, name="second")
    table = b.op("ttnn.add", w, w, name="on_the_side")
    graph = b.finish(y, table)

    result = within(0.9, graph)

    casts = [op for op in result.graph.ops() if op.op == CAST]
    assert [(result.records[op.id].role, op.attrs[ON_HOST]) for op in casts] == [(Role.HOST, True)]
    assert result.graph.value("w").dtype is DType.BF16
    assert result.summary.precision is not None


@pytest.mark.slow
def test_where_bf16_misses_the_budget_results_are_f32(tmp_path: Path) -> None:
    result = within(0.999995)

    found = result.summary.precision
    assert found is not None
    assert (found.kept, found.given_up) == (True, True)
    assert found.raised
    assert {result.graph.value(result.graph.op(op_id).outputs[0]).dtype for op_id in found.raised} == {DType.F32}
    assert result.graph.value(result.graph.outputs[0]).dtype is DType.BF16
    emit(result, "json", tmp_path)
    assert check_record(read_result(tmp_path))["errors"] == []


@pytest.mark.slow
def test_where_nothing_keeps_the_budget_the_nearest_plan_says_so(tmp_path: Path) -> None:
    result = within(0.9999999)

    found = result.summary.precision
    assert found is not None
    assert not found.kept
    assert 0.99999 < found.measured_pcc < 0.9999999
    assert [w for w in result.summary.warnings if "no plan keeps a correlation of 0.9999999" in w and "'product" in w]
    emit(result, "json", tmp_path)
    assert check_record(read_result(tmp_path))["errors"] == []


@pytest.mark.parametrize(
    ("options", "named"), [({"policy": "dram"}, "policy global"), ({"fuse_kernels": True}, "fuse_kernels")]
)
def test_what_a_budget_cannot_go_with_is_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        optimize(layers(1), "n150", Options(least_pcc=0.99, **options))


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        ({"weights_dtype": "bfp8_b"}, "weights"),
        ({"weights_dtype": "bf16"}, "weights"),
        ({"activations_dtype": "f32"}, "result"),
    ],
)
@pytest.mark.slow
def test_what_the_user_fixes_stays_so(options: dict[str, Any], fixed: str, tmp_path: Path) -> None:
    result = optimize(layers(), "n150", Options(least_pcc=0.98, **options))

    taken = [r.reason["precision"] for r in result.records.values() if "precision" in r.reason]
    assert not [record for record in taken if fixed in record]
    emit(result, "json", tmp_path)
    assert check_record(read_result(tmp_path))["errors"] == []


@pytest.mark.slow
def test_a_fidelity_that_the_user_fixes_stays_so() -> None:
    result = optimize(layers(), "n150", Options(least_pcc=0.98, math_fidelity="hifi4"))

    taken = [r.reason["precision"] for r in result.records.values() if "precision" in r.reason]
    assert {record.get("fidelity", "HiFi4") for record in taken} == {"HiFi4"}


def test_random_weights_and_inputs_are_said() -> None:
    result = of_layers()

    assert [w for w in result.summary.warnings if "RANDOM weights" in w]
    assert [w for w in result.summary.warnings if "--calibration" in w]


@pytest.mark.slow
def test_given_weights_and_inputs_are_measured_with() -> None:
    rng = np.random.default_rng(0)
    weights = {f"w{n}": rng.standard_normal((SIZE, SIZE)) / SIZE**0.5 for n in range(3)}

    result = within(0.98, given=GivenValues(weights, {"x": rng.standard_normal((1, 1, 64, SIZE))}))

    found = result.summary.precision
    assert found is not None
    assert (found.weights, found.inputs) == ("given", "given")
    assert not [w for w in result.summary.warnings if "measured with" in w]


@pytest.mark.slow
def test_an_output_is_not_in_blocks_though_an_equal_op_before_it_is() -> None:
    """Ops that ask the same questions share their answers; an output's op asks another one."""
    result = within(0.9, layers_of(3))

    inner, last = (result.graph.value(result.graph.op(f"product{n}").outputs[0]).dtype for n in (1, 2))
    assert (inner, last) == (DType.BFP8_B, DType.BF16)


def layers_of(count: int) -> Graph:
    """Equal products, the last of which is returned."""
    b = GraphBuilder("equal")
    v = b.input("x", (1, 1, 64, SIZE))
    for n in range(count):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (SIZE, SIZE)), name=f"product{n}")
    return b.finish(v)


@pytest.mark.slow
def test_an_output_of_equal_numbers_is_judged_by_its_error() -> None:
    b = GraphBuilder("constant")
    y = b.op("ttnn.linear", b.input("x", (1, 1, 64, SIZE)), b.parameter("w", (SIZE, SIZE)), name="y")
    flat = b.op("ttnn.add", b.op("ttnn.multiply", y, scalar=0.0, name="none"), scalar=3.1, name="flat")

    found = within(0.98, b.finish(y, flat)).summary.precision

    assert found is not None
    assert found.measured_pcc >= 0.98


@pytest.mark.slow
def test_a_constant_output_gives_the_plan_in_the_models_own_types(tmp_path: Path) -> None:
    b = GraphBuilder("constant")
    negative = b.op("ttnn.neg", b.op("ttnn.relu", b.input("x", (1, 1, 64, 64))))
    result = within(0.99, b.finish(b.op("ttnn.relu", negative)))

    summary = result.summary
    assert summary.precision is None
    assert summary.unjudged == "no output of the model holds numbers whose correlation could be asked"
    assert "the model's own element types" in summary.warnings[0]
    emit(result, "json", tmp_path)
    assert check_record(read_result(tmp_path))["ok"]


def test_the_worst_of_several_samples_keeps_the_budget() -> None:
    rng = np.random.default_rng(0)
    weights = {f"w{n}": rng.standard_normal((SIZE, SIZE)) / SIZE**0.5 for n in range(3)}
    samples = rng.standard_normal((3, 1, 64, SIZE))

    result = within(0.98, given=GivenValues(weights, {"x": samples}))

    found = result.summary.precision
    assert found is not None
    assert found.samples == 3
    each = []
    for sample in samples:
        given = {**weights, "x": sample.reshape(1, 1, 64, SIZE)}
        (made,), (exact,) = emulated_result(result, given), graph_values(layers(), given)
        each.append(compare(made, exact).pcc)
    assert min(each) < max(each)
    assert found.measured_pcc == pytest.approx(min(each), abs=1e-8)
    assert min(each) >= 0.98


def test_weights_that_are_missing_are_named() -> None:
    with pytest.raises(GraphError, match=r"1 of 3 weights are missing: 'w1'"):
        within(0.98, given=GivenValues({"w0": np.zeros((SIZE, SIZE)), "w2": np.zeros((SIZE, SIZE))}))


@pytest.mark.slow
def test_the_same_budget_gives_the_same_bytes() -> None:
    first, second = of_layers(), within(0.98)
    for result in (first, second):
        result.timings = {}

    assert dumps(first) == dumps(second)


def test_a_result_says_what_it_was_measured_to_do() -> None:
    result = of_layers()

    record = result.to_json()["summary"]["precision"]
    assert record["outputs"][0]["pcc"] == pytest.approx(record["measured_pcc"], rel=1e-4)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.slow
def test_a_written_plan_holds_up_to_its_check(count: int, tmp_path: Path) -> None:
    """Its weights in L1 too, in whatever element type."""
    result = within(0.98, layers(count))
    emit(result, "json", tmp_path)

    found = check_record(read_result(tmp_path))

    assert result.summary.l1_weights_bytes
    assert {result.graph.value(r.value).dtype for r in result.reservations} & {DType.BFP8_B, DType.BFP4_B}
    assert (found["errors"], found["ok"]) == ([], True)


@pytest.mark.slow
def test_weights_over_the_dram_banks_take_other_element_types_too(tmp_path: Path) -> None:
    b = GraphBuilder("decode")
    v = b.input("x", (1, 1, 32, 2048))
    for n in range(2):
        v = b.op("ttnn.linear", v, b.parameter(f"w{n}", (2048, 2048)), name=f"product{n}")
    graph = b.finish(b.op("ttnn.relu", v, name="last"))

    result = optimize(graph, "n150", Options(least_pcc=0.98, weights_in_l1=False))
    emit(result, "json", tmp_path)

    over_banks = {result.graph.value(v).dtype for v, layout in result.layouts.items() if layout.is_over_banks}
    assert over_banks & {DType.BFP8_B, DType.BFP4_B}
    assert check_record(read_result(tmp_path))["errors"] == []
