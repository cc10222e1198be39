"""What `ttopt batch` promises, on the models of `fixtures/onnx`.

    batch.py resume   every model x two boards x four policies: undisturbed, and killed with -9 three times and resumed
    batch.py cluster  the same on a Dask cluster of two workers, of which one is killed in the middle
    batch.py rate     2,000 small graphs: graphs per second of one process, of two, and of one per core

Each prints what it did and ends with status 1 where tables differ in anything but the seconds, or where nothing was
killed in time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from optimizer.batch.store import STORE_NAME

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "fixtures" / "onnx"
SWEEP = ("--sweep", "board=n150,p150", "--sweep", "policy=dram,dfsharding,dfsharding2,global")
KILLED_AFTER = (0.2, 0.5, 0.8)
"""Shares of the jobs that are done when the runs are killed, one after the other."""
DASK = "distributed.cli.dask_"


def batch(output: Path, *arguments: object) -> list[str]:
    command = [sys.executable, "-m", "optimizer.cli", "batch", "-o", output, *arguments]
    return [str(part) for part in command]


def table(folder: Path) -> list[dict[str, Any]]:
    """The records of a batch without what a clock said."""
    records = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def run(output: Path, *arguments: object) -> float:
    """A batch from its beginning to its end; its seconds."""
    began = time.monotonic()
    finished = subprocess.run(batch(output, *arguments), capture_output=True, text=True, check=False)
    if finished.returncode not in (0, 1):
        raise SystemExit(finished.stderr)
    return time.monotonic() - began


def killed(output: Path, after: int, victim: int | None, *arguments: object) -> bool:
    """Run a batch, and once so many jobs are in its store kill it, or the group of another process, with -9.

    Whether that was so before the batch had ended.
    """
    process = subprocess.Popen(batch(output, *arguments), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while process.poll() is None and stored(output) < after:
        time.sleep(0.1)
    in_time = process.poll() is None
    if in_time and victim is None:
        process.kill()
    elif in_time and victim is not None:
        os.killpg(victim, signal.SIGKILL)
    process.wait()
    print(
        f"killed after {after} jobs" if in_time else f"NOT KILLED: it ended before {after} jobs were done", flush=True
    )
    return in_time


def stored(output: Path) -> int:
    """Jobs that a batch has in its store, also while it runs."""
    if not (file := output / STORE_NAME).exists():
        return 0
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=60)) as store:
        try:
            count: int = store.execute("SELECT count(*) FROM finished").fetchone()[0]
        except sqlite3.OperationalError:  # it has just been made
            return 0
    return count


def resume(folder: Path, models: list[Path]) -> bool:
    arguments = [*models, *SWEEP]
    seconds = run(folder / "whole", *arguments)
    whole = table(folder / "whole")
    good = sum(r["ok"] for r in whole)
    print(f"undisturbed: {len(whole)} jobs, {good} good, {seconds:.0f} s", flush=True)
    in_time = [killed(folder / "killed", round(good * share), None, *arguments, "--resume") for share in KILLED_AFTER]
    seconds = run(folder / "killed", *arguments, "--resume")
    same = table(folder / "killed") == whole
    print(f"resumed: {seconds:.0f} s; tables {'equal' if same else 'DIFFER'}")
    return same and all(in_time)


@contextlib.contextmanager
def dask(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Address and workers of a cluster on this machine."""
    started = []

    def start(*arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *map(str, arguments)]
        with (folder / "dask.log").open("ab") as log:
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, process_group=0))
        return started[-1]

    try:
        file = folder / "scheduler.json"
        start(f"{DASK}scheduler", "--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", file)
        while not file.exists() or not file.read_text():
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        at = (address, "--nthreads", 1, "--host", "127.0.0.1", "--no-dashboard")
        yield address, [start(f"{DASK}worker", *at) for _ in range(2)]
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def cluster(folder: Path, models: list[Path]) -> bool:
    arguments = [*models, *SWEEP]
    seconds = run(folder / "here", *arguments)
    here = table(folder / "here")
    print(f"this machine's processes: {len(here)} jobs, {sum(r['ok'] for r in here)} good, {seconds:.0f} s", flush=True)
    with dask(folder) as (address, workers):
        began = time.monotonic()
        in_time = killed(folder / "there", len(here) // 3, workers[0].pid, *arguments, "--cluster", address)
        seconds = time.monotonic() - began
    same = table(folder / "there") == here
    print(f"cluster, one of two workers killed: {seconds:.0f} s; tables {'equal' if same else 'DIFFER'}")
    return same and in_time


def small_graph(number: int) -> dict[str, Any]:
    """A perceptron of two layers whose sizes depend on its number: about as many plans as graphs."""
    rows, inner, outer = 32 * (1 + number % 50), 32 * (1 + number // 50 % 40), 256
    shapes = {"x": (rows, 128), "w1": (128, inner), "h": (rows, inner), "a": (rows, inner), "w2": (inner, outer),
              "y": (rows, outer)}  # fmt: skip
    kinds = {"x": "input", "w1": "parameter", "w2": "parameter"}
    values = {
        name: {"shape": list(shape), "dtype": "bf16", "kind": kinds.get(name, "activation")}
        for name, shape in shapes.items()
    }
    ops = [
        {"id": "fc1", "op": "ttnn.matmul", "inputs": ["x", "w1"], "outputs": ["h"], "attrs": {}},
        {"id": "act", "op": "ttnn.relu", "inputs": ["h"], "outputs": ["a"], "attrs": {}},
        {"id": "fc2", "op": "ttnn.matmul", "inputs": ["a", "w2"], "outputs": ["y"], "attrs": {}},
    ]
    model = {"name": f"small-{number}", "inputs": ["x"], "outputs": ["y"]}
    return {"schema": "ttopt.graph/1", "model": model, "values": values, "ops": ops}


def rate(folder: Path, count: int) -> bool:
    (models := folder / "models").mkdir()
    for number in range(count):
        (models / f"small{number:05}.json").write_text(json.dumps(small_graph(number)), encoding="utf-8")
    tables, alone_s = [], 0.0
    for processes in sorted({1, 2, os.cpu_count() or 1}):
        seconds = run(folder / f"jobs{processes}", models, "--jobs", processes)
        tables.append(table(folder / f"jobs{processes}"))
        good = sum(record["ok"] for record in tables[-1])
        alone_s = alone_s or seconds
        print(f"{processes} process(es): {good} of {count} graphs, {seconds:.1f} s, {count / seconds:.1f} per second, "
              f"x {alone_s / seconds:.2f}", flush=True)  # fmt: skip
    return all(found == tables[0] for found in tables) and all(record["ok"] for record in tables[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("resume", "cluster", "rate"))
    parser.add_argument("models", nargs="*", type=Path, help="of resume and cluster (default: fixtures/onnx)")
    parser.add_argument("--count", type=int, default=2000, help="graphs of rate (default: 2000)")
    parser.add_argument("--folder", type=Path, help="where results stay (default: removed)")
    args = parser.parse_args()
    models = [path.resolve() for path in args.models or sorted(MODELS.glob("*.onnx"))]
    with TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        if any(folder.glob("*")):
            parser.error(f"{folder} is not empty")
        folder.mkdir(parents=True, exist_ok=True)
        if args.what == "rate":
            good = rate(folder, args.count)
        else:
            good = {"resume": resume, "cluster": cluster}[args.what](folder, models)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
