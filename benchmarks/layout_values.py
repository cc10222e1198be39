"""Which layouts does tt-metal accept and compute wrongly? Single ops on its simulator, between canaries.

    python benchmarks/layout_values.py [--family pools convs ...] [--per-subject 4] [--plans MODEL.onnx ...]
                                       [--drawn 8000] [--seed 0] [--per-class 1] [--policy global] [--timeout 300]
                                       [--largest 400000] [--log CASES.jsonl] [--record CLASSES.json] [--part 1/2]

Takes questions that ttopt's own analyses call legal: per family small ops in every kind of layout (`layout_cases/
sweep.py`), and with `--plans` every distinct (op, layouts, config) that plans of these models chose, or the smallest
few of each op and layout class (`--per-class`); with `--drawn` as many as are asked for, drawn from the planner's own
tables (`layout_cases/drawn.py`). Each runs in a child process (`layout_cases/simulated.py`) on an
n150: values are compared with float64 within the limits of rounding (`optimizer.values`), and what must not change is
read back: an L1 tensor on both sides of every L1 operand and of the result, and the operands themselves.

Prints the cases that are not right, then a table per op: right, wrong values, overwritten, refused, simulator cannot.
`--record` writes how many of each class (op, element types, kinds of layouts, config) ran and how they ended, of all
in the log. `--part 1/2` runs every second case only, for two runs side by side with a log each.

Exits 1 if anything is wrong or overwritten. Needs tt-metal's simulator (docs/values.md); without it, it says so and
exits 0. `--log` keeps every outcome, and cases in it are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter, defaultdict
from math import prod
from pathlib import Path

from layout_cases.drawn import class_of, drawn_queries
from layout_cases.plans import model_queries
from layout_cases.running import Outcome, Verdict, run_cases
from layout_cases.sweep import FAMILIES, family_queries, kind_of

from optimizer.cli.tables import table
from optimizer.device import DeviceSpec
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.ttmetal import simulator
from optimizer.opmodel.ttmetal.environment import EnvironmentProblem
from optimizer.values.check import layout_class

BOARD = "n150"
BAD = (Verdict.WRONG, Verdict.OVERWRITES)


def main() -> int:
    options = parse_options()
    try:
        simulator.library_path()
    except EnvironmentProblem as problem:
        print(f"skipped: {problem}")
        return 0
    known = read_log(options.log)
    queries = [q for q in part_of(wanted_queries(options), options.part) if repr(q) not in known]
    small = [q for q in queries if max(prod(t.shape) for t in q.inputs) <= options.largest]
    print(f"{len(queries)} cases, {len(queries) - len(small)} of them too large, {len(known)} known", flush=True)
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    for op, verdict in known.values():
        verdicts[op][verdict] += 1
    for outcome in run_cases(small, options.timeout):
        verdicts[outcome.query.op][outcome.verdict] += 1
        if outcome.verdict is not Verdict.RIGHT:
            print(f"{outcome.verdict}: {described(outcome.query)}: {outcome.detail}", flush=True)
        append(options.log, outcome)
    rows = [[op, *(counts[v] for v in Verdict)] for op, counts in sorted(verdicts.items())]
    print(table(("op", *Verdict), rows))
    if options.record is not None:
        write_record(options.log, options.record)
    return 1 if any(counts[v] for counts in verdicts.values() for v in BAD) else 0


def wanted_queries(options: argparse.Namespace) -> list[OpQuery]:
    """Of the families, or of the plans where models are named; the smallest first."""
    device, found = DeviceSpec.preset(BOARD), dict[OpQuery, None]()
    for model in options.plans or ():
        found.update(dict.fromkeys(model_queries(model, BOARD, options.policy)))
    if options.drawn:
        found.update(dict.fromkeys(drawn_queries(device, options.drawn, options.seed)))
    for name in options.family or (() if options.plans or options.drawn else (*FAMILIES, "copies")):
        found.update(dict.fromkeys(family_queries(name, device, options.per_subject)))
    small_first = sorted((q for q in found if q.inputs), key=lambda q: sum(prod(t.shape) for t in q.inputs))
    taken: Counter[tuple[str, str]] = Counter()
    kept = []
    for query in small_first:
        kind = (query.op, layout_class(query))
        taken[kind] += 1
        if taken[kind] <= options.per_class:
            kept.append(query)
    return kept


def part_of(queries: list[OpQuery], part: str) -> list[OpQuery]:
    """`2/3`: every third, from the second on."""
    number, count = map(int, part.split("/"))
    return queries[number - 1 :: count]


def write_record(log: Path, target: Path) -> None:
    """Class -> verdict -> how many, of all cases of the log."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for record in map(json.loads, log.read_text("utf-8").splitlines()):
        counts[record["class"]][record["verdict"]] += 1
    executed = sum(counts[c][v] for c in counts for v in (Verdict.RIGHT, *BAD))
    print(f"{executed} executed, {sum(any(row[v] for v in (Verdict.RIGHT, *BAD)) for row in counts.values())} classes")
    rows = {name: dict(sorted(row.items())) for name, row in sorted(counts.items())}
    target.write_text(json.dumps(rows, indent=0) + "\n", "utf-8")


def described(query: OpQuery) -> str:
    """Op, operands with their kinds of layout, and what is asked of the result."""
    shown = [
        f"{'x'.join(map(str, t.shape))} {kind_of(t.shape, t.layout)}{_shard(t.layout.memory)}"
        for t in query.inputs
        if not t.layout.is_host
    ]
    asked = "-" if query.output is None else f"{query.output.memory_layout.value}{_shard(query.output)}"
    return f"{query.op}({', '.join(shown)}) -> {asked}"


def _shard(memory: MemoryConfig) -> str:
    spec = memory.shard_spec
    return "" if spec is None else f" {spec.shape} on {spec.grid_yx}"


def read_log(path: Path | None) -> dict[str, tuple[str, str]]:
    """Question -> (op, verdict) of the cases that were run before."""
    if path is None or not path.is_file():
        return {}
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {record["query"]: (record["op"], record["verdict"]) for record in records}


def append(path: Path | None, outcome: Outcome) -> None:
    if path is None:
        return
    query = outcome.query
    record = {"query": repr(query), "op": query.op, "class": class_of(query), "verdict": outcome.verdict}
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({**record, "detail": outcome.detail, **outcome.record}) + os.linesep)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", nargs="+", choices=(*FAMILIES, "copies"), help="default: all, unless --plans")
    parser.add_argument("--per-subject", type=int, default=4, help="cases per op and size")
    parser.add_argument("--plans", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--drawn", type=int, default=0, help="so many questions that nobody chose")
    parser.add_argument("--seed", type=int, default=0, help="of these")
    parser.add_argument("--part", default="1/1", help="which share of the cases, 1/2 or 2/2")
    parser.add_argument("--record", type=Path, help="with --log: write its classes and their outcomes")
    parser.add_argument("--per-class", type=int, default=1 << 30, help="cases per op and layout class (default: all)")
    parser.add_argument("--policy", default="global")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a case may take")
    parser.add_argument("--largest", type=int, default=400_000, help="elements of the largest operand")
    parser.add_argument("--log", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
