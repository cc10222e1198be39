"""Sweeps and resumption, the jobs run in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optimizer.batch.executor import Job, Outcome
from optimizer.batch.plan import parse_sweep, plan_jobs
from optimizer.batch.run import run_batch
from optimizer.errors import TtoptError


class InProcess:
    """An `Executor` without processes; remembers the keys it was given."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}

    def submit(self, key: str, job: Job) -> None:
        self.jobs[key] = job

    def as_completed(self) -> Iterator[Outcome]:
        for key, job in self.jobs.items():
            try:
                yield Outcome(key, value=job())
            except TtoptError as error:
                yield Outcome(key, error=error)

    def cancel(self) -> None:
        self.jobs.clear()

    def close(self) -> None:
        self.cancel()


def run(sources: list[Path], output: Path, resume: bool = False, **options: Any) -> tuple[list[dict[str, Any]], int]:
    """Records, and how many jobs ran."""
    sweep = options.pop("sweep", {})
    executor = InProcess()
    records = run_batch(plan_jobs(sources, options, sweep), executor, output, lambda *_: None, resume)
    return records, len(executor.jobs)


@pytest.fixture
def models(tmp_path: Path, mlp_onnx: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.onnx" for name in ("a", "b", "c")]
    for path in paths:
        path.write_bytes(mlp_onnx.read_bytes())
    paths[1].write_bytes(mlp_onnx.read_bytes()[:2000])
    return paths


def test_a_sweep_gives_a_result_per_point(mlp_onnx: Path, tmp_path: Path) -> None:
    records, ran = run([mlp_onnx], tmp_path, sweep=parse_sweep(["policy=dram,dfsharding", "board=n150,p150"]))
    points = [("dram", "n150"), ("dram", "p150"), ("dfsharding", "n150"), ("dfsharding", "p150")]
    assert ran == 4
    assert [(r["policy"], r["board"]) for r in records] == points
    for record in records:
        document = json.loads((tmp_path / record["name"] / "graph.json").read_text(encoding="utf-8"))
        assert document["device"]["name"] == record["board"]
        assert document["summary"]["predicted_time_ns"] == record["predicted_time_ns"]


def test_resume_runs_what_failed_what_is_new_and_what_is_gone(
    models: list[Path], mlp_onnx: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first, ran = run(models, out)
    assert (ran, [r["ok"] for r in first]) == (3, [True, True, False])
    assert run(models, out, resume=True)[1] == 1
    models[1].write_bytes(mlp_onnx.read_bytes())
    (out / "c" / "graph.json").unlink()
    records, ran = run(models, out, resume=True)
    assert (ran, [r["name"] for r in records]) == (2, ["a", "b", "c"])
    assert run(models, out, resume=True) == (records, 0)


def test_changed_options_are_not_resumed(mlp_onnx: Path, tmp_path: Path) -> None:
    run([mlp_onnx], tmp_path)
    records, ran = run([mlp_onnx], tmp_path, resume=True, policy="dram")
    assert (ran, records[0]["policy"]) == (1, "dram")


def test_without_resume_everything_runs_again(mlp_onnx: Path, tmp_path: Path) -> None:
    run([mlp_onnx], tmp_path)
    assert run([mlp_onnx], tmp_path)[1] == 1
