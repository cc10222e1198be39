"""Does an import keep the meaning of a model? Runs ONNX files with random weights, in onnxruntime and as imported.

    python benchmarks/meaning.py fixtures/onnx/*.onnx [--limit 1e-3] [--no-fuse]

Prints one line per model: largest error of any output element relative to the largest output, seconds,
ops. Exit code 1 if any error exceeds the limit.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path

import onnx


def main() -> int:
    parser = argparse.ArgumentParser(description="compare imported models with onnxruntime")
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--limit", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-fuse", action="store_true", help="only the required passes")
    options = parser.parse_args()
    location = Path(__file__).parents[1] / "tests" / "importers" / "witness.py"
    spec = importlib.util.spec_from_file_location("witness", location)
    assert spec is not None
    assert spec.loader is not None
    witness = importlib.util.module_from_spec(spec)
    sys.modules["witness"] = witness
    spec.loader.exec_module(witness)
    worst = 0.0
    for path in options.models:
        start = time.perf_counter()
        proto = onnx.load(path, load_external_data=False)
        result = witness.compare(proto, seed=options.seed, fuse=not options.no_fuse)
        seconds = time.perf_counter() - start
        worst = max(worst, result.error)
        mark = "" if result.error <= options.limit else "  EXCEEDS THE LIMIT"
        ops = len(result.model.graph.run_ops())
        print(f"{path.stem:36s} error {result.error:.2e}  {ops:4d} ops  {seconds:6.1f} s{mark}", flush=True)
    return 0 if worst <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
