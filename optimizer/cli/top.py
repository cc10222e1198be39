"""`ttopt top`: where the predicted time of a result goes, op by op or added up, and what bounds it."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from typing import Any

from optimizer.cli.arguments import RESULT_HELP, Commands, add_format, path_argument, positive
from optimizer.cli.tables import counted, percent_text, print_record, table, time_text
from optimizer.errors import FormatError
from optimizer.ir.vocabulary import opdef
from optimizer.wording.entries import layout_text
from optimizer.wording.plan import Document

COUNT = 15
"""Rows unless more are asked for."""
KERNEL = "kernel "
"""Begins the call of one of our kernels, before its name."""
Op = dict[str, Any]
GROUPS: dict[str, Callable[[Op], str]] = {
    "op": lambda op: str(op["id"]),
    "call": lambda op: str(op["op"]),
    "class": lambda op: _class(op["op"]),
    "bound": lambda op: str(op["predicted"]["bound"]),
    "role": lambda op: str(op["role"]),
    "chain": lambda op: op["chain"] or "-",
}
"""What the ops may be added up by."""


def _class(op: str) -> str:
    """The class that the summary counts an op's time in."""
    from optimizer.limit.predictions import FUSED

    return FUSED if op.startswith(KERNEL) else opdef(op).cost_class.value


def add(commands: Commands) -> None:
    parser = commands.add_parser("top", help="the ops that take longest, and what bounds them", allow_abbrev=False)
    parser.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    parser.add_argument("--by", choices=tuple(GROUPS), default="op", help="what to add up by (default: op)")
    parser.add_argument("--count", type=positive, default=COUNT, metavar="N", help=f"rows to show (default: {COUNT})")
    parser.add_argument("--all", action="store_true", help="show every row")
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from optimizer.export.stored import read_document

    record = ranking(read_document(args.result), args.by, None if args.all else args.count)
    print_record(record, args.format, ranking_text)
    return 0


def ranking(document: Document, by: str = "op", count: int | None = None) -> dict[str, Any]:
    """The groups that take longest, longest first, with their share of the whole and the sum of the shares so far.

    `bound_ns` says how much of a group's time each resource bounds, `limit_ns` what it would take at its physical
    limit. FormatError where the document predicts nothing.
    """
    ops = [op for op in _as_run(document) if op["predicted"] is not None]
    if not ops:
        raise FormatError("the result states no predicted times; `ttopt price` computes what it would take")
    groups: dict[str, list[Op]] = {}
    for op in ops:
        groups.setdefault(GROUPS[by](op), []).append(op)
    total = sum(_ns(op) for op in ops)
    rows: list[dict[str, Any]] = []
    spent = 0
    for name, members in sorted(groups.items(), key=lambda item: -sum(map(_ns, item[1]))):
        time_ns = sum(map(_ns, members))
        spent += time_ns
        row = {"name": name, "ops": len(members), "time_ns": time_ns, "share": _share(time_ns, total)}
        row |= {"cumulative_share": _share(spent, total), "bound_ns": _bounds(members), "limit_ns": _limit(members)}
        rows.append({**row, **_details(document, members[0])} if by == "op" else row)
    return {
        "model": document["model"]["name"],
        "board": document["device"]["name"],
        "predicted_time_ns": total,
        "ops": len(ops),
        "by": by,
        "rows": rows[:count],
        "left_out": len(rows) - len(rows[:count]),
    }


def _as_run(document: Document) -> list[Op]:
    """The ops, with one op in the place of those that run as one of our kernels."""
    kernels = [k for k in document.get("fused_kernels", ()) if k.get("predicted_ns") is not None]
    inside = {op_id for kernel in kernels for op_id in kernel["ops"]}
    at = {kernel["place"]: kernel for kernel in kernels}
    found = []
    for op in document["ops"]:
        if op["id"] in at:
            kernel = at[op["id"]]
            spent = {"time_ns": kernel["predicted_ns"], "bound": kernel["bound"], "cores": kernel["cores"]}
            call = f"{KERNEL}{kernel['kernel']}"
            found.append({**op, "op": call, "outputs": kernel["outputs"], "predicted": {**spent, "limit_ns": None}})
        elif op["id"] not in inside:
            found.append(op)
    return found


def _ns(op: Op) -> int:
    return int(op["predicted"]["time_ns"])


def _share(part: int, total: int) -> float:
    return round(part / total, 6) if total else 0.0


def _bounds(members: list[Op]) -> dict[str, int]:
    spent: Counter[str] = Counter()
    for op in members:
        spent[op["predicted"]["bound"]] += _ns(op)
    return dict(sorted(spent.items(), key=lambda item: (-item[1], item[0])))


def _limit(members: list[Op]) -> int | None:
    """The sum of the ops' own limits; None where one has none of its own (our kernels, older documents)."""
    limits = [op["predicted"].get("limit_ns") for op in members]
    return None if None in limits else sum(limits)


def _details(document: Document, op: Op) -> dict[str, Any]:
    """What an op is beside its time."""
    layouts = (document["values"][v]["layout"] for v in op["outputs"])
    return {
        "call": op["op"],
        "role": op["role"],
        "origin": op["origin"],
        "cores": op["predicted"]["cores"],
        "layouts": [None if layout is None else layout_text(layout) for layout in layouts],
    }


def ranking_text(record: dict[str, Any]) -> str:
    rows, by = record["rows"], record["by"]
    total, count = time_text(record["predicted_time_ns"]), counted(record["ops"], "op")
    title = f"{record['model']} on {record['board']}: {total} predicted for {count}"
    if record["left_out"]:
        title += f"; the {len(rows)} longest of {len(rows) + record['left_out']} take"
        title += f" {percent_text(rows[-1]['cumulative_share'])} of it"
    shares = ("time", "share", "sum")
    if by == "op":
        header = ("op", "call", *shares, "bound by", "of limit", "cores", "result")
        return f"{title}\n\n{table(header, map(_op_row, rows))}"
    bound = ("bound by",) if by != "bound" else ()
    cells = [
        (row["name"], str(row["ops"]), *_times(row), _of_limit(row), *(_bound_text(row) for _ in bound)) for row in rows
    ]
    return f"{title}\n\n{table((by, 'ops', *shares, 'of limit', *bound), cells)}"


def _of_limit(row: dict[str, Any]) -> str:
    return "-" if row["limit_ns"] is None else percent_text(_share(row["limit_ns"], row["time_ns"]))


def _times(row: dict[str, Any]) -> tuple[str, str, str]:
    return time_text(row["time_ns"]), percent_text(row["share"]), percent_text(row["cumulative_share"])


def _op_row(row: dict[str, Any]) -> tuple[str, ...]:
    call, bound = row["call"].removeprefix("ttnn."), _bound_text(row)
    return (row["name"], call, *_times(row), bound, _of_limit(row), str(row["cores"]),
            "; ".join(str(layout) for layout in row["layouts"]))  # fmt: skip


def _bound_text(row: dict[str, Any]) -> str:
    """`dram`, or what each resource bounds of a group."""
    bounds = row["bound_ns"]
    if len(bounds) == 1:
        return str(next(iter(bounds)))
    return ", ".join(f"{name} {percent_text(_share(ns, row['time_ns']))}" for name, ns in bounds.items())
