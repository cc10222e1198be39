"""`ttopt timeline`: L1 while each op runs, as a bar per op, or by value for tools."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from optimizer.cli.arguments import RESULT_HELP, Commands, add_format, path_argument
from optimizer.cli.tables import as_json, bytes_text, percent_text, table
from optimizer.cli.terminal import one_line
from optimizer.errors import OptionError, UnknownNameError
from optimizer.process.csv_text import csv_text

if TYPE_CHECKING:
    from optimizer.answers.timeline import Position, Timeline

BAR_WIDTH = 32
"""Characters of a bar at the limit."""
MARKS = (("weight", "w"), ("tensor", "="), ("result", ">"), ("circular_buffers", "c"), ("temporaries", "t"))
"""Kinds that add up, and what each looks like in a bar."""


def add(commands: Commands) -> None:
    parser = commands.add_parser("timeline", help="what lies in L1 while each op runs", allow_abbrev=False)
    parser.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    parser.add_argument("op", nargs="?", metavar="OP", help="id of an op: what lies in L1 while it runs, by value")
    parser.add_argument("--csv", action="store_true", help="a line per op and value (docs/formats.md)")
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    if args.csv and (args.op is not None or args.format == "json"):
        raise OptionError("--csv lists every op; it goes neither with OP nor with --format json", node="--csv")
    from optimizer.answers.timeline import timeline
    from optimizer.export.reader import read_result

    found = timeline(read_result(args.result))
    if args.csv:
        write_csv(found)
    elif args.op is not None:
        at = position_of(found, args.op)
        shown = [p for p in found.to_json()["positions"] if p["position"] == at.position]
        print(as_json(shown[0]) if args.format == "json" else position_text(at, found.limit_bytes))
    else:
        print(as_json(found.to_json()) if args.format == "json" else timeline_text(found))
    return 0


def position_of(found: Timeline, op: str) -> Position:
    """UnknownNameError for an op that the device does not run."""
    by_op = {p.op: p for p in found.positions}
    if op not in by_op:
        raise UnknownNameError("op", op, by_op)
    return by_op[op]


def write_csv(found: Timeline) -> None:
    from optimizer.answers.timeline import COLUMNS

    print(csv_text(COLUMNS, found.rows()), end="")


def timeline_text(found: Timeline) -> str:
    """A line per op, then what lies in L1 at the peak."""
    if not found.positions:
        return "the device runs no op of this graph"
    header = ("at", "op", "tensors", "results", "buffers", "temporaries", "total", "of limit", "")
    rows = [_row(p, found.limit_bytes) for p in found.positions]
    marks = ", ".join(f"{mark} {kind.replace('_', ' ')}" for kind, mark in MARKS)
    legend = f"bytes per core; a full bar is the limit of {bytes_text(found.limit_bytes)}: {marks}"
    return "\n\n".join([f"{legend}\n{table(header, rows)}", position_text(found.peak, found.limit_bytes, "the peak, ")])


def _row(p: Position, limit: int) -> tuple[str, ...]:
    figures = (
        p.bytes_of("weight", "tensor"), p.bytes_of("result"), p.bytes_of("circular_buffers"),
        p.bytes_of("temporaries"), p.memory.total_bytes,
    )  # fmt: skip
    return (
        str(p.position),
        p.op,
        *map(bytes_text, figures),
        percent_text(p.memory.total_bytes / limit),
        _bar(p, limit),
    )


def _bar(p: Position, limit: int) -> str:
    """Every kind to scale; each begins where the rounded sum of those before it ends."""
    text, total = "", 0
    for kind, mark in MARKS:
        total += p.bytes_of(kind)
        text += mark * (round(total / limit * BAR_WIDTH) - len(text))
    return f"|{text.ljust(BAR_WIDTH)}|"


def position_text(p: Position, limit: int, which: str = "") -> str:
    """What lies in L1 while one op runs, largest first."""
    rows = [
        (item.value or "-", item.kind.replace("_", " "), bytes_text(item.bytes), bytes_text(item.size_bytes),
         item.alias_of or "-", "yes" if item.reserved else "-")
        for item in sorted(p.items, key=lambda item: -item.size_bytes)
    ]  # fmt: skip
    taken = f"{bytes_text(p.memory.total_bytes)} of {bytes_text(limit)}"
    title = f"{which}{one_line(p.op)} ({p.role}) at {p.position}: {taken}"
    extent = f"with the holes between tensors, the runtime's allocator reaches {bytes_text(p.memory.extent_bytes)}"
    header = ("value", "what", "adds", "takes", "in the buffer of", "reserved")
    return f"{title}\n{table(header, rows)}\n{extent}"
