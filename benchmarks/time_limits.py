"""How well a time limit is kept on hostile graphs, by the command and over HTTP.

    python benchmarks/time_limits.py [--graphs NAME ...] [--modes plain kernels budget replay] [--limits 2 5 20]
                                     [--doors command http] [--jobs 1] [-o FILE]

The graphs are those of `hostile_graphs.py`. Every run is a process of its own, or a request to a server that this
program starts. The seconds are those that a user waits, the start of the process included. A run may end with a plan,
which has to be verified, or (exit code 3, HTTP 504) with nothing to return. Exits 1 where a run took more than a tenth,
and more than 2 s, longer than its limit, or ended in any other way. `-o` writes every run as a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hostile_graphs import GRAPHS

from optimizer.cli.tables import table

MODES: dict[str, dict[str, Any]] = {
    "plain": {},
    "kernels": {"fuse_kernels": True},
    "budget": {"least_pcc": 0.99},
    "replay": {"check": "ttmetal"},
}
TTOPT = (sys.executable, "-m", "optimizer.cli")
os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # no run may compile its imports again
SLACK_SHARE, SLACK_S = 0.1, 2.0
PATIENCE_S = 120.0
"""Past its limit, after which a run is ended."""
NOTHING = "time-limit"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", nargs="+", choices=GRAPHS, default=list(GRAPHS), metavar="NAME")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--limits", nargs="+", type=float, default=[2.0, 5.0, 20.0])
    parser.add_argument("--doors", nargs="+", choices=("command", "http"), default=["command", "http"])
    parser.add_argument("--jobs", type=int, default=1, help="runs at once")
    parser.add_argument("-o", "--output", type=Path, help="write every run as a line of JSON")
    args = parser.parse_args()
    runs = [
        (door, mode, limit, name)
        for door in args.doors for mode in args.modes for limit in args.limits for name in args.graphs
    ]  # fmt: skip
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ttopt-limits-")))
        for name in args.graphs:
            (folder / f"{name}.onnx").write_bytes(GRAPHS[name]())
        port = stack.enter_context(server(folder, args.jobs)) if "http" in args.doors else 0
        output = stack.enter_context(args.output.open("w", encoding="utf-8")) if args.output else None

        def one(run: tuple[str, str, float, str]) -> dict[str, Any]:
            door, mode, limit, name = run
            model = folder / f"{name}.onnx"
            ask: Callable[[], dict[str, Any]] = (
                (lambda: by_command(model, mode, limit))
                if door == "command"
                else (lambda: by_http(port, model, mode, limit))
            )
            started = time.monotonic()
            ended = ask()
            seconds = time.monotonic() - started
            record = {"door": door, "mode": mode, "limit": limit, "graph": name, "seconds": round(seconds, 2), **ended}
            record["late"] = seconds > limit + max(SLACK_SHARE * limit, SLACK_S)
            if output is not None:
                print(json.dumps(record), file=output, flush=True)
            print(json.dumps(record), file=sys.stderr, flush=True)
            return record

        with ThreadPoolExecutor(args.jobs) as pool:
            records = list(pool.map(one, runs))
    return report(records)


def report(records: list[dict[str, Any]]) -> int:
    """The table, by door, mode and limit; 1 if a run was late or failed."""
    rows = []
    for key in dict.fromkeys((r["door"], r["mode"], r["limit"]) for r in records):
        group = [r for r in records if (r["door"], r["mode"], r["limit"]) == key]
        over = max((r["seconds"] - r["limit"] for r in group), default=0.0)
        counts = [sum(r["end"] == end for r in group) for end in ("whole", "stopped", NOTHING)]
        other = len(group) - sum(counts)
        rows.append((*key, len(group), *counts, other, f"{over:+.1f}", sum(r["late"] for r in group)))
    print(
        table(("door", "mode", "limit s", "runs", "whole", "stopped", "nothing", "failed", "most over s", "late"), rows)
    )
    bad = [r for r in records if r["late"] or r["end"] not in ("whole", "stopped", NOTHING)]
    for record in bad:
        print(f"BAD {json.dumps(record)}")
    return 1 if bad else 0


def by_command(model: Path, mode: str, limit: float) -> dict[str, Any]:
    """How `ttopt optimize` ended."""
    flags = [
        f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in MODES[mode].items()
    ]
    with tempfile.TemporaryDirectory(prefix="ttopt-limit-") as out:
        command = [*TTOPT, "optimize", str(model), "-o", out, "--time-limit", str(limit), "--format", "json", *flags]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            _, stderr = process.communicate(timeout=limit + PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return {"end": "never"}
        if process.returncode == 3:
            return {"end": NOTHING, "said": stderr.strip().splitlines()[-1]}
        if process.returncode not in (0, 1) or not (Path(out) / "graph.json").exists():
            return {"end": f"exit {process.returncode}", "said": stderr[-400:]}
        return summarised(json.loads((Path(out) / "graph.json").read_text(encoding="utf-8")))


def by_http(port: int, model: Path, mode: str, limit: float) -> dict[str, Any]:
    """How `POST /v1/optimize` ended."""
    query = "&".join(f"{name}={str(value).lower()}" for name, value in {**MODES[mode], "time_limit": limit}.items())
    url = f"http://127.0.0.1:{port}/v1/optimize?{query}&wait=200"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, model.read_bytes()), timeout=limit + PATIENCE_S
        ) as answer:
            return summarised(json.load(answer)) if answer.status == 200 else {"end": f"HTTP {answer.status}"}
    except urllib.error.HTTPError as error:
        problem = json.load(error)
        end = NOTHING if problem.get("code") == NOTHING else f"HTTP {error.code}"
        return {"end": end, "said": problem.get("detail")}
    except TimeoutError:
        return {"end": "never"}


def summarised(document: dict[str, Any]) -> dict[str, Any]:
    """What matters of a result."""
    summary = document["summary"]
    return {
        "end": "stopped" if any("time limit" in warning for warning in summary["warnings"]) else "whole",
        "time_ns": summary["predicted_time_ns"],
        "dram_ns": summary["baselines"]["dram_ns"],
        "stages_s": document["timings"]["stages_s"],
    }


@contextmanager
def server(folder: Path, workers: int) -> Iterator[int]:
    """A service of its own on a free port, with programs of clients allowed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    settings = {
        "TTOPT_STORE": f"sqlite:///{folder}/jobs.sqlite", "TTOPT_ALLOW_TTMETAL": "1", "TTOPT_WORKERS": str(workers),
        "TTOPT_WAIT_SECONDS": "200",
    }  # fmt: skip
    process = subprocess.Popen(
        [*TTOPT, "serve", "--port", str(port)], env={**os.environ, **settings}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except OSError:
                time.sleep(0.2)
        yield port
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
