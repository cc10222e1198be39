"""Whole programs in the emulation, with random weights, beside float64; and, if asked for, on the simulator.

    python benchmarks/emulated_programs.py MODEL... [--board n150] [--policy global] [--simulator] [--seed 0]

Prints correlation, relative error and ratio of every output, and the seconds that the emulation took.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from optimizer import Options, load, optimize
from optimizer.execution.arrays import inputs_of
from optimizer.execution.running import RunOptions, run_result
from optimizer.execution.whole import random_weights
from optimizer.export.ttnn_py import ttnn_program
from optimizer.values.compare import Agreement, compare
from optimizer.values.emulation.graph import emulated_result
from optimizer.values.graph_values import graph_values


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--board", default="n150")
    parser.add_argument("--policy", default="global")
    parser.add_argument("--simulator", action="store_true", help="run the programs there too (docs/values.md)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for model in args.models:
        _one(model, args.board, Options(policy=args.policy), args.simulator, args.seed)
    return 0


def _one(model: Path, board: str, options: Options, simulator: bool, seed: int) -> None:
    result = optimize(load(model), board, options)
    weights = random_weights(result.graph, seed)
    inputs = inputs_of(ttnn_program(result).inputs, None, seed)
    started = time.process_time()
    emulated = emulated_result(result, {**weights, **inputs})
    seconds = time.process_time() - started
    exact = graph_values(result.graph, {**weights, **inputs})
    names = result.graph.outputs
    wanted = dict(zip(names, exact, strict=True))
    ran = run_result(result, weights, inputs, RunOptions("sim", seed), expected=wanted) if simulator else None
    print(f"{model.stem}: {seconds:.1f} s of one core")
    for name, made in zip(names, emulated, strict=True):
        print(f"  {name}: emulation {_text(compare(made, wanted[name]))}")
        if ran is not None:
            there = ran.outputs[name]
            print(f"    simulator {_text(compare(there, wanted[name]))}, between them {_text(compare(made, there))}")


def _text(found: Agreement) -> str:
    return f"PCC {found.pcc:.5f}, relative error {found.relative_error:.4f}, ratio {found.ratio:.4f}"


if __name__ == "__main__":
    raise SystemExit(main())
