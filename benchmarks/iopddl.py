"""The solver on instances of the IOPDDL contest (ASPLOS / EuroSys 2025): value, proven bound, seconds.

    python benchmarks/iopddl.py INSTANCE.json[.gz]... [--work-limit SECONDS]

An instance has nodes with costs and memory of each option and a half-open live interval, edges with a cost matrix, and
a limit of memory. Costs of 1e17 and more exclude. Prints one JSON object per instance; the value is summed again from
the file by code of this module's own. Exits 1 if an instance ends without a solution.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.solver.graph_cpsat import solve_cpsat
from optimizer.solver.graph_problem import FORBIDDEN, GraphProblem, PairCost, Table, Usage

EXCLUDED = 10**17


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instances", nargs="+", type=Path)
    parser.add_argument("--work-limit", type=float, help="deterministic seconds of search per instance")
    args = parser.parse_args()
    solved = True
    for path in args.instances:
        started = time.perf_counter()
        document = read(path)
        result = solve_cpsat(problem_of(document), work_limit=args.work_limit, reproducible=False)
        record: dict[str, Any] = {"instance": path.name, "value": None, "bound": result.lower_bound}
        if result.chosen is not None:
            record["value"] = recount(document, result.chosen)
            record["gap"] = result.gap
        solved = solved and result.chosen is not None
        print(json.dumps({**record, "seconds": round(time.perf_counter() - started, 2)}), flush=True)
    return 0 if solved else 1


def read(path: Path) -> dict[str, Any]:
    """The `problem` object of a file, gzipped or not."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    problem: dict[str, Any] = json.loads(text)["problem"]
    return problem


def problem_of(document: dict[str, Any]) -> GraphProblem:
    """The instance in the solver's terms; time is renumbered to the steps at which something begins."""
    nodes, edges = document["nodes"], document["edges"]
    costs = [_clipped(row) for row in nodes["costs"]]
    pairs = []
    for ends, flat in zip(edges["nodes"], edges["costs"], strict=True):
        a, b = ends
        matrix = _clipped(flat).reshape(len(costs[a]), len(costs[b]))
        if a == b:
            costs[a] = np.minimum(costs[a] + matrix.diagonal(), FORBIDDEN)
        else:
            pairs.append(PairCost(a, b, matrix))
    limit = document.get("usage_limit")
    if limit is None:
        return GraphProblem(tuple(costs), tuple(pairs))
    moments = sorted({first for first, last in nodes["intervals"] if first < last})
    usages = []
    for (first, last), sizes in zip(nodes["intervals"], nodes["usages"], strict=True):
        begin, end = int(np.searchsorted(moments, first)), int(np.searchsorted(moments, last)) - 1
        usages.append(tuple((Usage(begin, end, size),) if begin <= end and size else () for size in sizes))
    return GraphProblem(tuple(costs), tuple(pairs), tuple(usages), (limit,) * len(moments))


def _clipped(values: list[int]) -> Table:
    row = np.asarray(values, dtype=np.int64)
    return np.where(row >= EXCLUDED, FORBIDDEN, row)


def recount(document: dict[str, Any], chosen: tuple[int, ...]) -> int:
    """The cost of a choice from the file itself; AssertionError if it takes too much memory."""
    nodes, edges = document["nodes"], document["edges"]
    total = sum(int(row[i]) for row, i in zip(nodes["costs"], chosen, strict=True))
    for (a, b), flat in zip(edges["nodes"], edges["costs"], strict=True):
        total += int(flat[chosen[a] * len(nodes["costs"][b]) + chosen[b]])
    if document.get("usage_limit") is not None:
        changes: dict[int, int] = {}
        for (first, last), sizes, i in zip(nodes["intervals"], nodes["usages"], chosen, strict=True):
            if first < last:
                changes[first] = changes.get(first, 0) + sizes[i]
                changes[last] = changes.get(last, 0) - sizes[i]
        used = 0
        for moment in sorted(changes):
            used += changes[moment]
            assert used <= document["usage_limit"], f"{used} bytes at {moment}"
    return total


if __name__ == "__main__":
    sys.exit(main())
