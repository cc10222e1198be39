"""`ttopt batch` with real workers on a small model."""

from __future__ import annotations

import csv
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from optimizer.cli import main

LONG_SECONDS = 300
LARGEST_FILE = 64 * 1024


@pytest.fixture
def models(tmp_path: Path, mlp_onnx: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.onnx").write_bytes(mlp_onnx.read_bytes())
    (folder / "b.onnx").write_bytes(mlp_onnx.read_bytes()[:2000])
    return folder


def batch(*arguments: object) -> int:
    return main(["batch", *(str(a) for a in arguments)])


@pytest.mark.slow
def test_a_corrupt_file_fails_alone_and_last(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert batch(models, "-o", tmp_path / "out", "--jobs", 2) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-2] == "2 done, 1 failed"
    assert printed.out.splitlines()[-1].startswith("FAILED b: not an ONNX model")
    assert "[3/3]" in printed.err
    records = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert [(r["name"], r["ok"]) for r in records] == [("a", True), ("c", True), ("b", False)]
    assert records[2]["error"]["code"] == "bad-format"
    with (tmp_path / "out" / "results.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["predicted_time_ns"] == str(records[0]["predicted_time_ns"])
    assert rows[2]["error"].startswith("not an ONNX model")
    for name in ("a", "c"):
        document = json.loads((tmp_path / "out" / name / "graph.json").read_text(encoding="utf-8"))
        assert document["model"]["name"] == "mlp"


def _heed_interrupts() -> None:
    """A shell starts what runs in the background with SIGINT ignored, `nohup` with SIGHUP; children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.slow
def test_an_interrupted_batch_keeps_its_results(
    project_root: Path, mlp_onnx: Path, tmp_path: Path, number: signal.Signals
) -> None:
    slow = project_root / "fixtures" / "onnx" / "llama32_1b_16l_dynamo20.onnx"
    command = [sys.executable, "-m", "optimizer.cli", "batch", mlp_onnx, slow, slow.with_stem("bert_qa_s384_dynamo20")]
    process = subprocess.Popen(
        [str(c) for c in [*command, "-o", tmp_path, "--jobs", "1"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,
    )
    assert process.stderr is not None
    assert process.stderr.readline().startswith("[1/3] mlp done")
    workers = psutil.Process(process.pid).children(recursive=True)
    assert workers
    process.send_signal(number)
    out, err = process.communicate(timeout=LONG_SECONDS)
    assert (process.returncode, out, err) == (130, "", "ttopt: interrupted\n")
    assert psutil.wait_procs(workers, timeout=LONG_SECONDS)[1] == []
    records = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [r["name"] for r in records] == ["mlp"]


@pytest.mark.slow
def test_a_batch_that_was_killed_goes_on(
    project_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs = [project_root / "fixtures" / "graphs" / f"{name}.json" for name in ("attention", "fork", "opaque")]
    arguments = [*graphs, "--sweep", "policy=dram,dfsharding,global", "--sweep", "board=n150,p150"]
    batch(*arguments, "-o", tmp_path / "whole")
    command = [sys.executable, "-m", "optimizer.cli", "batch", *arguments, "-o", tmp_path / "killed"]
    process = subprocess.Popen([str(c) for c in command], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for _ in range(7):
        assert "[" in process.stderr.readline()
    process.kill()
    process.communicate()
    capsys.readouterr()
    batch(*arguments, "-o", tmp_path / "killed", "--resume")
    assert capsys.readouterr().err.count(" kept, ") >= 7
    whole, resumed = (_table(tmp_path / name) for name in ("whole", "killed"))
    assert whole == resumed
    assert (tmp_path / "whole" / "pivot.csv").read_bytes() == (tmp_path / "killed" / "pivot.csv").read_bytes()


def _table(folder: Path) -> list[dict[str, object]]:
    """The results table without what a clock said."""
    records = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


@pytest.mark.slow
def test_a_sweep_is_shown_side_by_side(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert batch(models, "-o", tmp_path / "out", "--sweep", "policy=dram,dfsharding") == 1
    blocks = capsys.readouterr().out.split("\n\n")
    assert [block.split("  ")[0] for block in blocks[:3]] == ["model", "predicted time", "fastest for its L1 peak"]
    assert blocks[1].splitlines()[-1].startswith("geometric mean  x 1.000")
    assert blocks[3].splitlines()[0] == "4 done, 2 failed"
    assert len(blocks[3].splitlines()) == 2
    assert blocks[3].splitlines()[1].startswith("FAILED b (2 points): not an ONNX model")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "'0' is no whole number from 1"),
        (["--deadline", "0"], "'--deadline' must be positive"),
        (["--cluster", "tcp://127.0.0.1:1"], "no Dask scheduler answers at 'tcp://127.0.0.1:1'"),
        (["--cluster", "nonsense", "--jobs", "2"], "'--jobs' is for this machine's processes"),
        (["--against", "nowhere"], "no results of a batch"),
        (["--sweep", "polcy=dram"], "unknown option 'polcy', did you mean 'policy'?"),
        (["--sweep", "policy=dram,drum"], "unknown policy 'drum', did you mean 'dram'?"),
    ],
)
def test_what_a_batch_cannot_do_is_refused(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("optimizer.batch.cluster.CONNECT_SECONDS", 1)
    assert batch(models, "-o", tmp_path / "out", *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_results_do_not_lie_among_the_models(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(models.iterdir())
    assert batch(models, "-o", models / ".." / models.name) == 2
    assert "results would lie among the models" in capsys.readouterr().err
    assert sorted(models.iterdir()) == before


@pytest.mark.slow
def test_a_disk_that_is_full_fails_with_its_reason(mlp_onnx: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: tables and store fit, the report does not."""
    command = [sys.executable, "-m", "optimizer.cli", "batch", mlp_onnx, "-o", tmp_path / "out", "--emit", "report"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))

    ended = subprocess.run([str(c) for c in command], capture_output=True, text=True, preexec_fn=limit, check=False)
    assert ended.returncode == 1
    assert "FAILED mlp: " in ended.stdout
    assert "cannot write: File too large" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "out" / "mlp").exists()
