"""What the ops of plans give on a device: distinct queries executed with random operands and judged in float64.

    python benchmarks/op_values.py RESULT... [--sample N] [--device sim|real] [--seed S] [-o FILE]

RESULT are graphs laid out for one board (`ttopt batch MODELS... -o DIR`). `--sample` takes at most N queries of every
op and layout class over all of them, without it every one is run. `-o` appends one JSON line a query, and goes on where
the file ends: kernels that were never compiled cost seconds each. Prints a table by op, what is wrong and what could
not run, and exits 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from optimizer.cli.tables import table
from optimizer.export.reader import read_result
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.ttmetal.answers import question_text
from optimizer.opmodel.ttnn_calls import asked_inputs, call_text
from optimizer.values.check import Checked, check_queries, layout_class, sample

NO_LIMIT = 1 << 30
COLUMNS = ("queries", "right", "wrong", "not run", "worst", "gain")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULT")
    parser.add_argument("--sample", type=int, metavar="N", help="at most so many of every op and layout class")
    parser.add_argument("--device", choices=("sim", "real"), default="sim")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="JSON lines; what is there is kept")
    args = parser.parse_args()
    plans = [read_result(path) for path in args.results]
    boards = {(plan.device.name, plan.options.l1_small_bytes) for plan in plans}
    if len(boards) != 1:
        parser.error(f"the results are of several boards: {sorted(boards)}")
    queries = list(sample(plans, args.sample or NO_LIMIT))
    known = {r["key"]: r for r in _lines(args.output)}
    asked = [(query, ops) for query, ops in queries if key(query) not in known]
    print(f"{len(queries)} distinct queries, {len(asked)} to run", file=sys.stderr, flush=True)

    def report(checked: Checked) -> None:
        record = {"key": key(checked.query), **checked.record()}
        known[record["key"]] = record
        if args.output is not None:
            with args.output.open("a") as file:
                file.write(json.dumps(record) + "\n")

    check_queries(plans[0].device, boards.pop()[1], asked, source=args.device, seed=args.seed, report=report)
    return summary([known[key(query)] for query, _ in queries])


def key(query: OpQuery) -> str:
    """Of a query: the call and its operands."""
    inputs = asked_inputs(query)
    text = question_text(inputs, call_text(query, [f"x{k}" for k in range(len(inputs))]))
    return f"{query.op} {layout_class(query)} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _lines(path: Path | None) -> Iterator[dict[str, Any]]:
    if path is not None and path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def summary(records: list[dict[str, Any]]) -> int:
    """Tables; 1 if anything is wrong."""
    rows = [_row(name, [r for r in records if r["op"] == name]) for name in sorted({r["op"] for r in records})]
    print(table(("op", *COLUMNS), [*rows, _row("all", records)]))
    wrong = [r for r in records if not right(r) and r["problem"] is None]
    for record in [*wrong, *(r for r in records if r["problem"])]:
        print(f"{record['ops'][0]} ({record['op']}, {record['layouts']}): {record['problem'] or 'WRONG'}, "
              f"{record['worst']:.3g} of the limit, {record['wrong_elements']} elements")  # fmt: skip
    return 1 if wrong else 0


def right(record: dict[str, Any]) -> bool:
    return record["problem"] is None and record["worst"] <= 1.0


def _row(name: str, records: Iterable[dict[str, Any]]) -> tuple[object, ...]:
    rows = list(records)
    gains = [abs(a["ratio"] - 1) for r in rows for a in r["agreement"] if a["ratio"] == a["ratio"]]
    wrong = sum(not right(r) and r["problem"] is None for r in rows)
    stopped = sum(r["problem"] is not None for r in rows)
    worst = max((r["worst"] for r in rows), default=0.0)
    return name, len(rows), sum(map(right, rows)), wrong, stopped, f"{worst:.2f}", f"{max(gains, default=0.0):.4f}"


if __name__ == "__main__":
    raise SystemExit(main())
