"""Whether plans within an error budget keep to it for inputs that they were not measured with.

    python benchmarks/other_inputs.py PLAN... [--inputs 16] [--models FOLDER]

PLAN is a `graph.json`, or the folder that holds it. Prints the correlation of the worst part of the outputs
(`optimizer.values.judged`), emulated: what the plan states, and the lowest, mean and highest for other typical inputs
than those that it was measured with. Weights are those of the plan's model in FOLDER, random where its file is not
there or holds none. Exits 1 if a plan that says it keeps its budget does not.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import mean

from optimizer.cli.tables import table
from optimizer.export.model_file import import_options
from optimizer.export.reader import read_result
from optimizer.result import OptimizedGraph
from optimizer.values.compare import compare
from optimizer.values.emulation.graph import emulated_result
from optimizer.values.float_run import FloatRun
from optimizer.values.given import GivenValues, Joined, model_values
from optimizer.values.graph_values import graph_values
from optimizer.values.judged import judged_arrays, judged_parts
from optimizer.values.typical_inputs import SAMPLES, typical_inputs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plans", nargs="+", type=Path, metavar="PLAN")
    parser.add_argument("--inputs", type=int, default=16, help="how many others")
    parser.add_argument("--models", type=Path, default=Path(), help="folder of the models' files")
    args = parser.parse_args()
    rows, missed = [], 0
    for plan in args.plans:
        result = read_result(plan)
        others = _correlations(result, args.models / f"{plan.name}.onnx", args.inputs)
        stated = result.summary_json()["precision"]
        missed += stated["kept"] and min(others) < stated["least_pcc"]
        figures = (stated["measured_pcc"], min(others), mean(others), max(others))
        rows.append([plan.name, stated["kept"], *(f"{x:.5f}" for x in figures)])
        print(rows[-1], flush=True)
    print(table(["plan", "kept", "stated", "others: lowest", "mean", "highest"], rows))
    return 1 if missed else 0


def _correlations(result: OptimizedGraph, model: Path, count: int) -> list[float]:
    """Of the worst part, for samples behind those of a plan."""
    graph, seed = result.graph, result.options.seed
    values = model_values(graph, GivenValues(), model if model.exists() else None, import_options(result), seed)
    run = FloatRun(graph, values.arrays)
    parts, found = judged_parts(graph, run.values()), []
    for sample in range(SAMPLES, SAMPLES + count):
        given = Joined(typical_inputs(graph, seed, sample), values.arrays)
        pair = [
            judged_arrays(parts, graph.outputs, partial(compute, given))
            for compute in (partial(emulated_result, result), partial(graph_values, graph))
        ]
        found.append(min(compare(made, exact).as_pcc() for made, exact in zip(*pair, strict=True)))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
