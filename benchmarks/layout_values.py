"""Which layouts does tt-metal accept and compute wrongly? Single ops on its simulator, between canaries.

    python benchmarks/layout_values.py [--family pools convs ...] [--per-subject 4] [--plans MODEL.onnx ...]
                                       [--drawn 8000] [--seed 0] [--per-class 1] [--policy global] [--timeout 300]
                                       [--largest 400000] [--log CASES.jsonl ...] [--record CLASSES.json] [--part 1/2]
    python benchmarks/layout_values.py --mock [--drawn 8000] [--seed 0] [--board p150]

Takes questions that ttopt's own analyses call legal: per family small ops in every kind of layout (`layout_cases/
sweep.py`), and with `--plans` every distinct (op, layouts, config) that plans of these models chose, or the smallest
few of each op and layout class (`--per-class`); with `--drawn` as many as are asked for, drawn from the planner's own
tables (`layout_cases/drawn.py`). Each runs in a child process (`layout_cases/simulated.py`) on an
n150: values are compared with float64 within the limits of rounding (`optimizer.values`), and what must not change is
read back: an L1 tensor on both sides of every L1 operand and of the result, and the operands themselves.

Prints the cases that are not right, then a table per op: right, wrong values, overwritten, refused, simulator cannot.
`--part 1/2` runs every second case only, for two runs side by side with a log each. `--record` writes into a file,
under the seed, how many cases and classes (op, element types, kinds of layouts, config) ran, per op, and how they
ended: of all logs named, but for cases that have become illegal, which are counted by themselves.

`--mock` asks tt-metal's mock device instead whether it takes the cases at all, on the board named: what it refuses
though ttopt calls it legal is printed.

Exits 1 if anything is wrong, overwritten, or refused by the mock device. Needs the simulator (docs/values.md), or
`ttnn` for the mock device; without it, it says so and exits 0. `--log` keeps every outcome, and cases in it are not run
again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
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
from optimizer.errors import OpModelError
from optimizer.ir.dtype import DType
from optimizer.layouts import memory_config, op_config
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.opmodel import base as opmodel_base
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.registry import create
from optimizer.opmodel.ttmetal import location, simulator
from optimizer.opmodel.ttmetal.environment import EnvironmentProblem
from optimizer.opmodel.ttmetal.model import TTMetalOpModel
from optimizer.options import Options
from optimizer.values.check import layout_class

BAD = (Verdict.WRONG, Verdict.OVERWRITES)
RAN = (Verdict.RIGHT, *BAD)


def main() -> int:
    options = parse_options()
    if options.mock:
        return asked_of_the_mock_device(options)
    if options.record is not None:
        write_record(options.log, options.record, f"seed {options.seed}")
        return 0
    try:
        simulator.library_path()
    except EnvironmentProblem as problem:
        print(f"skipped: {problem}")
        return 0
    known = {query: end for log in options.log or () for query, end in read_log(log).items()}
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
        append(options.log[0] if options.log else None, outcome)
    rows = [[op, *(counts[v] for v in Verdict)] for op, counts in sorted(verdicts.items())]
    print(table(("op", *Verdict), rows))
    return 1 if any(counts[v] for counts in verdicts.values() for v in BAD) else 0


def asked_of_the_mock_device(options: argparse.Namespace) -> int:
    """Prints what tt-metal refuses of the cases; 1 if it does any."""
    device = DeviceSpec.preset(options.board)
    try:
        location.find()
        model = TTMetalOpModel(device, Options(board=options.board).l1_small_bytes)
    except OpModelError as problem:
        print(f"skipped: {problem}")
        return 0
    queries = wanted_queries(options)
    refused = 0
    for query, answer in zip(queries, model.constraints_many(queries), strict=True):
        if not answer.valid:
            refused += 1
            print(f"{answer.kind}: {described(query)}: {answer.error}", flush=True)
    print(f"{len(queries)} cases of {len({class_of(q) for q in queries})} classes, {refused} refused")
    return int(refused > 0)


def wanted_queries(options: argparse.Namespace) -> list[OpQuery]:
    """Of the families, or of the plans where models are named; the smallest first."""
    device, found = DeviceSpec.preset(options.board), dict[OpQuery, None]()
    for model in options.plans or ():
        found.update(dict.fromkeys(model_queries(model, options.board, options.policy)))
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


def write_record(logs: list[Path], target: Path, title: str) -> None:
    """Title -> op -> how many cases and classes ran, and how they ended; of a case in several logs its last end."""
    board = DeviceSpec.preset("n150")
    model = create("analytical", board, Options(board=board.name).l1_small_bytes)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    classes: dict[str, set[str]] = defaultdict(set)
    records = map(json.loads, (line for log in logs for line in log.read_text("utf-8").splitlines()))
    for record in {record["query"]: record for record in records}.values():
        op, verdict = record["op"], record["verdict"]
        if verdict in BAD and not model.constraints(read_query(record["query"])).valid:
            verdict = "now illegal"
        counts[op][verdict] += 1
        if verdict in RAN:
            classes[op].add(record["class"])
    rows = {op: {"classes": len(classes[op]), **dict(sorted(counts[op].items()))} for op in sorted(counts)}
    ran = sum(row.get(verdict, 0) for row in rows.values() for verdict in RAN)
    print(f"{ran} executed of {sum(row['classes'] for row in rows.values())} classes")
    known = json.loads(target.read_text("utf-8")) if target.is_file() else {}
    target.write_text(json.dumps({**known, title: rows}, indent=0) + "\n", "utf-8")


def read_query(text: str) -> OpQuery:
    """A question as a log spells it, which is how Python shows it."""
    rooms = (memory_config, op_config, opmodel_base)
    names = {name: value for room in rooms for name, value in vars(room).items()} | {"DType": DType}
    return eval(re.sub(r"<(\w+)\.(\w+): [^>]*>", r"\1.\2", text), names)  # type: ignore[no-any-return]


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


def read_log(path: Path) -> dict[str, tuple[str, str]]:
    """Question -> (op, verdict) of the cases that were run before."""
    if not path.is_file():
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
    parser.add_argument("--record", type=Path, help="run nothing: write what the logs hold, per op; needs --log")
    parser.add_argument("--mock", action="store_true", help="ask tt-metal's mock device whether it takes the cases")
    parser.add_argument("--board", default="n150", help="with --mock, any preset")
    parser.add_argument("--per-class", type=int, default=1 << 30, help="cases per op and layout class (default: all)")
    parser.add_argument("--policy", default="global")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a case may take")
    parser.add_argument("--largest", type=int, default=400_000, help="elements of the largest operand")
    parser.add_argument("--log", type=Path, nargs="+")
    options = parser.parse_args()
    if options.record is not None and not options.log:
        parser.error("--record needs --log")
    return options


if __name__ == "__main__":
    sys.exit(main())
