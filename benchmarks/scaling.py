"""Time, memory and gap on graphs of more and more ops, each in a process of its own.

    python benchmarks/scaling.py [--sizes 300 1000 3000 10000] [--kinds repeated irregular] [--policy global]
                                 [--board n150] [--time-limit SECONDS] [-o FILE]

The graphs are those of `synthetic_graphs.py`. Every run goes through the whole pipeline, its verifier included, and
writes graph.json. Prints a table; `-o` writes all figures, with the seconds of every stage. Exits 1 if a run fails.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from synthetic_graphs import KINDS, synthetic_graph

from optimizer.cli.tables import bytes_text, percent_text, table, time_text
from optimizer.device import DeviceSpec
from optimizer.export.registry import emit
from optimizer.options import Options
from optimizer.pipeline import optimize

COLUMNS = ("graph", "ops", "with copies", "DRAM", "plan", "bound", "gap", "seconds", "of CPU", "peak memory")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[300, 1000, 3000, 10_000])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--policy", default="global")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--time-limit", type=float, help="seconds per graph")
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    parser.add_argument("--only", nargs=2, metavar=("KIND", "OPS"), help="one graph in this process, figures to stdout")
    args = parser.parse_args()
    options = {"board": args.board, "policy": args.policy, "time_limit": args.time_limit}
    if args.only is not None:
        print(json.dumps(measure(args.only[0], int(args.only[1]), options)))
        return 0
    records = []
    for kind in args.kinds:
        for ops in args.sizes:
            records.append(run(kind, ops, sys.argv[1:]))
            print(json.dumps(records[-1]), file=sys.stderr, flush=True)
    if args.output is not None:
        args.output.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    print(table(COLUMNS, [row(r) for r in records if "error" not in r]))
    failed = [r for r in records if "error" in r]
    for record in failed:
        print(f"FAILED {record['kind']} {record['ops']}: {record['error']}")
    return 1 if failed else 0


def measure(kind: str, ops: int, options: dict[str, Any]) -> dict[str, Any]:
    """One graph laid out and written; the seconds of every stage."""
    started = time.perf_counter()
    graph = synthetic_graph(kind, ops)
    built = time.perf_counter() - started
    result = optimize(graph, DeviceSpec.load(options["board"]), Options.from_mapping(options))
    written = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        document = emit(result, "json", Path(folder) / "graph.json").read_bytes()
    stages = {"build": built, **result.timings["stages_s"], "export": time.perf_counter() - written}
    summary = result.summary
    return {
        "ops": len(graph),
        "ops_with_copies": summary.ops,
        "dram_ns": summary.baselines.dram_ns,
        "time_ns": summary.predicted_time_ns,
        "lower_bound_ns": summary.lower_bound_ns,
        "gap": summary.gap,
        "document_bytes": len(document),
        "plan_sha256": hashlib.sha256(json.dumps(result.to_json()["ops"], sort_keys=True).encode()).hexdigest(),
        "stages_s": {name: round(seconds, 3) for name, seconds in stages.items()},
    }


def run(kind: str, ops: int, arguments: list[str]) -> dict[str, Any]:
    """`measure` in a process of its own: its figures, seconds on the clock and of CPU, peak resident bytes."""
    command = [sys.executable, __file__, *arguments, "--only", kind, str(ops)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        actions = [(os.POSIX_SPAWN_DUP2, out.fileno(), 1), (os.POSIX_SPAWN_DUP2, err.fileno(), 2)]
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
        _, wait_status, usage = os.wait4(pid, 0)
        seconds = time.perf_counter() - started
        out.seek(0)
        err.seek(0)
        record = {"kind": kind, "ops": ops, "seconds": round(seconds, 2)}
        record["cpu_seconds"] = round(usage.ru_utime + usage.ru_stime, 2)
        # Linux counts ru_maxrss in KiB.
        record["peak_bytes"] = usage.ru_maxrss * 1024
        if os.waitstatus_to_exitcode(wait_status) != 0:
            return {**record, "error": " ".join(err.read().decode().strip().splitlines()[-2:])}
        return {**record, **json.loads(out.read())}


def row(record: dict[str, Any]) -> list[object]:
    bound = record["lower_bound_ns"]
    return [
        record["kind"],
        record["ops"],
        record["ops_with_copies"],
        time_text(record["dram_ns"]),
        time_text(record["time_ns"]),
        *(("", "") if bound is None else (time_text(bound), percent_text(record["gap"]))),
        f"{record['seconds']:.1f}",
        f"{record['cpu_seconds']:.1f}",
        bytes_text(record["peak_bytes"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
