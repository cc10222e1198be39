"""The solver on instances of the IOPDDL contest (ASPLOS / EuroSys 2025): value, proven bound, seconds.

    python benchmarks/iopddl.py INSTANCE.json[.gz]... [--seconds 300] [--prices 20] [--groups 250] [--work 120]

An instance has nodes with costs and memory of each option and a half-open live interval, edges with a cost matrix, and
a limit of memory. Costs of 1e17 and more exclude. In turn: presolve, prices of memory for a bound and a first choice,
CP-SAT below that choice, groups of nodes chosen again, and CP-SAT once more. Every step is limited by
counts; `--seconds` only cuts short what takes longer. Prints one JSON object per instance and, with -v, every step; the
value is summed again from the file by code of this module's own. Exits 1 if an instance ends without a solution.
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
from reference_solvers.graph_lns import improved

from optimizer.solver.graphs.graph_cpsat import solve_cpsat
from optimizer.solver.graphs.graph_presolve import Presolved, presolve
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution, PairCost
from optimizer.solver.graphs.lagrangian import maximise
from optimizer.solver.graphs.usages import Table, Usage

EXCLUDED = 10**17
SHARE = 4
"""CP-SAT gets this part of its work before the groups, which most instances do not need."""
PRICE_CELLS = 200_000
"""Of the largest table of an elimination: small, since many are made."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("instances", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0, help="limit per instance")
    parser.add_argument("--prices", type=int, default=20, help="eliminations for prices of memory")
    parser.add_argument("--groups", type=int, default=250, help="groups of nodes chosen again")
    parser.add_argument("--work", type=float, default=120.0, help="deterministic seconds of CP-SAT")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every step")
    args = parser.parse_args()
    solved = True
    for path in args.instances:
        run = Run(path, args)
        run.solve()
        print(json.dumps(run.record()), flush=True)
        solved = solved and run.best is not None
    return 0 if solved else 1


class Run:
    """One instance: what is known about it so far."""

    def __init__(self, path: Path, args: argparse.Namespace) -> None:
        self._args = args
        self._path = path
        self._started = time.perf_counter()
        self._worked = time.process_time()
        self._document = read(path)
        self._problem = problem_of(self._document)
        self.best: tuple[int, ...] | None = None
        self.value = FORBIDDEN
        self.bound = 0

    def solve(self) -> None:
        """All steps, while there is time and a gap."""
        small = presolve(self._problem)
        self._say("presolve", f"{len(small.problem.costs)} nodes are left")
        first = maximise(small.problem, self._args.prices, table_limit=PRICE_CELLS, stop=self._late)
        self._take(small, first.best, first.lower_bound, "prices")
        start = None if first.best is None else first.best.chosen
        self._prove(self._args.work / SHARE)
        if start is not None and self.value > self.bound:
            self._take(small, improved(small.problem, start, self._args.groups, stop=self._late), 0, "groups")
        self._prove(self._args.work)

    def _prove(self, work: float) -> None:
        """CP-SAT on what is left below the best choice."""
        if self.best is not None and self.value == self.bound:
            return
        below = presolve(self._problem, self.value)
        self._say("presolve", f"{len(below.problem.costs)} nodes are left below the best choice")
        if not below.feasible:
            self.bound = self.value
            return
        upper = None if self.best is None else self.value - below.offset
        found = solve_cpsat(below.problem, work_limit=work, upper_bound=upper, stop=self._late)
        self._take(below, found, found.lower_bound, "CP-SAT")

    def _take(self, small: Presolved, found: GraphSolution | None, bound: int, step: str) -> None:
        if found is not None and found.chosen is not None:
            chosen = small.restore(found.chosen)
            value = recount(self._document, chosen)
            if value < self.value:
                self.best, self.value = chosen, value
        self.bound = min(self.value, max(self.bound, bound + small.offset))
        self._say(step, f"value {self.value}, bound {self.bound}")

    def _late(self) -> bool:
        return time.perf_counter() - self._started > self._args.seconds

    def _say(self, step: str, what: str) -> None:
        if self._args.verbose:
            spent = f"{time.perf_counter() - self._started:.1f} s, {time.process_time() - self._worked:.1f} CPU s"
            print(f"{self._path.name}: {step}: {what} ({spent})", file=sys.stderr, flush=True)

    def record(self) -> dict[str, Any]:
        return {
            "instance": self._path.name,
            "value": None if self.best is None else self.value,
            "bound": self.bound,
            "proven": self.best is not None and self.value == self.bound,
            "gap": None if self.best is None else round(1 - self.bound / max(1, self.value), 4),
            "seconds": round(time.perf_counter() - self._started, 2),
            "cpu_seconds": round(time.process_time() - self._worked, 2),
        }


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
    begins, ends = (np.searchsorted(moments, column) for column in np.asarray(nodes["intervals"]).T)
    usages = []
    for begin, end, sizes in zip(begins.tolist(), (ends - 1).tolist(), nodes["usages"], strict=True):
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
