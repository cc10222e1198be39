"""`ttopt diff`: two results side by side, and which ops make the difference."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from optimizer.cli.arguments import Commands, add_format, path_argument
from optimizer.cli.differences import differing, differing_text
from optimizer.cli.summary import Document, change_text, plan_text
from optimizer.cli.tables import as_json, bytes_text, percent_text, table, time_text
from optimizer.cli.values import RESULT_HELP, config_text, layout_text, read_document
from optimizer.errors import FormatError

FIGURES = (
    ("predicted_time_ns", time_text),
    ("dram_read_bytes_total", bytes_text),
    ("dram_write_bytes_total", bytes_text),
    ("l1_peak_bytes", bytes_text),
    ("l1_weights_bytes", bytes_text),
    ("dram_peak_bank_bytes", bytes_text),
    ("l1_resident_fraction", percent_text),
    ("ops", str),
    ("reshards", str),
    ("loads", str),
    ("spills", str),
)
SHOWN_OPS = 20
"""Ops listed unless all are asked for."""
BEFORE, AFTER = ("reshard", "load"), ("spill",)
"""Copies made for the op that reads them, and for the op that gives their source."""


def add(commands: Commands) -> None:
    diff = commands.add_parser("diff", help="two results side by side", allow_abbrev=False)
    diff.add_argument("first", type=path_argument, metavar="A", help=RESULT_HELP)
    diff.add_argument("second", type=path_argument, metavar="B", help=RESULT_HELP)
    diff.add_argument(
        "--fail-over",
        type=percentage,
        metavar="PERCENT",
        help="end with exit code 1 where B's predicted time is more than this above A's, such as 5%%",
    )
    diff.add_argument("--all", action="store_true", help=f"list every op that differs, not the first {SHOWN_OPS}")
    add_format(diff)
    diff.set_defaults(run=run_diff)


def run_diff(args: argparse.Namespace) -> int:
    record = difference(read_document(args.first), read_document(args.second))
    verdict = None
    if args.fail_over is not None:
        record["fail_over"], verdict = judged(record["summary"]["predicted_time_ns"], args.fail_over)
    if args.format == "json":
        print(as_json(record))
    else:
        print(difference_text(record, str(args.first), str(args.second), None if args.all else SHOWN_OPS))
    if verdict is not None:
        print(f"\n{verdict}" if args.format == "table" else verdict, file=sys.stderr if args.format == "json" else None)
    return 1 if verdict is not None and record["fail_over"]["failed"] else 0


def percentage(text: str) -> float:
    """`5%` as 0.05. The sign is needed: nobody can tell whether `0.05` means a twentieth or a 2000th."""
    number = text.removesuffix("%").strip()
    if not text.endswith("%") or not re.fullmatch(r"\d{1,6}(\.\d{1,6})?", number, re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is no percentage such as 5% or 0.5%")
    return float(number) / 100


def judged(times: list[int | None], allowed: float) -> tuple[dict[str, Any], str]:
    """Whether B takes too much longer than A, as a record and as a sentence. FormatError without predicted times."""
    before, after = times
    if before is None or after is None:
        raise FormatError(f"{'A' if before is None else 'B'} states no predicted time", node="--fail-over")
    failed = after > before * (1 + allowed)
    change = after / before - 1 if before else None
    change_shown = f"{time_text(before)} -> {time_text(after)} ({change_text(before, after)})"
    limit = f"the {100 * allowed:g} % allowed"
    text = (
        f"FAILED: predicted time {change_shown} grows by more than {limit}"
        if failed
        else f"predicted time {change_shown}: within {limit}"
    )
    return {"allowed": allowed, "change": None if change is None else round(change, 6), "failed": failed}, text


def difference(first: Document, second: Document) -> dict[str, Any]:
    """Summary figures of both, and the ops (matched by id) that read, give, configure or copy differently.

    An op's time includes the copies that are made for it: loads and reshards of its operands, the spill of its result.
    The ops that change most come first.
    """
    placed = [_placed(first), _placed(second)]
    ops: list[dict[str, Any]] = []
    for op_id in dict.fromkeys((*placed[0], *placed[1])):
        before, after = (side.get(op_id) for side in placed)
        if before != after:
            ops.append({"op": op_id, "first": before, "second": after})
    ops.sort(key=lambda o: -abs(_time_ns(o["second"]) - _time_ns(o["first"])))
    return {
        "differs": differing(first, second),
        "summary": {key: [first["summary"].get(key), second["summary"].get(key)] for key, _ in FIGURES},
        "time_by_class_ns": [d["summary"].get("time_by_class_ns") or {} for d in (first, second)],
        "plans": [plan_text(first["summary"]), plan_text(second["summary"])],
        "ops": ops,
    }


def _placed(document: Document) -> dict[str, dict[str, Any]]:
    """Op id -> layouts of operands and results, config, copies and time, of every op that is no copy."""
    reader = {v: op for op in reversed(document["ops"]) for v in op["inputs"]}
    producer = {v: op for op in document["ops"] for v in op["outputs"]}
    found: dict[str, dict[str, Any]] = {}
    for op in document["ops"]:
        if op["role"] not in (*BEFORE, *AFTER):
            found[op["id"]] = {
                "reads": _layouts(document, op["inputs"]),
                "layouts": _layouts(document, op["outputs"]),
                "config": op["config"],
                "copies": [],
                "time_ns": _op_ns(op),
            }
    for copy in document["ops"]:
        if copy["role"] in (*BEFORE, *AFTER):
            ends = (reader, copy["outputs"]) if copy["role"] in BEFORE else (producer, copy["inputs"])
            owner = next((ends[0][v]["id"] for v in ends[1] if v in ends[0]), None)
            if owner in found:
                found[owner]["copies"].append(copy["role"])
                found[owner]["time_ns"] += _op_ns(copy)
    return found


def _layouts(document: Document, values: list[str]) -> list[str | None]:
    layouts = (document["values"][v]["layout"] for v in values)
    return [None if layout is None else layout_text(layout) for layout in layouts]


def _op_ns(op: dict[str, Any]) -> int:
    return op["predicted"]["time_ns"] if op["predicted"] else 0


def _time_ns(placed: dict[str, Any] | None) -> int:
    return 0 if placed is None else int(placed["time_ns"])


def difference_text(record: dict[str, Any], first: str, second: str, limit: int | None = SHOWN_OPS) -> str:
    titles = [f"A  {first}: {record['plans'][0]}", f"B  {second}: {record['plans'][1]}"]
    blocks = [
        "\n".join(titles),
        differing_text(record["differs"]),
        table(("", "A", "B", "change"), _figure_rows(record)),
    ]
    ops = record["ops"]
    if not ops:
        return "\n\n".join([*blocks, "no op differs in layouts, config or copies"])
    shown = ops[:limit]
    left = f", those that differ most in time first, {len(ops) - len(shown)} more with --all" if shown != ops else ""
    rows = [_op_row(o) for o in shown]
    header = ("op", "A", "B", "time in A", "in B", "change")
    title = f"{len(ops)} ops differ in layouts, config or copies{left}; times include the copies made for an op"
    return "\n\n".join([*blocks, f"{title}\n{table(header, rows)}"])


def _figure_rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for key, show in FIGURES:
        before, after = record["summary"][key]
        name = key.removesuffix("_ns").removesuffix("_bytes").replace("_", " ")
        rows.append((name, show(before), show(after), change_text(before, after)))
    before_ns, after_ns = record["time_by_class_ns"]
    for name in sorted({*before_ns, *after_ns}, key=lambda n: (-max(before_ns.get(n, 0), after_ns.get(n, 0)), n)):
        before, after = before_ns.get(name, 0), after_ns.get(name, 0)
        rows.append((f"  time of {name}", time_text(before), time_text(after), change_text(before, after)))
    return rows


def _op_row(op: dict[str, Any]) -> tuple[object, ...]:
    before, after = op["first"], op["second"]
    change = _time_ns(after) - _time_ns(before)
    times = (time_text(before and before["time_ns"]), time_text(after and after["time_ns"]))
    signed = ("+" if change > 0 else "") + time_text(change)
    return (op["op"], _side(before, after), _side(after, before), *times, signed)


def _side(placed: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    """Result layouts and copies; where those are the other side's too, how config or operands differ."""
    if placed is None:
        return "absent"
    text = " + ".join(["; ".join(map(str, placed["layouts"])), *placed["copies"]])
    if other is None or (other["layouts"], other["copies"]) != (placed["layouts"], placed["copies"]):
        return text
    if other["config"] != placed["config"]:
        return f"{text} ({config_text(placed['config'], other['config'])})"
    pairs_read = zip(placed["reads"], other["reads"], strict=False)
    return f"{text}, reads {'; '.join(str(mine) for mine, theirs in pairs_read if mine != theirs)}"
