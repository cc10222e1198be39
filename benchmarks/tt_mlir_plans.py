"""tt-mlir's own plans beside ours: the same ops, the same cost model, the same replay on the mock tt-metal.

    python benchmarks/tt_mlir_plans.py PLAN_O2.ops.json[.gz]... [--board n150] [--policy global] [--no-replay] [-o DIR]

Prints one JSON document per plan, on one line, and a table on stderr:

    peer          the plan as one of our annotated graphs: its layouts, configs and copies
    ours          its ops, free of layouts, laid out by us
    ours_cleaned  the same after our own graph clean-ups

`seconds` is what laying out took (`cpu_seconds`: of processor time). `-o DIR` saves each as
DIR/MODEL/{peer,ours,ours_cleaned}/graph.json, which `ttopt price`, `ttopt check` and `ttopt diff` read. Exits 1 if a
plan cannot be read or one of our plans cannot be made; what is wrong with the peer's is part of the document.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tt_mlir.annotated import annotated
from tt_mlir.cleaned import cleaned
from tt_mlir.document import model_name, read_plan
from tt_mlir.judging import completed, judged
from tt_mlir.program import plan_program
from tt_mlir.stripped import stripped

from optimizer.cli.tables import percent_text, table, time_text
from optimizer.device import DeviceSpec
from optimizer.errors import TtoptError
from optimizer.export.registry import emit
from optimizer.ir.graph import Graph
from optimizer.limit.predictions import Totals
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import optimize
from optimizer.result import OptimizedGraph

COLUMNS = ("plan", "ops", "tt-mlir", "ours", "faster", "cleaned", "faster", "refused", "seconds")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("plans", nargs="+", type=Path, metavar="PLAN")
    parser.add_argument("--board", help="default: the board whose figures the plan states")
    parser.add_argument("--policy", default="global")
    parser.add_argument("--no-replay", dest="replay", action="store_false", help="do not run the plans on tt-metal")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="save the annotated graphs")
    args = parser.parse_args()
    records = []
    for path in args.plans:
        records.append(compare(path, args))
        print(json.dumps(records[-1]), flush=True)
    done = [r for r in records if "error" not in r]
    print(table(COLUMNS, [row(r) for r in done]), file=sys.stderr)
    for name in ("ours", "ours_cleaned"):
        if done:
            ratios = [r["peer"]["predicted_time_ns"] / r[name]["predicted_time_ns"] for r in done]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{name}: {percent_text(mean - 1)} faster in geometric mean of {len(ratios)}", file=sys.stderr)
    for r in records:
        if "error" in r:
            print(f"FAILED {r['model']}: {r['error']}", file=sys.stderr)
    return 0 if len(done) == len(records) else 1


def compare(path: Path, args: argparse.Namespace) -> dict[str, Any]:
    """The document of one plan; with `error`, and what is known so far, where it cannot be read or laid out."""
    records: dict[str, Any] = {}
    try:
        document = read_plan(path)
        program = plan_program(document)
        device = DeviceSpec.load(args.board or board_of(document.system))
        options = Options(board=device.name, policy=args.policy)
        model = CachedOpModel(create(options.opmodel, device, options.l1_small_bytes))
        graph = stripped(program)
        ours, seconds = laid_out(graph, device, options)
        peer = annotated(program, device, options, model)
        peer = completed(peer, model, baseline_of(ours))
        records = {
            "peer": judged(peer, model, args.replay),
            "ours": {**judged(ours, model, args.replay), **proof(ours), **seconds},
        }
        tidy, rewrites = cleaned(graph)
        best, seconds = laid_out(tidy, device, options)
        records["ours_cleaned"] = {**judged(best, model, args.replay), **proof(best), **seconds, "rewrites": rewrites}
    except TtoptError as error:
        return {"model": model_name(path), **records, "error": f"{error.code}: {error}"}
    if args.output is not None:
        for name, result in (("peer", peer), ("ours", ours), ("ours_cleaned", best)):
            emit(result, "json", args.output / document.name / name)
    about = {"board": device.name, "policy": args.policy, "foreign_ops": dict(sorted(program.foreign_ops.items()))}
    return {"model": document.name, **about, "notes": program.notes, **records}


def board_of(system: Mapping[str, Any]) -> str:
    """The board that a plan was made for, by its DRAM channels."""
    return "p150" if system.get("num_dram_channels") == DeviceSpec.preset("p150").dram_banks else "n150"


def laid_out(graph: Graph, device: DeviceSpec, options: Options) -> tuple[OptimizedGraph, dict[str, float]]:
    """Our result, through the whole pipeline with its verifier, and what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = optimize(graph, device, options)
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return result, {name: round(value, 2) for name, value in spent.items()}


def baseline_of(result: OptimizedGraph) -> Totals:
    """The same ops with everything in DRAM, as a summary states them."""
    stated = result.summary.baselines
    return Totals(stated.dram_ns, stated.dram_read_bytes_total, stated.dram_write_bytes_total, {}, {}, (), {})


def proof(result: OptimizedGraph) -> dict[str, Any]:
    return {"lower_bound_ns": result.summary.lower_bound_ns, "gap": result.summary.gap}


def row(record: dict[str, Any]) -> list[object]:
    peer, ours, best = (record[name] for name in ("peer", "ours", "ours_cleaned"))
    times = [r["predicted_time_ns"] for r in (peer, ours, best)]
    refused = "/".join("?" if r["refused_ops"] is None else str(r["refused_ops"]) for r in (peer, ours, best))
    return [
        record["model"],
        sum(record["foreign_ops"].values()),
        time_text(times[0]),
        *(text for t in times[1:] for text in (time_text(t), percent_text(times[0] / t - 1))),
        refused,
        f"{ours['seconds']:.1f} {best['seconds']:.1f}",
    ]


if __name__ == "__main__":
    sys.exit(main())
