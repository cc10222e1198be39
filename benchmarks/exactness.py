"""Random problems with tight memory: all combinations, CP-SAT, the frontier DP and all means in turn must agree.

    python benchmarks/exactness.py [--generic 1000] [--layout 1000] [--graphs 30] [--seed 0]

`generic` problems are nodes on random pairs with random spans of memory. `layout` problems look like networks: ops with
layouts, homes of their results with intervals up to a reader, copies between layouts as pair costs. `graphs` are
random networks that go through options and integers of policy `global`; there the optimum is found over decisions, with
time and L1 summed from the layouts and the op model's answers by code of this module's own, not from the integers; of
some combinations the replay of the allocator must find the same time, and need no less L1 than was charged for them.

A problem is tight if memory makes the optimum dearer, or impossible. Compared are values, and that every returned
choice fits and costs what is said, by the tables of all combinations. Prints counts as JSON; exits 1 on a mismatch, or
if fewer than half of the problems are tight.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from reference_solvers.frontier import solve_frontier
from reference_solvers.graph_exact import ExactLimits, solve_graph

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create as create_opmodel
from optimizer.options import Options
from optimizer.pipeline import prepare
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.dram import DramPolicy
from optimizer.sharding.plan_program import replay_plan
from optimizer.sharding.whole_graph.global_problem import GlobalProblem
from optimizer.sharding.whole_graph.option_fronts import OpOption
from optimizer.solver.graphs.graph_cpsat import solve_cpsat
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, GraphSolution, PairCost
from optimizer.solver.graphs.lagrangian import maximise
from optimizer.solver.graphs.usages import Usage

Table = NDArray[np.int64]
MOST_COMBINATIONS = 200_000
REPLAYED = 20
"""Combinations of a network's options that are replayed."""


# -- all combinations --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Enumerated:
    """Every combination of options: cost, and whether it fits at every step."""

    sizes: tuple[int, ...]
    costs: Table
    fits: NDArray[np.bool_]

    @property
    def optimum(self) -> int:
        """FORBIDDEN if nothing fits."""
        return min(FORBIDDEN, int(self.costs[self.fits].min(initial=FORBIDDEN)))

    @property
    def tight(self) -> bool:
        """Whether memory makes the optimum dearer."""
        return self.optimum > min(FORBIDDEN, int(self.costs.min()))

    def wrong(self, solution: GraphSolution) -> str | None:
        """What is wrong with an answer that claims to be the optimum."""
        if solution.value != self.optimum or solution.lower_bound != self.optimum:
            return f"value {solution.value}, bound {solution.lower_bound}, optimum {self.optimum}"
        if (solution.chosen is None) != (self.optimum >= FORBIDDEN):
            return f"choice {solution.chosen}, optimum {self.optimum}"
        if solution.chosen is not None:
            at = int(np.ravel_multi_index(solution.chosen, self.sizes))
            if not self.fits[at] or self.costs[at] != self.optimum:
                return f"the choice costs {self.costs[at]}, fits: {self.fits[at]}, optimum {self.optimum}"
        return None


def enumerate_all(problem: GraphProblem) -> Enumerated:
    """Costs and loads of all combinations, straight from the definition."""
    shape = problem.sizes
    costs = np.zeros(shape, dtype=np.int64)
    loads = np.zeros((len(problem.capacity), *shape), dtype=np.int64)
    for v, row in enumerate(problem.costs):
        along = tuple(-1 if u == v else 1 for u in range(len(shape)))
        costs += row.reshape(along)
        for t in range(len(problem.capacity)):
            held = [sum(use.size for use in uses if use.first <= t <= use.last) for uses in problem.usages[v]]
            loads[t] += np.asarray(held, dtype=np.int64).reshape(along)
    for pair in problem.pairs:
        matrix = pair.matrix if pair.a < pair.b else pair.matrix.T
        costs += matrix.reshape(tuple(n if u in (pair.a, pair.b) else 1 for u, n in enumerate(shape)))
    limits = np.asarray(problem.capacity).reshape((-1, *([1] * len(shape))))
    return Enumerated(shape, costs.ravel(), (loads <= limits).all(axis=0).ravel())


# -- random problems ---------------------------------------------------------------------------------------------
def generic_problem(rng: random.Random) -> GraphProblem:
    """Up to eight nodes of up to four options; capacity below what the cheapest choice takes, as a rule."""
    sizes = [rng.randint(1, 4) for _ in range(rng.randint(2, 8))]
    closed, dense = rng.choice((0.0, 0.1, 0.3)), rng.choice((0.2, 0.4, 0.8))
    costs = tuple(np.asarray([rng.randint(0, 40) for _ in range(n)], dtype=np.int64) for n in sizes)
    pairs = []
    for b in range(len(sizes)):
        for a in range(b):
            if rng.random() < dense:
                cells = [FORBIDDEN if rng.random() < closed else rng.choice((0, rng.randint(0, 30)))
                         for _ in range(sizes[a] * sizes[b])]  # fmt: skip
                matrix = np.asarray(cells, dtype=np.int64).reshape(sizes[a], sizes[b])
                pairs.append(PairCost(a, b, matrix) if rng.random() < 0.5 else PairCost(b, a, matrix.T))
    steps = rng.randint(1, 8)
    usages = []
    for costs_of in costs:
        # What is cheap tends to take more.
        order = np.argsort(np.argsort(-costs_of))
        usages.append(tuple(_spans(rng, steps, int(rank)) for rank in order))
    return _tightened(rng, GraphProblem(costs, tuple(pairs), tuple(usages), (1 << 40,) * steps))


def _spans(rng: random.Random, steps: int, rank: int) -> tuple[Usage, ...]:
    found = []
    for _ in range(rng.randint(0, 2)):
        first, last = sorted((rng.randrange(steps), rng.randrange(steps)))
        found.append(Usage(first, last, rng.randint(0, 6) + 3 * rank))
    return tuple(found)


def layout_problem(rng: random.Random) -> GraphProblem:
    """Ops of a small DAG, each result with a home: DRAM, or a layout up to some reader, with or without a copy."""
    count = rng.randint(2, 4)
    layouts = rng.randint(1, 2)
    reads = [sorted({rng.randrange(t) for _ in range(rng.randint(1, 2))}) if t else [] for t in range(count)]
    readers = [[t for t in range(count) if p in reads[t]] for p in range(count)]
    size = [[rng.randint(2, 9) for _ in range(layouts)] for _ in range(count)]
    spill = [rng.randint(5, 20) for _ in range(count)]
    costs: list[Table] = []
    usages: list[tuple[tuple[Usage, ...], ...]] = []
    ways: list[list[tuple[int, tuple[int, ...]]]] = []
    for t in range(count):
        # A way: layout of the result (0 is DRAM) and of every operand.
        every = [(out, ins) for out in range(layouts + 1) for ins in product(range(layouts + 1), repeat=len(reads[t]))]
        ways.append([every[0], *rng.sample(every[1:], min(len(every) - 1, rng.randint(2, 4)))])
        time_of = [rng.randint(10, 60) - 6 * (out > 0) - 4 * sum(i > 0 for i in ins) for out, ins in ways[t]]
        costs.append(np.asarray([max(0, x) for x in time_of], dtype=np.int64))
        peak = [rng.randint(0, 4) + (size[t][out - 1] if out else 0) for out, _ in ways[t]]
        usages.append(tuple((Usage(2 * t + 1, 2 * t + 1, x),) if x else () for x in peak))
    pairs = []
    for p in range(count):
        homes = [(0, 0, True)]
        for layout in range(1, layouts + 1):
            homes += [(layout, last, dram) for last in range(len(readers[p]) + 1) for dram in (True, False)]
        homes = [home for home in homes if home[2] or home[1] == len(readers[p])]
        node = len(costs)
        costs.append(np.asarray([spill[p] if layout and dram else 0 for layout, _, dram in homes], dtype=np.int64))
        ends = [2 * readers[p][last - 1] + 1 if last else 0 for _, last, _ in homes]
        usages.append(
            tuple(
                (Usage(2 * p + 2, end, size[p][layout - 1]),) if layout and last and end >= 2 * p + 2 else ()
                for (layout, last, _), end in zip(homes, ends, strict=True)
            )
        )
        made = [[0 if out == layout else FORBIDDEN for layout, _, _ in homes] for out, _ in ways[p]]
        pairs.append(PairCost(p, node, np.asarray(made, dtype=np.int64)))
        reshard = rng.randint(2, 12)
        for number, t in enumerate(readers[p]):
            k = reads[t].index(p)
            rows = [[_read_cost(home, number, ins[k], reshard) for _, ins in ways[t]] for home in homes]
            pairs.append(PairCost(node, t, np.asarray(rows, dtype=np.int64)))
    problem = GraphProblem(tuple(costs), tuple(pairs), tuple(usages), (1 << 40,) * (2 * count))
    return _tightened(rng, problem)


def _read_cost(home: tuple[int, int, bool], number: int, wanted: int, reshard: int) -> int:
    layout, last, in_dram = home
    if layout and number < last and wanted:
        return 0 if layout == wanted else reshard
    if not in_dram or (layout and wanted):
        return FORBIDDEN
    return 0 if not wanted else reshard + 3


def _tightened(rng: random.Random, problem: GraphProblem) -> GraphProblem:
    """Capacity between nothing and what the cheapest choice takes at most, one for all steps or one per step."""
    if np.prod([float(n) for n in problem.sizes]) > MOST_COMBINATIONS:
        return problem
    cheapest = enumerate_all(problem)
    chosen = tuple(int(i) for i in np.unravel_index(int(cheapest.costs.argmin()), problem.sizes))
    peaks = problem.loads(chosen).tolist()
    share = rng.uniform(0.5, 1.05)
    if rng.random() < 0.7:
        capacity = [int(share * max(peaks))] * len(peaks)
    else:
        capacity = [int(rng.uniform(0.6, 1.3) * x) for x in peaks]
    return replace(problem, capacity=tuple(capacity))


def small_enough(make: Callable[[random.Random], GraphProblem], rng: random.Random) -> GraphProblem:
    while True:
        problem = make(rng)
        if np.prod([float(n) for n in problem.sizes]) <= MOST_COMBINATIONS:
            return problem


# -- whole graphs ------------------------------------------------------------------------------------------------
def random_graph(rng: random.Random) -> Graph:
    """Three to five ops on small tensors; any value may be read again later."""
    b = GraphBuilder("random")
    rows, width = 32 * rng.choice((4, 8, 16)), 32 * rng.choice((4, 8, 16))
    values = [b.input("x", (1, 1, rows, width))]
    for i in range(rng.randint(3, 5)):
        kind, a = rng.choice(("relu", "add", "multiply", "linear", "softmax")), rng.choice(values[-2:])
        if kind == "linear":
            values.append(b.op("ttnn.linear", a, b.parameter(f"w{i}", (width, width))))
        elif kind in ("add", "multiply"):
            values.append(b.op(f"ttnn.{kind}", a, rng.choice(values)))
        else:
            values.append(b.op(f"ttnn.{kind}", a))
    return b.finish(values[-1])


def policy_input(graph: Graph) -> PolicyInput:
    options = Options.from_mapping({"board": "n150"})
    model = create_opmodel(options.opmodel, DeviceSpec.preset("n150"), options.l1_small_bytes)
    return prepare(graph, CachedOpModel(model), options)


class Decisions:
    """A few options per op of a network, priced and summed without the integer problem."""

    def __init__(self, problem: PolicyInput, model: GlobalProblem, kept: dict[str, tuple[OpOption, ...]]) -> None:
        self._pricer = problem.pricer
        self._graph = problem.graph
        self._schedule = model.schedule
        self._kept = kept
        self._may_be_in_l1 = {
            v
            for op_id in self._schedule
            for v in self._graph.op(op_id).outputs
            if any(option.candidate.output.is_l1 for option in model.table.options[op_id])
        }
        self._readers = {
            v: [t for t, op_id in enumerate(self._schedule) if v in self._graph.op(op_id).inputs]
            for op_id in self._schedule
            for v in self._graph.op(op_id).outputs
        }

    def all(self) -> Iterator[tuple[int, list[int]]]:
        """Time, and L1 at every step, of every combination of options that can be run."""
        for options in product(*(self._kept[op_id] for op_id in self._schedule)):
            found = self._evaluate(dict(zip(self._schedule, options, strict=True)))
            if found is not None:
                yield found

    def replayed(self, rng: random.Random) -> list[str]:
        """What the replay contradicts of some combinations: another time, or less L1 than was charged."""
        wrong = []
        for _ in range(REPLAYED):
            options = {op_id: rng.choice(self._kept[op_id]) for op_id in self._schedule}
            found = self._evaluate(options)
            if found is None:
                continue
            decisions = {op_id: OpDecision(o.candidate, o.operands) for op_id, o in options.items()}
            replay = replay_plan(self._pricer, self._schedule, decisions)
            taken = self._pricer.l1_limit_bytes - replay.spare_bytes
            if replay.time_ns != found[0] or taken < max(found[1]):
                wrong.append(f"{found[0]} ns, {max(found[1])} B; replayed {replay.time_ns} ns, {taken} B")
        return wrong

    def _evaluate(self, options: dict[str, OpOption]) -> tuple[int, list[int]] | None:
        made = {self._graph.op(op_id).outputs[0]: o.candidate.output for op_id, o in options.items()}
        steps = [0] * (2 * len(self._schedule))
        in_l1_until: dict[str, int] = {}
        to_dram = {v for v in self._graph.outputs if made[v].is_l1}
        total = 0
        for t, op_id in enumerate(self._schedule):
            op, option = self._graph.op(op_id), options[op_id]
            total += option.time_ns
            copies = beside = in_place = 0
            freed = False
            for k, v in enumerate(op.inputs):
                wanted = option.operands[k]
                if self._pricer.is_weight(v):
                    steps = [x + (self._pricer.value_bytes(v, wanted) if wanted.is_l1 else 0) for x in steps]
                    continue
                have = made.get(v, self._pricer.default_layout(self._graph.value(v)))
                if wanted.is_dram:
                    if have.is_l1:
                        to_dram.add(v)
                    continue
                if have.is_l1:
                    in_l1_until[v] = t
                size = self._pricer.value_bytes(v, wanted)
                if wanted != have:
                    if not self._pricer.copy_accepted(v, have, wanted):
                        return None
                    total += self._pricer.copy_ns(v, have, wanted)
                    copies += size
                    # Copies are made in turn, and the source of one may be gone before the next.
                    beside += 0 if freed else size
                    freed = freed or v in self._may_be_in_l1
                # A value counts beside the op that reads it in place last of all, once however often it reads it.
                elif v in made and self._readers[v][-1] == t and k == op.inputs.index(v):
                    in_place += size
            steps[2 * t] += beside
            steps[2 * t + 1] += copies + in_place + option.peak_bytes
        for v in sorted(to_dram):
            default = self._pricer.default_layout(self._graph.value(v))
            if not self._pricer.copy_accepted(v, made[v], default):
                return None
            total += self._pricer.copy_ns(v, made[v], default)
        for t, op_id in enumerate(self._schedule):
            v = self._graph.op(op_id).outputs[0]
            for s in range(2 * t + 2, 2 * in_l1_until.get(v, -1) + 1):
                steps[s] += self._pricer.value_bytes(v, made[v])
        return total, steps


def graph_problems(rng: random.Random, variants: int) -> Iterator[tuple[GraphProblem, int, bool, list[str]]]:
    """A network's integer problem cut down to a few options per op and little L1.

    With its optimum, whether L1 binds, and what the replay contradicts.
    """
    problem = policy_input(random_graph(rng))
    plan = DramPolicy().run(problem)
    model = GlobalProblem(problem, plan.schedule, [plan.decisions])
    for _ in range(variants):
        kept = {}
        for op_id in model.schedule:
            every = model.table.options[op_id]
            cheap = sorted(every, key=lambda o: o.time_ns)[:12]
            kept[op_id] = tuple(dict.fromkeys((every[0], *rng.sample(cheap, min(len(cheap), rng.randint(2, 5))))))
        decisions = Decisions(problem, model, kept)
        found = list(decisions.all())
        cheapest = min(found, key=lambda item: item[0])
        limit = int(max(cheapest[1]) * rng.uniform(0.55, 1.0))
        optimum = min((total for total, steps in found if max(steps) <= limit), default=FORBIDDEN)
        costs = [row.copy() for row in model.integers.costs]
        for t, op_id in enumerate(model.schedule):
            out = [way.option not in kept[op_id] for way in model.ways[t]]
            costs[t][np.asarray(out)] = FORBIDDEN
        capacity = (limit,) * len(model.integers.capacity)
        cut = replace(model.integers, costs=tuple(costs), capacity=capacity)
        yield cut, optimum, optimum > cheapest[0], decisions.replayed(rng)


# -- comparison --------------------------------------------------------------------------------------------------
def answers(problem: GraphProblem, priced: bool) -> dict[str, GraphSolution]:
    """Every solver's own; the DP with prices of memory in its bounds, or without."""
    prices = maximise(problem, 5).prices if priced else None
    return {
        "cpsat": solve_cpsat(problem, reduce=False),
        "cpsat_presolved": solve_cpsat(problem),
        "dp": solve_frontier(problem, prices=prices).solution,
        "turns": solve_graph(problem, limits=ExactLimits(cpsat_work=0.0)),
    }


def compare(kind: str, number: int, rng: random.Random, counts: Counter[str]) -> list[str]:
    """Mismatches of one random problem."""
    problem = small_enough(generic_problem if kind == "generic" else layout_problem, rng)
    exact = enumerate_all(problem)
    counts[f"{kind}_problems"] += 1
    counts[f"{kind}_tight"] += exact.tight
    counts[f"{kind}_impossible"] += exact.optimum >= FORBIDDEN
    wrong = {name: exact.wrong(found) for name, found in answers(problem, number % 2 == 0).items()}
    return [f"{kind} {number}: {name}: {what}" for name, what in wrong.items() if what is not None]


def compare_graph(number: int, rng: random.Random, counts: Counter[str], variants: int = 8) -> list[str]:
    """Mismatches of one random network."""
    mismatches = []
    for problem, optimum, tight, replayed in graph_problems(rng, variants):
        mismatches += [f"graph {number}: {what}" for what in replayed]
        counts["graph_problems"] += 1
        counts["graph_tight"] += tight
        counts["graph_impossible"] += optimum >= FORBIDDEN
        for name, found in answers(problem, number % 2 == 0).items():
            fits = found.chosen is None or (problem.fits(found.chosen) and problem.value(found.chosen) == found.value)
            if not (found.value == found.lower_bound == optimum and fits):
                mismatches.append(f"graph {number}: {name}: {found.value} {found.lower_bound}, optimum {optimum}")
    return mismatches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generic", type=int, default=1000)
    parser.add_argument("--layout", type=int, default=1000)
    parser.add_argument("--graphs", type=int, default=30, help="networks, each with 8 choices of options and L1")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    mismatches: list[str] = []
    for kind, number in [*(("generic", i) for i in range(args.generic)), *(("layout", i) for i in range(args.layout))]:
        mismatches += compare(kind, number, random.Random(f"{args.seed} {kind} {number}"), counts)
    for number in range(args.graphs):
        mismatches += compare_graph(number, random.Random(f"{args.seed} graph {number}"), counts)
    for line in mismatches:
        print(line)
    total, tight = (
        sum(counts[f"{k}_{what}"] for k in ("generic", "layout", "graph")) for what in ("problems", "tight")
    )
    record = {**counts, "problems": total, "tight": tight, "mismatches": len(mismatches)}
    print(json.dumps({**record, "seconds": round(time.perf_counter() - started, 1)}))
    return 1 if mismatches or 2 * tight < total else 0


if __name__ == "__main__":
    sys.exit(main())
