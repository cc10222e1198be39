"""Sweeps and resumption, the jobs run in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from optimizer.batch.executor import Job, Outcome
from optimizer.batch.plan import parse_sweep, plan_jobs
from optimizer.batch.run import run_batch
from optimizer.errors import OutputError, TtoptError


class InProcess:
    """An `Executor` without processes; remembers the keys it was given."""

    shares_files = True

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}

    def submit(self, key: str, job: Job, _sent_bytes: int = 0, /) -> None:
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
    earlier = options.pop("earlier", None)
    records = run_batch(plan_jobs(sources, options, sweep), executor, output, lambda _: None, sweep, resume, earlier)
    return records, len(executor.jobs)


def named(source: Path, target: Path) -> Path:
    """The same model in a file of other content."""
    model = onnx.load(source)
    model.producer_name = target.stem
    onnx.save(model, target)
    return target


@pytest.fixture
def models(tmp_path: Path, mlp_onnx: Path) -> list[Path]:
    paths = [named(mlp_onnx, tmp_path / f"{name}.onnx") for name in ("a", "b", "c")]
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
    named(mlp_onnx, models[1])
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


def test_what_was_changed_since_is_done_again(mlp_onnx: Path, tmp_path: Path) -> None:
    """Another batch into the same folder writes results of the same names."""
    run([mlp_onnx], tmp_path)
    run([mlp_onnx], tmp_path, policy="dram")
    records, ran = run([mlp_onnx], tmp_path, resume=True)
    document = json.loads((tmp_path / "mlp" / "graph.json").read_text(encoding="utf-8"))
    assert (ran, records[0]["policy"], document["summary"]["policy"]) == (1, "global", "global")


def test_jobs_of_one_content_are_done_once(mlp_onnx: Path, tmp_path: Path) -> None:
    twins = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for twin in twins:
        twin.write_bytes(mlp_onnx.read_bytes())
    records, ran = run(twins, tmp_path / "out")
    assert (ran, [r["name"] for r in records]) == (1, ["a", "b"])
    first, second = ((tmp_path / "out" / name / "graph.json").read_bytes() for name in ("a", "b"))
    assert first == second
    assert run(twins, tmp_path / "out", resume=True) == (records, 0)


def test_what_a_killed_job_left_behind_is_removed(mlp_onnx: Path, tmp_path: Path) -> None:
    (left := tmp_path / ".ttopt-job-x").mkdir()
    (left / "graph.json").write_text("half a")
    run([mlp_onnx], tmp_path)
    found = sorted(p.name for p in tmp_path.iterdir())
    assert found == ["batch.lock", "mlp", "results.csv", "results.json", "results.sqlite"]


def test_a_model_that_cannot_be_read_fails_alone(models: list[Path], tmp_path: Path) -> None:
    models[1].unlink()
    models[1].symlink_to(tmp_path / "nowhere")
    records, _ = run([tmp_path], tmp_path / "out")
    assert [(r["name"], r["ok"]) for r in records] == [("a", True), ("c", True), ("b", False)]
    assert "No such file" in records[2]["error"]["message"]


def test_a_model_that_changes_while_the_batch_runs_fails(models: list[Path], mlp_onnx: Path, tmp_path: Path) -> None:
    jobs = plan_jobs([models[0]], {}, {})
    models[0].write_bytes(mlp_onnx.read_bytes())
    record = run_batch(jobs, InProcess(), tmp_path / "out", lambda _: None, {})[0]
    assert not record["ok"]
    assert "has changed since the batch began" in record["error"]["message"]
    assert not (tmp_path / "out" / "a").exists()


def test_a_folder_that_is_removed_ends_the_batch(models: list[Path], tmp_path: Path) -> None:
    jobs, output = plan_jobs(models, {}, {}), tmp_path / "out"
    with pytest.raises(OutputError, match="it was removed while the batch ran"):
        run_batch(jobs, InProcess(), output, lambda _: shutil.rmtree(output), {})
    assert not output.exists()


def test_tables_of_an_earlier_batch_do_not_stay(mlp_onnx: Path, tmp_path: Path) -> None:
    run([mlp_onnx], tmp_path, sweep=parse_sweep(["policy=dram,dfsharding"]))
    assert (tmp_path / "pivot.csv").exists()
    run([mlp_onnx], tmp_path)
    assert sorted(p.name for p in tmp_path.glob("*.csv")) == ["results.csv"]


def test_results_are_compared_with_those_of_an_earlier_batch(models: list[Path], tmp_path: Path) -> None:
    earlier, _ = run(models[:2], tmp_path / "before", policy="dram")
    records, _ = run([models[0], models[2]], tmp_path / "after", earlier=earlier)
    known, new = records
    assert known["earlier_ns"] == earlier[0]["predicted_time_ns"]
    assert known["change_to_earlier"] == round(known["predicted_time_ns"] / known["earlier_ns"] - 1, 6)
    assert known["change_to_earlier"] == known["change"] < 0
    assert (new["earlier_ns"], new["change_to_earlier"]) == (None, None)


def test_answers_kept_from_one_graph_to_the_next_change_nothing(models: list[Path], tmp_path: Path) -> None:
    run([models[0]], tmp_path / "warm")
    run([models[0]], tmp_path / "again")
    warm, again = (json.loads((tmp_path / name / "a" / "graph.json").read_bytes()) for name in ("warm", "again"))
    assert sum(stage["misses"] for stage in again["timings"]["opmodel"].values()) == 0
    del warm["timings"], again["timings"]
    assert warm == again
