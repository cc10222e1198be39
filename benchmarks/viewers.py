"""Opens exported results in the viewers that they are made for, and compares what those say with the plan.

    python benchmarks/viewers.py [MODEL...] [--board n150] [--venvs DIR]

Each viewer is installed from PyPI into an environment of its own under DIR, which is outside the checkout and used
again: ttnn-visualizer (its HTTP API on `visualizer/`), tt-perf-report (on the CSV), Model Explorer (its own records of
graph and overlays, its server), Netron (serves the annotated ONNX file). What they answer is compared with the result
and with `ttopt timeline`; MiniMalloc's CSV is read by a sweep that shares nothing with its writer. Prints a line per
check, and ends with status 1 if any fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from viewing import explorer, tables, visualizer
from viewing.site import Checks

from optimizer.options import Options
from optimizer.pipeline import optimize_file

MODELS = Path(__file__).resolve().parent.parent / "fixtures" / "onnx"
DEFAULT = ("resnet50_b1_legacy17.onnx", "llama32_1b_2l_dynamo20.onnx")
VENVS = Path(tempfile.gettempdir()) / "ttopt-viewers"


def viewed(model: Path, board: str, environments: Path, scratch: Path, checks: Checks) -> None:
    result = optimize_file(model, Options(board=board))
    paths = {
        name: result.emit(name, scratch) for name in ("visualizer", "perf-csv", "model-explorer", "minimalloc", "onnx")
    }
    print(f"\n{model.name} on {board}: {len(list(result.graph.ops()))} ops")
    print(" ttnn-visualizer")
    visualizer.check(result, paths["visualizer"], environments, scratch, checks)
    print(" tt-perf-report")
    tables.perf_report(result, paths["perf-csv"], environments, scratch, checks)
    print(" Model Explorer")
    explorer.check(result, paths["model-explorer"], environments, scratch, checks)
    print(" MiniMalloc")
    tables.minimalloc(result, paths["minimalloc"], checks)
    print(" ONNX and Netron")
    tables.onnx_model(paths["onnx"], environments, scratch, checks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, default=[MODELS / name for name in DEFAULT])
    parser.add_argument("--board", default="n150")
    parser.add_argument("--venvs", type=Path, default=VENVS, help=f"environments of the viewers ({VENVS})")
    args = parser.parse_args()
    checks = Checks()
    for model in args.models:
        with tempfile.TemporaryDirectory() as scratch:
            viewed(model, args.board, args.venvs.resolve(), Path(scratch), checks)
    print(f"\n{checks.failed} checks failed" if checks.failed else "\nevery check holds")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
