"""Every fixture graph replayed from end to end on the real tt-metal (mock devices).

    python benchmarks/replay.py [MODEL...] [--boards n150 p150] [--policies dram dfsharding] [--repair]

Prints one line per run: ops refused or with results other than stated, and the predicted peak L1 of every step
against the real one (exact steps, steps predicted below the real peak, the worst shortfall). Without `--repair`
every plan is taken as it comes. Exits 1 if an op is refused, if fewer than 95 % of all steps are exact, or if a
step is predicted more than 1 % below the real peak.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from optimizer.answers.checking import check_record
from optimizer.cli.tables import percent_text, table
from optimizer.options import Options
from optimizer.pipeline import optimize_file

ROOT = Path(__file__).resolve().parent.parent
LEAST_EXACT = 0.95
MOST_BELOW = 0.01
COLUMNS = (
    "graph", "board", "policy", "ops", "refused", "steps", "exact", "below", "addresses", "worst", "at", "plan s",
    "replay s",
)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="default: fixtures/onnx")
    parser.add_argument("--boards", nargs="+", default=["n150", "p150"])
    parser.add_argument("--policies", nargs="+", default=["dram", "dfsharding"])
    parser.add_argument("--repair", action="store_true", help="solve again without what is refused")
    args = parser.parse_args()
    models = args.models or sorted((ROOT / "fixtures" / "onnx").glob("*.onnx"))
    runs = [
        run(model, Options(board=board, policy=policy, check="ttmetal" if args.repair else None))
        for policy in args.policies
        for board in args.boards
        for model in models
    ]
    print(table(COLUMNS, [row(r) for r in runs]))
    return verdict(runs)


def run(model: Path, options: Options) -> dict[str, Any]:
    """One graph optimised, then replayed."""
    started = time.perf_counter()
    result = optimize_file(model, options)
    planned = time.perf_counter()
    checked = check_record(result, "ttmetal")
    seconds = (planned - started, time.perf_counter() - planned)
    record = {"graph": model.stem, "board": options.board, "policy": options.policy, "seconds": seconds, **checked}
    check = result.summary.check
    repaired = () if check is None else check.repaired
    for error in (*checked["errors"], *({"op": r.op, "message": f"repaired: {r.message}"} for r in repaired)):
        print(f"{model.stem} {options.board} {options.policy}: {error['op']}: {error['message']}")
    print(f"{model.stem} {options.board} {options.policy}: {sum(seconds):.1f} s", file=sys.stderr)
    return record


def row(record: dict[str, Any]) -> list[object]:
    l1 = record["l1"]
    plan, replayed = record["seconds"]
    return [
        *(record[key] for key in ("graph", "board", "policy", "steps")),
        len(record["errors"]),
        *(l1[key] for key in ("steps", "exact", "below")),
        f"{l1['placed'] - l1['elsewhere']} of {l1['placed']}",
        percent_text(l1["worst_below"]),
        l1["worst_below_op"] or "-",
        f"{plan:.1f}",
        f"{replayed:.1f}",
    ]


def verdict(runs: list[dict[str, Any]]) -> int:
    steps = sum(r["l1"]["steps"] for r in runs)
    exact = sum(r["l1"]["exact"] for r in runs) / max(1, steps)
    worst = max((r["l1"]["worst_below"] for r in runs), default=0.0)
    clean = sum(r["ok"] for r in runs)
    placed, elsewhere = (sum(r["l1"][key] for r in runs) for key in ("placed", "elsewhere"))
    print(f"{clean} of {len(runs)} replay from end to end")
    print(f"{placed - elsewhere} of {placed} results in L1 lie at the predicted address")
    print(f"peak L1 exact in {percent_text(exact)} of {steps} steps; at worst {percent_text(worst)} below the real one")
    return 0 if clean == len(runs) and exact >= LEAST_EXACT and worst <= MOST_BELOW else 1


if __name__ == "__main__":
    sys.exit(main())
