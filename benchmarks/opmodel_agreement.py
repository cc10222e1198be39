"""Agreement of an OpModel backend with recorded tt-metal answers.

    python benchmarks/opmodel_agreement.py ROWS.jsonl.gz [--opmodel analytical] [--wrong OP] [--limit N]

Prints, per op: accepted and rejected rows, agreement on `valid`, optimistic errors (we accept what tt-metal
refuses, the worst kind), pessimistic errors, share of accepted rows with the exact output memory config, exact
and 5 %-close `peak_total`; then the overall line and queries per second of fresh queries. `--wrong OP` lists
the disagreements of one op, grouped by tt-metal's message.
"""

from __future__ import annotations

import argparse
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

    def line(self, name: str) -> str:
        total = self.accepted + self.rejected
        agree = 1 - (self.optimistic + self.pessimistic) / max(1, total)
        exact = self.out_exact / max(1, self.both)
        peak = self.peak_exact / max(1, self.peaks)
        close = self.peak_close / max(1, self.peaks)
        below = self.peak_below / max(1, self.peaks)
        return (
            f"{name:26} {self.accepted:6} {self.rejected:6} {100 * agree:7.2f} {self.optimistic:6} "
            f"{self.pessimistic:6} {100 * exact:7.1f} {100 * peak:7.1f} {100 * close:7.1f} {100 * below:7.1f}"
        )


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--opmodel", default="analytical")
    parser.add_argument("--l1-small-bytes", type=int, default=32768)
    parser.add_argument("--wrong", metavar="OP", help="list the disagreements of one op ('all' for every op)")
    parser.add_argument("--limit", type=int, default=3, help="examples per group with --wrong")
    options = parser.parse_args()
    rows = list(rows_of(options.rows))
    boards = sorted({row["board"] for row in rows})
    models = {
        board: registry.create(options.opmodel, DeviceSpec.preset(board), options.l1_small_bytes) for board in boards
    }
    queries = [query_from_row(row, f"row {row.get('id')}") for row in rows]
    start = time.perf_counter()
    raw = [models[row["board"]].constraints(query) for row, query in zip(rows, queries, strict=True)]
    seconds = time.perf_counter() - start
    answers = [answer_to_row(row["id"], answer) for row, answer in zip(rows, raw, strict=True)]
    if options.wrong:
        show_wrong(rows, answers, options.wrong, options.limit)
        return 0
    tallies: dict[str, Tally] = defaultdict(Tally)
    for row, answer in zip(rows, answers, strict=True):
        tallies[row["op"]].add(row, answer)
    print(f"{'op':26} accept reject  agree%   opt.   pes.   out%  peak%   5%     below%")
    overall = Tally()
    for name in sorted(tallies):
        overall.merge(tallies[name])
        print(tallies[name].line(name))
    print(overall.line("ALL"))
    total = len(rows)
    kinds = Counter(row["kind"] for row, a in zip(rows, answers, strict=True) if a["valid"] and not row["valid"])
    print(f"optimistic errors {100 * overall.optimistic / total:.2f} % of rows, by kind {dict(sorted(kinds.items()))}")
    print(f"{total / seconds:.0f} queries/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
