"""Every fixture graph on every board, each in a process of its own: results, seconds, peak memory.

    python benchmarks/graphs.py [--boards n150 p150] [--policy dfsharding] [--models NAME...] [-o bench-out]

Prints one table and writes `results.json`. Exits 1 if any run fails.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from optimizer.cli.tables import bytes_text, percent_text, table, time_text

ROOT = Path(__file__).resolve().parent.parent
GRAPHS = ROOT / "fixtures" / "onnx"
COLUMNS = ("graph", "board", "ops", "unsupported", "reshards", "spills", "failed chains", "in L1", "DRAM", "plan")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="+", default=["n150", "p150"])
    parser.add_argument("--policy", default="dfsharding")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="graphs to run (default: all)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "bench-out")
    args = parser.parse_args()
    runs = [
        run(graph, board, args.policy, args.output)
        for board in args.boards
        for graph in sorted(GRAPHS.glob("*.onnx"))
        if args.models is None or graph.stem in args.models
    ]
    (args.output / "results.json").write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    print(table((*COLUMNS, "seconds", "peak memory"), [row(r) for r in runs if r["status"] == 0]))
    failed = [r for r in runs if r["status"] != 0]
    for r in failed:
        print(f"FAILED {r['graph']} on {r['board']}, exit code {r['status']}: {r['error']}")
    print(f"{len(runs) - len(failed)} runs verified, {len(failed)} failed")
    return 1 if failed else 0


def run(graph: Path, board: str, policy: str, output: Path) -> dict[str, Any]:
    """One cold run of the command: exit code, summary, wall seconds, peak resident bytes of its process."""
    folder = output / policy / board / graph.stem
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "optimizer.cli", "optimize", str(graph), "--board", board, "--policy", policy]
    command += ["--format", "json", "-o", str(folder)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, err.fileno(), 2)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
        _, wait_status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - started
        out.seek(0)
        err.seek(0)
        status = os.waitstatus_to_exitcode(wait_status)
        record = {"graph": graph.stem, "board": board, "status": status, "seconds": round(seconds, 2)}
        print(f"{graph.stem} on {board}: {seconds:.1f} s", file=sys.stderr)
        if status != 0:
            return {**record, "error": " ".join(err.read().decode().strip().splitlines()[-2:])}
        # Linux counts ru_maxrss in KiB.
        return {**record, "peak_bytes": usage.ru_maxrss * 1024, "summary": json.loads(out.read())}


def row(record: dict[str, Any]) -> list[object]:
    summary = record["summary"]
    return [
        record["graph"],
        record["board"],
        summary["ops"],
        len(summary["unsupported"]),
        summary["reshards"],
        summary["spills"],
        summary["chains_failed"],
        percent_text(summary["l1_resident_fraction"]),
        time_text(summary["baselines"]["dram_ns"]),
        time_text(summary["predicted_time_ns"]),
        f"{record['seconds']:.1f}",
        bytes_text(record["peak_bytes"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
