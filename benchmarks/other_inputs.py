"""Whether plans within an error budget keep to it for inputs that they were not measured with.

    python benchmarks/other_inputs.py PLAN... [--inputs 8] [--weights-seed 0]

PLAN is a `graph.json`, or the folder that holds it. Prints the correlation of the worst output, emulated, with random
weights: of the inputs of seed 0, which a plan without `--calibration` was measured with, and the lowest, mean and
highest of others.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean

from optimizer.cli.tables import table
from optimizer.execution.arrays import inputs_of
from optimizer.export.reader import read_result
from optimizer.export.ttnn_py import ttnn_program
from optimizer.result import OptimizedGraph
from optimizer.values.compare import compare
from optimizer.values.emulation.graph import emulated_result
from optimizer.values.given import Joined
from optimizer.values.graph_values import graph_values
from optimizer.values.random_arrays import random_weights


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", type=Path, metavar="PLAN")
    parser.add_argument("--inputs", type=int, default=8, help="how many others")
    parser.add_argument("--weights-seed", type=int, default=0)
    args = parser.parse_args()
    rows = []
    for plan in args.plans:
        found = _correlations(read_result(plan), args.inputs, args.weights_seed)
        others = found[1:]
        rows.append([plan.name, *(f"{x:.5f}" for x in (found[0], min(others), mean(others), max(others)))])
        print(rows[-1], flush=True)
    print(table(["plan", "measured with", "others: lowest", "mean", "highest"], rows))
    return 0


def _correlations(result: OptimizedGraph, count: int, weights_seed: int) -> list[float]:
    """Of the worst output, for the inputs of seeds 0 to `count`."""
    weights, entries = random_weights(result.graph, weights_seed), ttnn_program(result).inputs
    found = []
    for seed in range(count + 1):
        given = Joined(weights, inputs_of(entries, None, seed))
        pairs = zip(emulated_result(result, given), graph_values(result.graph, given), strict=True)
        found.append(min(compare(made, exact).as_pcc() for made, exact in pairs if exact.dtype.kind == "f"))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
