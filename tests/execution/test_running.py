"""Programs of results with weights and inputs: fed, executed, compared, and what goes wrong said in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import (
    DTypeError,
    ExecutionError,
    GraphError,
    OptionError,
    ShapeError,
    UnknownNameError,
    UnsupportedOpError,
)
from optimizer.execution import Reference, RunOptions, read_weights, run_result, running
from optimizer.execution.comparing import Bounds, as_in_model, compared, standing_values
from optimizer.execution.running import taps
from optimizer.execution.whole import random_weights
from optimizer.export.ttnn_py import ttnn_program
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import ForeignTensor, Graph
from optimizer.opmodel.ttmetal.execution import open_execution
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from tests.execution.conftest import Case
from tests.execution.models import LENGTH, VOCABULARY

ROOT = Path(__file__).resolve().parents[2]
Arrays = dict[str, np.ndarray]


class FakeSession:
    """A device that gives what the model computes, but for one value."""

    def __init__(self, values: Mapping[str, np.ndarray], wrong: str, dies: str) -> None:
        self.values, self.wrong, self.dies = values, wrong, dies
        self.fed: dict[str, list[np.ndarray]] = {}
        self.ran: list[str] = []

    def load(self, source: str) -> None:
        compile(source, "model_ttnn.py", "exec")

    def feed(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        self.fed[name] = list(arrays.values())

    def run(self, code: str, what: str | None = None) -> None:
        self.ran.append(code)
        if self.dies and self.dies in (what or ""):
            raise ExecutionError(f"{what}: the device's process ended (SIGABRT): ERROR: no such instruction")

    def fetch(self, names: Sequence[str]) -> Arrays:
        return {name: self.values[name] * (1.5 if name == self.wrong else 1.0) for name in names}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, small: Case) -> Callable[..., FakeSession]:
    """`fake(wrong, dies)`: a device for the small decoder; `wrong` is a value, `dies` part of an op's name."""
    path, result = small

    def install(wrong: str = "", dies: str = "") -> FakeSession:
        reference = Reference(path)
        values = Reference(path, taps=taps(result)).run(random_ids())
        program = ttnn_program(result)
        variables = {value: name for step in program.run_steps for name, value in step.results}
        standing = standing_values(result.graph)
        by_variable = {
            variables[v]: values[held.name].transpose(held.dims).reshape(result.graph.value(v).shape)
            for v, held in standing.items()
            if held.name in values
        }
        by_variable |= dict(zip(program.outputs, (values[name] for name in reference.outputs), strict=True))
        session = FakeSession(by_variable, variables.get(wrong, wrong), dies)

        def opening(*_: object) -> AbstractContextManager[FakeSession]:
            return nullcontext(session)

        monkeypatch.setattr(running, "open_execution", opening)
        return session

    return install


def random_ids() -> Arrays:
    return {"ids": np.random.default_rng(1).integers(0, VOCABULARY, (1, LENGTH))}


def executed(case: Case, inputs: Arrays | None = None, device: str = "sim", per_op: bool = False) -> running.Outcome:
    path, result = case
    reference = None
    if device != "mock":
        reference = Reference(path, taps=taps(result) if per_op else ())
    weights = read_weights(path, result)
    return run_result(result, weights, inputs, RunOptions(device), reference=reference, per_op=per_op)


# -- the three ways in which a model holds its weights -------------------------------------------------------
@pytest.mark.slow
def test_a_mock_device_takes_the_whole_program_with_its_weights(needs_ttnn: None, case: Case) -> None:
    outcome = executed(case, device="mock")

    assert outcome.ok
    assert outcome.record["weights"] >= 16
    assert outcome.record["steps"] > 30
    assert outcome.outputs == {}


def test_on_the_simulator_the_program_computes_the_model(needs_simulator: None, case: Case) -> None:
    outcome = executed(case)

    assert outcome.record["outputs"][0]["pcc"] >= 0.99
    assert outcome.ok


def test_an_emulation_computes_the_model_without_a_device(small: Case) -> None:
    outcome = executed(small, random_ids(), "emulate", per_op=True)

    assert outcome.ok
    assert 1e-5 < outcome.record["outputs"][0]["relative_error"] < 0.05
    assert outcome.record["per_op"]["compared"] > 8
    assert list(outcome.outputs) == list(small[1].output_names)


@pytest.mark.parametrize("asked", [{"trace": True}, {"queues": 2}, {"iterations": 3}])
def test_an_emulation_has_no_times_and_no_queues(asked: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        RunOptions("emulate", **asked)


@pytest.mark.parametrize(
    ("expected", "blind"),
    [
        (np.full((4, 8), 3.0), "the same number everywhere"),
        (np.eye(32), "almost only zeros and ones"),
        (np.linspace(0, 1, 64), None),
    ],
)
def test_what_hides_errors_is_said(expected: np.ndarray, blind: str | None) -> None:
    assert compared("y", expected, expected, Bounds())["blind"] == blind


@pytest.mark.slow
def test_every_weight_is_fed_with_the_values_of_the_file(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    path, result = case
    session = FakeSession({name: np.zeros((1, LENGTH, VOCABULARY)) for name in ttnn_program(result).outputs}, "", "")
    monkeypatch.setattr(running, "open_execution", lambda *_: nullcontext(session))
    weights = read_weights(path, result)

    run_result(result, weights, None, RunOptions("sim"))

    fed = dict(
        zip(
            (e.name for e in ttnn_program(result).parameters if e.data is None),
            session.fed["given_weights"],
            strict=True,
        )
    )
    assert set(fed) == set(weights)
    for name, array in fed.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, weights[name].astype(np.float32))


# -- comparison ----------------------------------------------------------------------------------------------
def test_right_values_are_right(fake: Callable[..., FakeSession], small: Case) -> None:
    session = fake()

    outcome = executed(small, random_ids(), per_op=True)

    assert outcome.ok
    assert outcome.record["outputs"][0]["relative_error"] == 0.0
    assert outcome.record["per_op"]["first_bad"] is None
    assert outcome.record["per_op"]["compared"] > 8
    assert session.fed["given_inputs"][0].dtype == np.uint32


def test_the_first_bad_op_is_named(fake: Callable[..., FakeSession], small: Case) -> None:
    fake(wrong="l0_up")

    found = executed(small, random_ids(), per_op=True).record["per_op"]

    assert found["first_bad"]["name"] == "l0_up"
    assert found["first_bad"]["op"] == "/l0_up/MatMul"
    assert found["first_bad"]["ratio"] == pytest.approx(1.5)
    assert [entry["name"] for entry in found["ops"] if not entry["ok"]] == ["l0_up"]


def test_a_wrong_output_is_not_ok(fake: Callable[..., FakeSession], small: Case) -> None:
    fake(wrong=ttnn_program(small[1]).outputs[0])

    outcome = executed(small, random_ids())

    assert not outcome.ok
    assert outcome.record["outputs"][0]["pcc"] == pytest.approx(1.0)
    assert outcome.record["outputs"][0]["relative_error"] == pytest.approx(0.5)


def test_expected_outputs_may_come_from_a_file(fake: Callable[..., FakeSession], small: Case) -> None:
    path, result = small
    fake()
    weights = read_weights(path, result)
    wanted = Reference(path).run(random_ids())

    run = run_result(result, weights, random_ids(), RunOptions("sim", bounds=Bounds(1.0, 0.0)), expected=wanted)
    assert run.ok

    with pytest.raises(GraphError, match="1 of 1 expected outputs are missing: 'logits'"):
        run_result(result, weights, random_ids(), RunOptions("sim"), expected={"other": wanted["logits"]})


def test_random_inputs_are_those_of_the_seed_and_within_the_table(
    fake: Callable[..., FakeSession], small: Case
) -> None:
    path, result = small
    weights = read_weights(path, result)

    def drawn(seed: int) -> np.ndarray:
        session = fake()
        run_result(result, weights, None, RunOptions("sim", seed=seed))
        return session.fed["given_inputs"][0]

    first = drawn(0)
    assert first.max() < VOCABULARY
    assert len(np.unique(first)) > LENGTH // 2
    np.testing.assert_array_equal(first, drawn(0))
    assert (first != drawn(1)).any()


# -- bad input -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ({"id": np.zeros((1, LENGTH), np.int64)}, UnknownNameError, "unknown input 'id', did you mean 'ids'?"),
        ({}, GraphError, "1 of 1 inputs are missing: 'ids'"),
        ({"ids": np.zeros((1, 9), np.int64)}, ShapeError, "input 'ids' has the shape [1, 9], not [1, 64]"),
        ({"ids": np.full((1, LENGTH), -1)}, DTypeError, "input 'ids' has elements that uint32 does not hold"),
        ({"ids": np.full((1, LENGTH), 0.5)}, DTypeError, "input 'ids' has elements that uint32 does not hold"),
        ({"ids": np.full((1, LENGTH), "a")}, DTypeError, "no numbers"),
        ({"ids": np.full((1, LENGTH), 320)}, DTypeError, "input 'ids' has the index 320, its table has 320 rows"),
    ],
)
def test_wrong_inputs_are_refused_before_a_device_opens(
    inputs: Arrays, error: type[Exception], message: str, small: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, result = small
    monkeypatch.setattr(running, "open_execution", lambda *_: pytest.fail("a device was opened"))

    with pytest.raises(error) as refused:
        run_result(result, read_weights(path, result), inputs, RunOptions("sim"))
    assert message in str(refused.value)


def test_missing_weights_are_an_error(small: Case) -> None:
    with pytest.raises(
        GraphError, match=r"weights are missing: '[\w.]+', '[\w.]+', '[\w.]+', '[\w.]+', '[\w.]+', \.\.\."
    ):
        run_result(small[1], {}, None, RunOptions("mock"))


def test_a_device_that_dies_is_named_with_the_op(fake: Callable[..., FakeSession], small: Case) -> None:
    fake(dies="'/l0_up/MatMul'")

    with pytest.raises(ExecutionError, match=r"op '/l0_up/MatMul' \(ttnn\.\w+\): the device's process ended"):
        executed(small, random_ids())


def test_a_step_that_takes_too_long_is_named(needs_ttnn: None, small: Case) -> None:
    path, result = small
    with pytest.raises(ExecutionError, match="the device did not answer within 1e-06 s"):
        run_result(result, read_weights(path, result), None, RunOptions("mock", step_seconds=1e-6))


def test_a_mock_device_has_no_values_and_only_a_real_one_has_times(small: Case) -> None:
    path, result = small
    with pytest.raises(OptionError, match="computes no values to compare"):
        run_result(result, {}, None, RunOptions("mock"), reference=Reference(path))
    with pytest.raises(OptionError, match="a sim device has no times to measure"):
        RunOptions("sim", iterations=3)


def test_ops_on_the_host_are_refused_where_values_matter(project_root: Path) -> None:
    result = optimize_file(project_root / "fixtures" / "graphs" / "opaque.json", Options(allow_host_ops=True))

    with pytest.raises(UnsupportedOpError, match=r"1 ops of the result run on the host, in functions of yours"):
        run_result(result, {}, None, RunOptions("sim"))


def test_values_with_channels_last_are_compared_in_the_models_order() -> None:
    tensor = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    held = ForeignTensor("t", (2, 3, 4, 5), (0, 2, 3, 1))

    np.testing.assert_array_equal(as_in_model(tensor.transpose(0, 2, 3, 1).reshape(1, 1, 40, 3), held), tensor)


def test_timed_runs_give_their_seconds_without_the_first(needs_ttnn: None) -> None:
    program = "def run(device, inputs, parameters):\n    return [ttnn.zeros([32, 32], device=device)]\n"
    with open_execution(DeviceSpec.preset("n150"), 32768, "mock") as session:
        session.load(program)
        session.run("inputs = parameters = {}")
        session.run(running._TIMING.format(runs=4))
        seconds = session.fetch(["measured_seconds"])["measured_seconds"]

    assert seconds.shape == (1, 3)
    assert (seconds > 0).all()


# -- at full speed -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("trace", "queues"), [(True, 2), (True, 1), (False, 2)])
def test_a_mock_device_runs_at_full_speed_but_for_the_capture_and_says_so(
    needs_ttnn: None, small: Case, trace: bool, queues: int
) -> None:
    path, result = small

    found = run_result(result, read_weights(path, result), None, RunOptions("mock", trace=trace, queues=queues)).record

    assert found["full_speed"] == {
        "trace": trace,
        "queues": queues,
        "trace_bytes": None,
        "checked_runs": None,
        "remarks": ["a mock device captures no trace and waits for no event: plain runs in order, and no times"],
        "iterations": 0,
        "predicted_ns": result.summary_json()["traced_ns" if trace else "untraced_ns"],
        "per_run_ns": None,
        "latency_ns": None,
    }


def test_runs_at_full_speed_on_the_simulator_give_what_plain_runs_give(needs_simulator: None, tmp_path: Path) -> None:
    result = optimize(tiny(), "n150", Options())
    weights = random_weights(result.graph, 0)

    found = run_result(result, weights, None, RunOptions("sim", trace=True, queues=2)).record["full_speed"]

    assert found["checked_runs"] == 8
    assert 0 < found["trace_bytes"] <= ttnn_program(result).trace_region_bytes


def tiny() -> Graph:
    """A product of 64x64 and what follows it: few cores, as the simulator takes long with fast dispatch."""
    b = GraphBuilder("tiny")
    y = b.op("ttnn.linear", b.input("x", (1, 64, 64)), b.parameter("w", (64, 64)), activation="relu")
    return b.finish(b.op("ttnn.add", y, b.input("z", (1, 64, 64))))


def test_figures_of_runs_at_full_speed_are_those_measured(fake: Callable[..., FakeSession], small: Case) -> None:
    path, result = small
    session = fake()
    session.values = {
        **session.values,
        "seconds_at_full_speed": np.array([[0.5, 0.125, 0.25, 0.5, 0.125]]),
        "bytes_of_trace": np.array([[4096]]),
    }

    options = RunOptions("real", iterations=4, trace=True, queues=2, seed=3)
    found = run_result(result, read_weights(path, result), random_ids(), options).record["full_speed"]

    assert (found["per_run_ns"], found["trace_bytes"], found["checked_runs"]) == (125_000_000, 4096, 8)
    assert found["latency_ns"] == {"p50": 125_000_000, "p90": 500_000_000, "p99": 500_000_000}
    assert (session.fed["other_inputs"][0] != session.fed["given_inputs"][0]).any()
    assert "Settings(True, 2, " in session.ran[-1]


def test_ops_on_the_host_are_refused_at_full_speed(small: Case) -> None:
    result = optimize_file(ROOT / "fixtures" / "graphs" / "opaque.json", Options(allow_host_ops=True))

    with pytest.raises(UnsupportedOpError, match="1 ops of the result run on the host"):
        run_result(result, random_weights(result.graph, 0), None, RunOptions("mock", queues=2))


def test_no_more_than_two_queues_are_offered() -> None:
    with pytest.raises(OptionError, match="1 or 2 command queues, not 3"):
        RunOptions("real", queues=3)
