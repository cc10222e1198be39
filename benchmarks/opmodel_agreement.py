"""Agreement of an OpModel backend with recorded tt-metal answers.

    python benchmarks/opmodel_agreement.py ROWS.jsonl.gz [--against FRESH.jsonl]... [--opmodel analytical] [--groups]
    python benchmarks/opmodel_agreement.py ROWS.jsonl.gz --wrong OP [--limit N]

Prints, per op: accepted and rejected rows, agreement on `valid`, optimistic errors (we accept what tt-metal
refuses, the worst kind), pessimistic errors, share of accepted rows with the exact output memory config, exact
and 5 %-close `peak_total`, share of peaks more than 1 % below the real one, and the op's worst shape family with
its agreement; then the overall line, the targets and fresh queries per second of processor time.

The rules of the backend are not fitted to rows, so cross-validation by (op, shape family) is the agreement of each
group by itself: `--groups` prints them. `--against` adds freshly sampled rows (`scripts/sample_opmodel_queries.py`,
answered by tt-metal) of the groups the recorded table lacks, the groups nobody looked at when rules were written;
rows of recorded groups are left out. `--wrong OP` lists the disagreements of one op, grouped by tt-metal's message.

Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.opmodel import registry
from optimizer.opmodel.rows import answer_to_row, query_from_row

MIN_AGREEMENT = 0.98
MIN_OP_AGREEMENT = 0.95
# An op with fewer rows has too few for its own target.
MIN_OP_ROWS = 50
MAX_OPTIMISTIC = 0.005
MIN_PEAK_EXACT = 0.90
MIN_PEAK_CLOSE = 0.97
MIN_OUTPUT = 0.99

Group = tuple[str, str]


@dataclass
class Tally:
    """Counts of one op."""

    accepted: int = 0
    rejected: int = 0
    optimistic: int = 0
    pessimistic: int = 0
    both: int = 0
    out_exact: int = 0
    peaks: int = 0
    peak_exact: int = 0
    peak_close: int = 0
    peak_below: int = 0

    def add(self, row: dict[str, Any], answer: dict[str, Any]) -> None:
        valid = bool(row["valid"])
        self.accepted += valid
        self.rejected += not valid
        self.optimistic += answer["valid"] and not valid
        self.pessimistic += valid and not answer["valid"]
        if not (valid and answer["valid"]):
            return
        self.both += 1
        self.out_exact += answer["out_mem"] == row.get("out_mem")
        real = row.get("peak_total")
        if real is None:
            return
        ours = answer["peak_total"]
        self.peaks += 1
        self.peak_exact += ours == real
        self.peak_close += abs(ours - real) <= 0.05 * max(real, 1)
        self.peak_below += ours < real * 0.99

    def merge(self, other: Tally) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def rows(self) -> int:
        return self.accepted + self.rejected

    @property
    def agreement(self) -> float:
        return 1 - (self.optimistic + self.pessimistic) / max(1, self.rows)

    def line(self, name: str, tail: str = "") -> str:
        exact = self.out_exact / max(1, self.both)
        peak = self.peak_exact / max(1, self.peaks)
        close = self.peak_close / max(1, self.peaks)
        below = self.peak_below / max(1, self.peaks)
        return (
            f"{name:26} {self.accepted:6} {self.rejected:6} {100 * self.agreement:7.2f} {self.optimistic:6} "
            f"{self.pessimistic:6} {100 * exact:7.1f} {100 * peak:7.1f} {100 * close:7.1f} {100 * below:7.1f}  {tail}"
        ).rstrip()


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)


def describe(row: dict[str, Any]) -> str:
    """One row on one line, for reading disagreements."""
    inputs = " ".join(f"{i['shape']}{i['dtype']}/{i['layout']}:{place(i)}" for i in row["inputs"])
    return f"{row['id']} {row['board']} {json.dumps(row['attrs'])} {inputs} -> {place(row['request_mem'])}"


def place(record: dict[str, Any] | None) -> str:
    if record is None:
        return "none"
    if record.get("host"):
        return "host"
    text = f"{record['memory_layout'][0]}{record['buffer'][0]}"
    if record.get("shard_shape"):
        text += f"{record['shard_shape']}{record['grid']}{record.get('orientation', '?')[0]}"
    return text


def show_wrong(rows: list[dict[str, Any]], answers: list[dict[str, Any]], op: str, limit: int) -> None:
    groups: dict[str, list[str]] = defaultdict(list)
    for row, answer in zip(rows, answers, strict=True):
        if op not in (row["op"], "all"):
            continue
        if answer["valid"] and not row["valid"]:
            key = "OPTIMISTIC " + re.sub(r"-?\d+", "N", f"{row['kind']}: {row.get('error')}")[:130]
        elif row["valid"] and not answer["valid"]:
            key = "PESSIMISTIC " + re.sub(r"-?\d+", "N", f"{answer['kind']}: {answer['error']}")[:130]
        elif row["valid"] and answer["out_mem"] != row.get("out_mem"):
            key = "OUTPUT differs"
        elif row["valid"] and row.get("peak_total") not in (None, answer["peak_total"]):
            key = "PEAK differs"
        else:
            continue
        detail = f"ours out={place(answer['out_mem'])} cb={answer['peak_cb']} l1={answer['peak_l1']} "
        detail += f"tot={answer['peak_total']} | real out={place(row.get('out_mem'))} cb={row.get('peak_cb')} "
        detail += f"l1={row.get('peak_l1')} tot={row.get('peak_total')} {json.dumps(row.get('programs'))[:260]}"
        groups[f"{row['op']} {key}"].append(f"{describe(row)} | {detail}")
    for key, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):5} {key}")
        for text in found[:limit]:
            print("        ", text)


def merged(recorded: list[dict[str, Any]], fresh: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Recorded rows and the fresh rows of groups that the recorded table lacks."""
    known = {group_of(row) for row in recorded}
    kept = [row for row in fresh if group_of(row) not in known]
    groups = len({group_of(row) for row in kept})
    print(f"{len(recorded)} recorded rows in {len(known)} groups, {len(kept)} fresh rows in {groups} other groups")
    if len(kept) < len(fresh):
        print(f"{len(fresh) - len(kept)} fresh rows of recorded groups left out")
    return recorded + kept


def group_of(row: dict[str, Any]) -> Group:
    return row["op"], row.get("family", "")


def print_table(groups: dict[Group, Tally], every_group: bool) -> dict[str, Tally]:
    """Prints the table; returns the tallies of the ops."""
    by_op: dict[str, Tally] = defaultdict(Tally)
    for (op, _), tally in groups.items():
        by_op[op].merge(tally)
    print(f"{'op':26} accept reject  agree%   opt.   pes.   out%  peak%   5%     below%  worst family")
    for op in sorted(by_op):
        own = sorted((tally.agreement, family) for (name, family), tally in groups.items() if name == op)
        worst = f"{own[0][1]} {100 * own[0][0]:.1f}" if own[0][1] else ""
        print(by_op[op].line(op, worst))
        if every_group:
            for (name, family), tally in sorted(groups.items()):
                if name == op:
                    print(tally.line(f"    {family}"))
    return by_op


def missed_targets(by_op: dict[str, Tally], overall: Tally) -> int:
    """Prints each target with pass or fail; returns how many fail."""
    weak = [op for op in sorted(by_op) if by_op[op].rows >= MIN_OP_ROWS and by_op[op].agreement < MIN_OP_AGREEMENT]
    peaks, both = max(1, overall.peaks), max(1, overall.both)
    results = [
        ("agreement", overall.agreement, ">=", MIN_AGREEMENT),
        ("optimistic errors", overall.optimistic / max(1, overall.rows), "<=", MAX_OPTIMISTIC),
        ("output memory config exact", overall.out_exact / both, ">=", MIN_OUTPUT),
        ("peak exact", overall.peak_exact / peaks, ">=", MIN_PEAK_EXACT),
        ("peak within 5 %", overall.peak_close / peaks, ">=", MIN_PEAK_CLOSE),
    ]
    failures = 0
    for name, value, relation, bound in results:
        good = value >= bound if relation == ">=" else value <= bound
        failures += not good
        print(f"{'pass' if good else 'FAIL'}  {name}: {100 * value:.2f} % (target {relation} {100 * bound:g} %)")
    named = ", ".join(f"{op} {100 * by_op[op].agreement:.1f}" for op in weak) or "none below"
    print(f"{'FAIL' if weak else 'pass'}  ops of {MIN_OP_ROWS} rows or more at {100 * MIN_OP_AGREEMENT:g} %: {named}")
    return failures + bool(weak)


def main() -> int:
    options = parse_options()
    rows = list(rows_of(options.rows))
    if options.against:
        rows = merged(rows, [row for path in options.against for row in rows_of(path)])
    boards = sorted({row["board"] for row in rows})
    models = {
        board: registry.create(options.opmodel, DeviceSpec.preset(board), options.l1_small_bytes) for board in boards
    }
    queries = [query_from_row(row, f"row {row.get('id')}") for row in rows]
    gc.collect()
    gc.freeze()  # the rows held here are not the model's garbage
    start = time.process_time()  # a shared machine must not make the model look slow
    raw = [models[row["board"]].constraints(query) for row, query in zip(rows, queries, strict=True)]
    seconds = time.process_time() - start
    answers = [answer_to_row(row["id"], answer) for row, answer in zip(rows, raw, strict=True)]
    if options.wrong:
        show_wrong(rows, answers, options.wrong, options.limit)
        return 0
    groups: dict[Group, Tally] = defaultdict(Tally)
    for row, answer in zip(rows, answers, strict=True):
        groups[group_of(row)].add(row, answer)
    by_op = print_table(groups, options.groups)
    overall = Tally()
    for tally in by_op.values():
        overall.merge(tally)
    print(overall.line("ALL"))
    kinds = Counter(row["kind"] for row, a in zip(rows, answers, strict=True) if a["valid"] and not row["valid"])
    print(f"optimistic errors by kind {dict(sorted(kinds.items()))}")
    below = 100 * overall.peak_below / max(1, overall.peaks)
    print(f"peaks more than 1 % below the real one: {below:.2f} % of {overall.peaks}")
    print(f"{len(rows) / seconds:.0f} queries per second of processor time")
    return 1 if missed_targets(by_op, overall) else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--against", type=Path, action="append", metavar="FRESH", help="rows of groups ROWS lacks")
    parser.add_argument("--opmodel", default="analytical")
    parser.add_argument("--l1-small-bytes", type=int, default=32768)
    parser.add_argument("--groups", action="store_true", help="a line per (op, shape family)")
    parser.add_argument("--wrong", metavar="OP", help="list the disagreements of one op ('all' for every op)")
    parser.add_argument("--limit", type=int, default=3, help="examples per group with --wrong")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
