"""Every policy on every fixture graph and board: predicted time, the proven lower bound, seconds.

    python benchmarks/policies.py [--boards n150 p150] [--policies dram dfsharding global] [--models NAME...] [-o FILE]

Every run goes through the whole pipeline, its verifier included. Prints one line per graph and board, then geometric
means. `faster` is the time of the other policy over that of the last one named, less one. Exits 1 if any run fails or
the last policy is slower than another.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

from optimizer.cli.tables import percent_text, table, time_text
from optimizer.errors import TtoptError
from optimizer.options import Options
from optimizer.pipeline import optimize_file

GRAPHS = Path(__file__).resolve().parent.parent / "fixtures" / "onnx"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--boards", nargs="+", default=["n150", "p150"])
    parser.add_argument("--policies", nargs="+", default=["dram", "dfsharding", "global"])
    parser.add_argument("--models", nargs="+", metavar="NAME", help="graphs to run (default: all)")
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    records = []
    for board in args.boards:
        for graph in sorted(GRAPHS.glob("*.onnx")):
            if args.models is None or graph.stem in args.models:
                records.append(compare(graph, board, args.policies))
                print(json.dumps(records[-1]), file=sys.stderr, flush=True)
    if args.output is not None:
        args.output.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
    last = args.policies[-1]
    print(
        table(("graph", "board", *args.policies, "bound", "gap", "seconds"), [row(r, args.policies) for r in records])
    )
    failed = [r for r in records if any("error" in run for run in r["runs"].values())]
    clean = [r for r in records if r not in failed]
    for other in args.policies[:-1]:
        ratios = [r["runs"][other]["time_ns"] / r["runs"][last]["time_ns"] for r in clean]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{last} against {other}: {percent_text(mean - 1)} faster, time {percent_text(1 / mean - 1)}")
    slower = [r for r in clean if any(run["time_ns"] < r["runs"][last]["time_ns"] for run in r["runs"].values())]
    for r in failed + slower:
        print(f"{'FAILED' if r in failed else 'SLOWER'}: {r['graph']} on {r['board']}: {r['runs']}")
    return 1 if failed or slower else 0


def compare(graph: Path, board: str, policies: list[str]) -> dict[str, Any]:
    """One graph on one board under every policy."""
    return {"graph": graph.stem, "board": board, "runs": {policy: run(graph, board, policy) for policy in policies}}


def run(graph: Path, board: str, policy: str) -> dict[str, Any]:
    """Predicted time, bound and wall seconds of a cold run in this process."""
    started = time.perf_counter()
    try:
        summary = optimize_file(graph, Options.from_mapping({"board": board, "policy": policy})).summary
    except TtoptError as error:
        return {"error": str(error)}
    return {
        "time_ns": summary.predicted_time_ns,
        "lower_bound_ns": summary.lower_bound_ns,
        "gap": summary.gap,
        "ops": summary.ops,
        "seconds": round(time.perf_counter() - started, 2),
    }


def row(record: dict[str, Any], policies: list[str]) -> list[object]:
    runs = [record["runs"][policy] for policy in policies]
    times = ["failed" if "error" in r else time_text(r["time_ns"]) for r in runs]
    last = runs[-1]
    bound = last.get("lower_bound_ns")
    proven = ["", ""] if bound is None else [time_text(bound), percent_text(last["gap"])]
    return [record["graph"], record["board"], *times, *proven, last.get("seconds", "")]


if __name__ == "__main__":
    sys.exit(main())
