"""Two checkouts of the project on every fixture graph, board and policy: predicted time and CPU seconds, side by side.

    git worktree add ../before REVISION
    python benchmarks/revisions.py ../before . [--boards n150 p150] [--policies dram ...] [--models NAME...] [-o FILE]

Each plan is made once by either checkout, one after the other, each in a process of its own; seconds are CPU seconds
of `optimize_file`, imports left out. Exits 1 if any run fails or a plan of the second checkout is slower by more than
0.1 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

GRAPHS = Path(__file__).resolve().parent.parent / "fixtures" / "onnx"
POLICIES = ["dram", "dfsharding", "dfsharding2", "global"]
SLOWER = 1.001

ONE_PLAN = """
import json, sys, time
from pathlib import Path
from optimizer.options import Options
from optimizer.pipeline import optimize_file
graph, board, policy = sys.argv[1:]
started = time.process_time()
summary = optimize_file(Path(graph), Options.from_mapping({"board": board, "policy": policy})).summary
seconds = time.process_time() - started
time_ns = summary["predicted_time_ns"] if isinstance(summary, dict) else summary.predicted_time_ns  # once a dict
print(json.dumps([time_ns, seconds]))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT")
    parser.add_argument("--boards", nargs="+", default=["n150", "p150"])
    parser.add_argument("--policies", nargs="+", default=POLICIES)
    parser.add_argument("--models", nargs="+", metavar="NAME", help="graphs to run (default: all)")
    parser.add_argument("-o", "--output", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for graph in sorted(GRAPHS.glob("*.onnx")):
        if args.models is None or graph.stem in args.models:
            for board in args.boards:
                for policy in args.policies:
                    rows.append(compared(args.checkouts, graph, board, policy))
                    print(json.dumps(rows[-1]), flush=True)
                    if args.output is not None:
                        args.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for policy in args.policies:
        print(of_policy(policy, [row for row in rows if row["policy"] == policy]))
    bad = [row for row in rows if "error" in row or row["after_ns"] > SLOWER * row["before_ns"]]
    for row in bad:
        print("FAILED" if "error" in row else "SLOWER", json.dumps(row))
    return 1 if bad else 0


def compared(checkouts: list[Path], graph: Path, board: str, policy: str) -> dict[str, Any]:
    """The plans of both checkouts: predicted nanoseconds and CPU seconds."""
    row: dict[str, Any] = {"graph": graph.stem, "board": board, "policy": policy}
    for side, checkout in zip(("before", "after"), checkouts, strict=True):
        command = [sys.executable, "-c", ONE_PLAN, str(graph), board, policy]
        environment = {**os.environ, "PYTHONPATH": str(checkout.resolve())}
        done = subprocess.run(command, env=environment, cwd=checkout, capture_output=True, text=True)
        if done.returncode != 0:
            return {**row, "error": f"{side}: {done.stderr.strip().splitlines()[-1]}"}
        row[f"{side}_ns"], seconds = json.loads(done.stdout)
        row[f"{side}_seconds"] = round(seconds, 2)
    return row


def of_policy(policy: str, rows: list[dict[str, Any]]) -> str:
    """One line about all plans of a policy."""
    clean = [row for row in rows if "error" not in row]
    if not clean:
        return f"{policy}: no plans"
    time = geometric_mean([row["after_ns"] / row["before_ns"] for row in clean])
    faster = sum(row["after_ns"] < row["before_ns"] for row in clean)
    slower = sum(row["after_ns"] > row["before_ns"] for row in clean)
    seconds = [sum(row[f"{side}_seconds"] for row in clean) for side in ("before", "after")]
    each = geometric_mean([row["after_seconds"] / row["before_seconds"] for row in clean])
    return (
        f"{policy}: {len(clean)} plans, {faster} faster, {slower} slower, time x {time:.4f} (geometric mean); "
        f"CPU seconds {seconds[0]:.0f} -> {seconds[1]:.0f}, each x {each:.2f} (geometric mean)"
    )


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


if __name__ == "__main__":
    sys.exit(main())
