"""`ttopt export`: artifacts of a finished result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from optimizer.cli import main
from tests.cli.conftest import Run

WHOLE = ("mlir", "overrides", "ttnn-py", "report", "perf-csv", "minimalloc", "model-explorer", "visualizer")
"""Emitters that need the result alone."""


@pytest.fixture
def result(result_folder: Path, tmp_path: Path) -> Path:
    """A folder that holds a `graph.json` and nothing else."""
    folder = tmp_path / "mlp.ttopt"
    folder.mkdir()
    shutil.copy(result_folder / "graph.json", folder)
    return folder


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory, mlp_onnx: Path) -> Path:
    """The artifacts that the run of the small model writes."""
    folder = tmp_path_factory.mktemp("emitted")
    assert main(["optimize", str(mlp_onnx), "-o", str(folder), "--emit", ",".join(WHOLE)]) == 0
    return folder


def contents(path: Path) -> dict[str, bytes]:
    """The files that a path is or holds."""
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {p.name: p.read_bytes() for p in files}


@pytest.mark.parametrize("emitter", WHOLE)
def test_an_artifact_of_a_result_is_that_of_its_run(run: Run, result: Path, emitted: Path, emitter: str) -> None:
    status, out, err = run("export", result, "--emit", emitter)
    assert (status, err) == (0, "")
    written = Path(out.removeprefix("wrote ").strip())
    assert contents(written)
    assert contents(written) == contents(emitted / written.relative_to(result))


def test_several_artifacts_of_a_result_file_in_another_folder(run: Run, result: Path, tmp_path: Path) -> None:
    status, out, _ = run(
        "export", result / "graph.json", "--emit", "mlir,overrides", "--emit", "ttnn-py", "-o", tmp_path / "x"
    )
    assert status == 0
    names = ["model.mlir", "overrides.txt", "model_ttnn.py"]
    assert out.splitlines() == [f"wrote {tmp_path / 'x' / name}" for name in names]
    assert {p.name for p in (tmp_path / "x").iterdir()} == {*names, "run_model.py", "full_speed.py"}
    assert [p.name for p in result.iterdir()] == ["graph.json"]


def test_json_format(run: Run, result: Path) -> None:
    status, out, err = run("export", result, "--emit", "mlir", "--format", "json")
    assert (status, json.loads(out), err) == (0, {"files": [str(result / "model.mlir")]}, "")


@pytest.mark.parametrize(("emitter", "name"), [("onnx", "annotated.onnx"), ("weights", "weights.safetensors")])
def test_what_needs_the_model_gets_it(run: Run, mlp_onnx: Path, result: Path, emitter: str, name: str) -> None:
    status, out, _ = run("export", result, "--emit", emitter, "--model", mlp_onnx)
    assert (status, out) == (0, f"wrote {result / name}\n")
    assert (result / name).stat().st_size > 0


@pytest.mark.parametrize("emitter", ["onnx", "weights"])
def test_what_needs_the_model_says_so(run: Run, result: Path, emitter: str) -> None:
    status, out, err = run("export", result, "--emit", emitter)
    assert (status, out) == (2, "")
    assert err.startswith(f"ttopt: error: {emitter}: needs the file of the model that the result was made of")
    assert f"ttopt export RESULT --emit {emitter} --model MODEL.onnx" in err
    assert [p.name for p in result.iterdir()] == ["graph.json"]


@pytest.mark.parametrize("emitter", ["onnx", "weights"])
def test_another_model_is_refused(run: Run, mlp_onnx: Path, result: Path, tmp_path: Path, emitter: str) -> None:
    other = tmp_path / "other.onnx"
    other.write_bytes(mlp_onnx.read_bytes() + b"\x08\x08")
    status, out, err = run("export", result, "--emit", emitter, "--model", other)
    assert (status, out) == (2, "")
    named = json.loads((result / "graph.json").read_text(encoding="utf-8"))["model"]["sha256"]
    assert "other.onnx is not the file that the result was made of" in err
    assert named in err


def test_a_model_that_is_not_there(run: Run, result: Path, tmp_path: Path) -> None:
    status, out, err = run("export", result, "--emit", "onnx", "--model", tmp_path / "gone.onnx")
    assert (status, out) == (2, "")
    assert err == f"ttopt: error: cannot read {tmp_path / 'gone.onnx'}: No such file or directory\n"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("mlri", "unknown emitter 'mlri', did you mean 'mlir'? (one of: mlir, "),
        ("json", "graph.json of a result is there"),
        (",", "nothing to write"),
    ],
)
def test_names_that_write_nothing(run: Run, result: Path, names: str, said: str) -> None:
    status, out, err = run("export", result, "--emit", names)
    assert (status, out) == (2, "")
    assert said in err


def test_a_result_that_is_not_there(run: Run, tmp_path: Path) -> None:
    status, out, err = run("export", tmp_path / "gone", "--emit", "mlir")
    assert (status, out) == (2, "")
    assert err == f"ttopt: error: {tmp_path / 'gone'}: cannot read a result: No such file or directory\n"


def test_a_result_that_does_not_hold(run: Run, result: Path) -> None:
    document = json.loads((result / "graph.json").read_text(encoding="utf-8"))
    name = document["model"]["outputs"][0]
    document["values"][name]["shape"] = [1, 2, 3]
    (result / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    status, out, err = run("export", result, "--emit", "mlir")
    assert status != 0
    assert out == ""
    assert err.startswith("ttopt: error: ")
    assert not (result / "model.mlir").exists()


def test_the_folder_must_be_one(run: Run, result: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    status, _, err = run("export", result, "--emit", "mlir", "-o", tmp_path / "file")
    assert (status, err) == (2, f"ttopt: error: {tmp_path / 'file'}: the output must be a folder\n")
