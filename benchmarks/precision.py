"""Plans within an error budget beside the best plans in bf16: `python benchmarks/precision.py -o FILE`.

One line of JSON per model and board: both predicted times (of one run), the proven gap, seconds, the correlation
predicted and measured by emulation, how many ops took what, and whether mock tt-metal runs the program. Weights and
inputs are random, seed 0, where the models' files hold none. Models that the file has already are left out, so that a
run can go on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from optimizer import Options
from optimizer.errors import TtoptError
from optimizer.export.registry import emit
from optimizer.pipeline import optimize_file
from optimizer.result import OptimizedGraph

FIXTURES = Path(__file__).parents[1] / "fixtures" / "onnx"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="default: all of fixtures/onnx")
    parser.add_argument("--least-pcc", type=float, default=0.99)
    parser.add_argument("--boards", default="n150,p150")
    parser.add_argument("--plans", type=Path, help="folder that the plans and their programs are written to")
    parser.add_argument("-o", "--output", type=Path, required=True, help="lines of JSON are added to it")
    args = parser.parse_args()
    done = _done(args.output)
    for model in args.models or sorted(FIXTURES.glob("*.onnx")):
        for board in args.boards.split(","):
            if (model.stem, board, args.least_pcc) not in done:
                record = _record(model, board, args.least_pcc, args.plans)
                with args.output.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(_line(record), flush=True)


def _done(path: Path) -> set[tuple[str, str, float]]:
    if not path.exists():
        return set()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {(row["model"], row["board"], row["least_pcc"]) for row in rows}


def _record(model: Path, board: str, least_pcc: float, plans: Path | None) -> dict[str, Any]:
    begun, used = time.perf_counter(), time.process_time()
    record: dict[str, Any] = {"model": model.stem, "board": board, "least_pcc": least_pcc}
    try:
        result = optimize_file(model, Options(board=board, least_pcc=least_pcc, check="ttmetal"))
    except TtoptError as error:
        return {**record, "error": str(error)}
    summary, found = result.summary, result.summary.precision
    assert found is not None
    assert summary.check is not None
    if plans is not None:
        for name in ("json", "ttnn-py"):
            emit(result, name, plans / f"{model.stem}.{board}")
    return {
        **record,
        "replayed": summary.check.ok,
        "repaired": len(summary.check.repaired),
        "exact_ns": found.exact_ns,
        "plan_ns": summary.predicted_time_ns,
        "faster": round(found.exact_ns / summary.predicted_time_ns, 4),
        "gap": summary.gap,
        "status": summary.status,
        "predicted_pcc": found.predicted_pcc,
        "measured_pcc": found.measured_pcc,
        "kept": found.kept,
        "samples": found.samples,
        "rounds": found.rounds,
        "given_up": found.given_up,
        "taken": _taken(result),
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(time.process_time() - used, 1),
    }


def _taken(result: OptimizedGraph) -> dict[str, int]:
    """How many ops took which element types and fidelity."""
    taken = (record.reason.get("precision") for record in result.records.values())
    keys = ("result", "weights", "fidelity")
    found = Counter(" ".join(str(row.get(key, "-")) for key in keys) for row in taken if row)
    return dict(sorted(found.items()))


def _line(record: dict[str, Any]) -> str:
    if "error" in record:
        return f"{record['model']} {record['board']}: {record['error']}"
    return (
        f"{record['model']:32} {record['board']} {record['exact_ns'] / 1e3:9.1f} -> {record['plan_ns'] / 1e3:9.1f} us "
        f"{record['faster']:.2f}x gap {100 * record['gap']:.1f} % PCC {record['predicted_pcc']:.5f} predicted, "
        f"{record['measured_pcc']:.5f} measured, {record['rounds']} rounds, {record['seconds']} s"
        f"{'' if record['kept'] else ', NOT KEPT'}"
        f"{'' if record['replayed'] else ', REFUSED by tt-metal'}, {record['repaired']} repaired"
    )


if __name__ == "__main__":
    sys.exit(main())
