"""`ttopt run` from the command line: what it prints, its exit codes, one sentence for everything that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from optimizer.cli import main
from optimizer.cli.run import _full_speed_lines
from optimizer.execution import running
from tests.cli.conftest import Run
from tests.execution.models import LENGTH, VOCABULARY, decoder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A decoder of one layer; its result and program are in `bf16.ttopt` beside it."""
    path = decoder(tmp_path_factory.mktemp("run"), "bf16", layers=1)
    assert main(["optimize", str(path), "--emit", "ttnn-py,weights"]) == 0
    return path


@pytest.fixture
def result(model: Path) -> Path:
    return model.with_suffix(".ttopt")


def test_a_mock_run_needs_the_result_and_the_model(needs_ttnn: None, run: Run, model: Path, result: Path) -> None:
    status, out, err = run("run", result, "--weights", model, "--device", "mock")

    assert (status, err) == (0, "")
    assert " ".join(out.splitlines()[0].split()) == "model decoder on n150, mock device"
    assert "a mock device checks shapes, types and places" in out


def test_emitted_weights_serve_as_well(needs_ttnn: None, run: Run, result: Path) -> None:
    status, out, _ = run("run", result / "graph.json", "--weights", result / "weights.safetensors", "--format", "json")

    record = json.loads(out)
    assert status == 0
    assert record["ok"]
    assert record["outputs"] == [{"name": "logits", "shape": [1, LENGTH, VOCABULARY]}]


def test_another_model_than_the_results_is_a_warning(
    needs_ttnn: None, run: Run, model: Path, result: Path, tmp_path: Path
) -> None:
    other = tmp_path / "tuned.onnx"
    other.write_bytes(model.read_bytes() + b"\x2a\x00")  # an empty `graph`, which changes nothing but the bytes

    status, out, _ = run("run", result, "--weights", other)

    assert status == 0
    assert "tuned.onnx is another file than the one that the result was made of" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "the following arguments are required: --weights"),
        (["--weights", "MODEL", "--compare"], "a mock device computes no values for --compare"),
        (["--weights", "MODEL", "--per-op"], "a mock device computes no values for --compare"),
        (["--weights", "MODEL", "-o", "y.npz"], "a mock device computes no values for --output"),
        (["--weights", "MODEL", "--iterations", "3"], "a mock device has no times to measure"),
        (["--weights", "MODEL", "--iterations", "-3"], "a whole number from 0"),
        (["--weights", "MODEL", "--least-pcc", "nan"], "a number of at least 0, got 'nan'"),
        (["--weights", "MODEL", "--device", "board"], "invalid choice: 'board'"),
        (["--weights", "gone.onnx"], "cannot read gone.onnx"),
        (["--weights", "gone.npz"], "cannot read gone.npz"),
        (["--weights", "TEXT"], "not an ONNX model"),
        (["--weights", "TEXT.npz"], "is no .npz file of plain arrays"),
        (["--weights", "TEXT.safetensors"], "is no safetensors file"),
        (["--weights", "EMPTY.npz"], "weights of the result (in EMPTY.npz) are missing"),
        (["--weights", "MODEL", "--inputs", "EMPTY.npz"], "unknown input 'other' (one of: ids)"),
        (["--weights", "MODEL", "--inputs", "TEXT.npz"], "is no .npz file of plain arrays"),
        (["--weights", "WEIGHTS", "--device", "sim", "--compare"], "holds no model to compare with"),
        (["--weights", "MODEL", "--device", "sim", "--compare", "--expected", "x.npz"], "two things to compare with"),
    ],
)
def test_bad_usage_is_one_sentence(
    words: list[str], message: str, run: Run, model: Path, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TTOPT_TTMETAL_DEVICE", raising=False)
    for name in ("TEXT", "TEXT.npz", "TEXT.safetensors"):
        (tmp_path / name).write_text("no arrays")
    np.savez(tmp_path / "EMPTY.npz", other=np.zeros(3))
    given = {"MODEL": model, "WEIGHTS": result / "weights.safetensors"}

    status, out, err = run("run", result, *(given.get(word, word) for word in words))

    assert status == 2
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "y.npz").exists()


def test_a_library_that_is_no_simulator_is_one_sentence(
    needs_ttnn: None, run: Run, model: Path, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libttsim.so").write_bytes(b"\x7fELF no library")
    monkeypatch.setenv("TTOPT_SIMULATOR", str(tmp_path))

    status, out, err = run("run", result, "--weights", model, "--device", "sim", "-o", tmp_path / "y.npz")

    assert (status, out) == (1, "")
    assert "is no simulator that tt-metal could load" in err
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "y.npz").exists()


def test_values_outside_of_the_limits_are_exit_code_1(
    run: Run, model: Path, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gives(self: object, *_: object) -> dict[str, np.ndarray]:
        return {"logits": np.random.default_rng(0).standard_normal((1, LENGTH, VOCABULARY))}

    monkeypatch.setattr(running._Run, "execute", gives)
    words = ("run", result, "--weights", model, "--device", "sim", "--compare")

    status, out, _ = run(*words, "-o", tmp_path / "y.npz")

    assert status == 1
    assert "bad" in out
    assert (tmp_path / "y.npz").is_file()


def test_a_run_at_full_speed_says_what_a_mock_device_left_out(
    needs_ttnn: None, run: Run, model: Path, result: Path
) -> None:
    words = ("run", result, "--weights", model, "--device", "mock", "--trace", "--queues", "2")

    status, out, _ = run(*words)
    record = json.loads(run(*words, "--format", "json")[1])

    assert status == 0
    assert "at full speed  from a trace, 2 command queue(s)\n" in out
    assert "a mock device captures no trace and waits for no event" in out
    assert record["full_speed"]["queues"] == 2


def test_measured_runs_at_full_speed_are_shown_beside_the_prediction() -> None:
    found = {
        "trace": True, "queues": 1, "trace_bytes": 4096, "checked_runs": 8, "remarks": [], "iterations": 10,
        "predicted_ns": 1_000_000, "per_run_ns": 2_000_000,
        "latency_ns": {"p50": 3_000_000, "p90": 4_000_000, "p99": 5_000_000},
    }  # fmt: skip

    lines = dict(_full_speed_lines(found))

    assert lines == {
        "at full speed": "from a trace, 1 command queue(s); the trace takes 4096 bytes of DRAM",
        "checked": "the outputs of 8 runs are those of plain runs, bit for bit",
        "throughput": "500.0 runs a second, 2.000 ms a run; predicted 1.000 ms without transfers",
        "latency": "p50 3.000 ms, p90 4.000 ms, p99 5.000 ms of 10 runs one by one",
    }
