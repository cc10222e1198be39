"""Emitted programs of whole models executed with numpy, against onnxruntime on the same random weights.

    python benchmarks/program_values.py [MODEL...] [--boards n150] [--policies dram global] [--copies] [--bf16]

The text of `--emit ttnn-py` runs on the stand-in of ttnn that the tests use (`tests/export/ttnn_standin`), which holds
every call to the signatures of ttnn 0.81.1, every tensor to its plan, and every read to buffers that nobody freed.
Prints one line per run: Pearson correlation, relative error and least-squares ratio of the worst output, all beyond
what the outputs have in common with those of other inputs; how far those are, relative (`spread`: of 1e-5, rounding
hides everything); buffers left behind.
`--copies`: ops with nothing to do copy instead of handing back their operand. `--bf16`: results are rounded to
bfloat16 after every op; then only refusals and leaks count. Exit code 1 if any program is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import onnx

from optimizer.cli.tables import table
from optimizer.errors import TtoptError
from optimizer.options import Options
from optimizer.pipeline import optimize_file

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "tests" / "importers"), str(ROOT / "tests" / "export")]
from program_witness import Case, case, executed  # noqa: E402 - the witness is the tests'
from ttnn_standin import Refused, Unmodelled  # noqa: E402

COLUMNS = ("model", "board", "policy", "calls", "PCC", "error", "ratio", "spread", "leaks", "seconds", "result")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path, help="default: fixtures/onnx")
    parser.add_argument("--boards", nargs="+", default=["n150"])
    parser.add_argument("--policies", nargs="+", default=["dram", "global"])
    parser.add_argument("--copies", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows = []
    for path in args.models or sorted((ROOT / "fixtures" / "onnx").glob("*.onnx")):
        given = case(onnx.load(path, load_external_data=False), seed=args.seed)
        for board in args.boards:
            for policy in args.policies:
                options = Options(board=board, policy=policy)
                rows.append(run(path, options, given, not args.copies, args.bf16))
                print(*rows[-1], file=sys.stderr, flush=True)
    print(table(COLUMNS, rows))
    return 0 if all(row[-1] == "right" for row in rows) else 1


def run(path: Path, options: Options, given: Case, aliasing: bool, rounding: bool) -> tuple[str, ...]:
    """One row of the table."""
    start = time.perf_counter()
    head = (path.stem, str(options.board), options.policy)
    try:
        found = executed(optimize_file(path, options), given, aliasing=aliasing, rounding=rounding)
    except (Refused, Unmodelled, TtoptError) as error:
        seconds = f"{time.perf_counter() - start:.1f}"
        return (*head, "", "", "", "", "", "", seconds, f"{type(error).__name__}: {error}")
    worst = min(found.outputs, key=lambda output: (output.good, output.pcc))
    right = not found.run.leaks if rounding else found.good
    return (
        *head,
        str(sum(found.calls.values())),
        f"{worst.pcc:.6f}",
        f"{worst.error:.1e}",
        f"{worst.ratio:.5f}",
        f"{given.spread:.2f}",
        str(len(found.run.leaks)),
        f"{time.perf_counter() - start:.1f}",
        "right" if right else "WRONG",
    )


if __name__ == "__main__":
    sys.exit(main())
