"""`ttopt diff`: two results side by side, and which ops make the difference."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from optimizer.answers.difference import FIGURES, difference, placed_ns
from optimizer.cli.arguments import RESULT_HELP, Commands, add_format, path_argument
from optimizer.cli.tables import print_record, table, time_text
from optimizer.cli.terminal import one_line
from optimizer.errors import FormatError
from optimizer.wording.entries import config_text, flat
from optimizer.wording.units import change_text

SHOWN_OPS = 20
"""Ops listed unless all are asked for."""
SHOWN_DIGITS = 12
"""Of a SHA-256."""


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
    from optimizer.export.stored import read_document

    record = difference(read_document(args.first), read_document(args.second))
    verdict = None
    if args.fail_over is not None:
        record["fail_over"], verdict = judged(record["summary"]["predicted_time_ns"], args.fail_over)
    paths, most = (one_line(str(args.first)), one_line(str(args.second))), None if args.all else SHOWN_OPS
    print_record(record, args.format, lambda shown: difference_text(shown, *paths, most))
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


def differing_text(record: dict[str, Any]) -> str:
    """What differs as a table, warnings above it."""
    rows: list[tuple[str, str, str]] = []
    model = record["model"]
    if model is not None:
        named = zip(model["names"], model["sha256"], strict=True)
        shown = [f"{name} ({'no file' if sha is None else sha[:SHOWN_DIGITS]})" for name, sha in named]
        rows.append(("model, same graph" if model["same_graph"] else "model", shown[0], shown[1]))
    if record["board"] is not None:
        rows.append(("board", *record["board"]))
    rows += [(name, flat(a), flat(b)) for name, (a, b) in record["options"].items()]
    lines = [f"WARNING: {text}" for text in record["warnings"]]
    lines.append(table(("differs", "A", "B"), rows) if rows else "same model, board and options")
    return "\n".join(lines)


def _figure_rows(record: dict[str, Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for key, name, show in FIGURES:
        before, after = record["summary"][key]
        rows.append((name, show(before), show(after), change_text(before, after)))
    before_ns, after_ns = record["time_by_class_ns"]
    for name in sorted({*before_ns, *after_ns}, key=lambda n: (-max(before_ns.get(n, 0), after_ns.get(n, 0)), n)):
        before, after = before_ns.get(name, 0), after_ns.get(name, 0)
        rows.append((f"  time of {name}", time_text(before), time_text(after), change_text(before, after)))
    return rows


def _op_row(op: dict[str, Any]) -> tuple[object, ...]:
    before, after = op["first"], op["second"]
    change = placed_ns(after) - placed_ns(before)
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
