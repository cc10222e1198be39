"""`ttopt batch` with real workers on a small model."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from optimizer.cli import main


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
    """A shell starts what runs in the background with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupted_batch_keeps_its_results(project_root: Path, mlp_onnx: Path, tmp_path: Path) -> None:
    slow = project_root / "fixtures" / "onnx" / "llama32_1b_16l_dynamo20.onnx"
    command = [sys.executable, "-m", "optimizer.cli", "batch", mlp_onnx, slow, slow.with_stem("bert_qa_s384_dynamo20")]
    process = subprocess.Popen(
        [str(c) for c in [*command, "-o", tmp_path, "--jobs", "1"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        preexec_fn=_heed_interrupts,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "mlp" / "graph.json").is_file():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert "ttopt: interrupted" in err
    assert "Traceback" not in err
    records = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [r["name"] for r in records] == ["mlp"]
