"""Commands on a finished `graph.json`: `check`, `price` and `export`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import RESULT_HELP, Commands, add_format, add_verbosity, path_argument
from optimizer.cli.models import checked_emitters
from optimizer.cli.progress import ProgressBar
from optimizer.cli.tables import as_json, bytes_text, counted, percent_text, print_record, table, time_text
from optimizer.cli.terminal import one_line
from optimizer.errors import OptionError

if TYPE_CHECKING:
    from optimizer.result import OptimizedGraph
    from optimizer.values.check import Checked

Record = dict[str, Any]
SHOWN_ERRORS = 20
"""Errors listed for a person; `--format json` has them all."""


def add(commands: Commands) -> None:
    check = commands.add_parser("check", help="verify a result again, from scratch", allow_abbrev=False)
    check.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    check.add_argument(
        "--model", type=path_argument, metavar="MODEL", help="the model's file: also show that the result computes it"
    )
    check.add_argument("--opmodel", metavar="NAME", help="backend to ask (default: the result's own)")
    check.add_argument(
        "--values",
        choices=("sim", "real"),
        metavar="DEVICE",
        help="also run every distinct op with random operands on a simulator (sim) or this machine's board (real), and "
        "judge what it gives (docs/values.md)",
    )
    check.add_argument(
        "--whole",
        action="store_true",
        help="with --values: run the whole program instead, with random weights, and compare its outputs with "
        "its graph computed in float64",
    )
    check.add_argument(
        "--sample", type=int, metavar="N", help="with --values: at most N distinct ops of each kind and layout class"
    )
    check.add_argument("--seed", type=int, default=0, help="of the operands of --values (default: 0)")
    add_format(check)
    add_verbosity(check)
    check.set_defaults(run=run_check)

    price = commands.add_parser("price", help="verify and price any annotated graph", allow_abbrev=False)
    price.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    add_format(price)
    price.set_defaults(run=run_price)

    export = commands.add_parser("export", help="write artifacts of a finished result", allow_abbrev=False)
    export.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    export.add_argument(
        "-o", "--output", type=path_argument, metavar="DIR", help="folder for the artifacts (default: the result's)"
    )
    export.add_argument(
        "--emit", action="append", required=True, metavar="NAMES", help="what to write, a,b,... (`ttopt emitters`)"
    )
    export.add_argument(
        "--model",
        type=path_argument,
        metavar="MODEL",
        help="the model that the result was made of, for artifacts that need its file (onnx, weights)",
    )
    add_format(export)
    export.set_defaults(run=run_export)


def run_check(args: argparse.Namespace) -> int:
    from optimizer.answers.checking import check_record
    from optimizer.export.reader import read_result

    if args.seed < 0:
        raise OptionError(f"--seed {args.seed} is negative", node="--seed", limit=0)
    if args.whole and not args.values:
        raise OptionError(
            "--whole runs a program on a device: name one by --values", node="--whole", alternatives=("--values sim",)
        )
    if args.sample is not None and (args.sample < 1 or args.whole or not args.values):
        raise OptionError(
            "--sample takes a number of at least 1, beside --values and without --whole",
            node="--sample",
            alternatives=("--values sim --sample 1",),
        )
    result = read_result(args.result)
    record = check_record(result, args.opmodel, args.model)
    if args.whole:
        _add_whole(record, result, args)
    elif args.values:
        _add_values(record, result, args)
    print_record(record, args.format, check_text)
    return 0 if record["ok"] else 1


def _add_values(record: Record, result: OptimizedGraph, args: argparse.Namespace) -> None:
    """What the ops give on a device, and every op that gives something wrong as an error."""
    from optimizer.values.check import check_values

    found = check_values(
        result,
        source=args.values,
        seed=args.seed,
        per_class=args.sample,
        report=_line_of if args.format == "table" else None,
    )
    values = found.record()
    record["values"] = values
    record["errors"] += [
        {"op": c.ops[0], "message": f"{c.query.op} gives wrong values on the device: {c.worst:.3g} times the limit"}
        for c in found.wrong
    ]
    record["not_checked"] += [f"values of {c.ops[0]}: {c.problem}" for c in found.not_run]
    record["ok"] = record["ok"] and found.ok


def _add_whole(record: Record, result: OptimizedGraph, args: argparse.Namespace) -> None:
    """What the program gives on a device, and every wrong output as an error."""
    from optimizer.execution.whole import check_whole

    with ProgressBar(args.result.name) as progress:
        found = check_whole(
            result,
            args.values,
            args.seed,
            report=lambda number, count, op: progress.show(number / max(count, 1), op),
        )
    record["whole"] = found
    record["errors"] += [
        {"op": o["name"], "message": f"the program gives a wrong output: PCC {o['pcc']:.5f}, relative error "
         f"{o['relative_error']:.4f}, ratio {o['ratio']:.4f}"}
        for o in found["outputs"] if not o["ok"]
    ]  # fmt: skip
    record["ok"] = record["ok"] and found["ok"]


def _line_of(checked: Checked) -> None:
    verdict = checked.problem or f"{'right' if checked.ok else 'WRONG'}, {checked.worst:.3g} of the limit"
    print(one_line(f"{checked.ops[0]} ({checked.query.op}): {verdict}"), file=sys.stderr, flush=True)


def run_price(args: argparse.Namespace) -> int:
    from optimizer.answers.checking import price_record
    from optimizer.export.reader import read_result

    result = read_result(args.result)
    record = price_record(result)
    print_record(record, args.format, lambda shown: price_text(shown, one_line(result.device.name)))
    return 0 if record["verified"] else 1


def run_export(args: argparse.Namespace) -> int:
    emitters = checked_emitters(args.emit)
    if not emitters:
        raise OptionError("nothing to write: the graph.json of a result is there already", node="--emit")
    folder: Path = args.output or (args.result if args.result.is_dir() else args.result.parent)
    if folder.exists() and not folder.is_dir():
        raise OptionError("the output must be a folder", node=str(folder))
    from optimizer.export.reader import read_result
    from optimizer.export.registry import emit
    from optimizer.verify import check_soundness

    with ProgressBar(args.result.name) as progress:
        result = read_result(args.result)
        check_soundness(result)
        result.source = args.model
        written = []
        for done, name in enumerate(emitters):
            progress.show(done / len(emitters), name)
            written.append(emit(result, name, folder))
    if args.format == "json":
        print(as_json({"files": [str(path) for path in written]}))
    else:
        for path in written:
            print(f"wrote {path}")
    return 0


def check_text(record: Record) -> str:
    """The verdict first, then what was found wrong, then what the verdict says nothing of."""
    wrong, board = len(record["errors"]), record["board"]
    verdict = "holds" if record["ok"] else f"does NOT hold: {counted(wrong, 'error')}"
    lines = [f"The plan {verdict}; {_steps(record)} on {board}, judged by {record['opmodel']}."]
    lines += _errors(record["errors"])
    if record.get("verify_errors"):
        lines.append(f"Our own rules find {counted(len(record['verify_errors']), 'error')} in it:")
        lines += _errors(record["verify_errors"])
    lines.append(_memory(record))
    if "l1" in record:
        lines.append(_replayed_l1(record["l1"]))
    if record["custom_board"]:
        lines.append(f"The board {board} is none of the presets: nothing vouches for its figures.")
    if record["model"] is not None:
        lines.append(_model(record["model"]))
    if "whole" in record:
        lines += ["", _outputs_table(record["whole"]["outputs"])]
    if record.get("values") is not None:
        lines += ["", _values_table(record["values"])]
    return "\n".join([*lines, "", "Not checked:", *(f"  {text}" for text in record["not_checked"])])


def _errors(errors: list[Record]) -> list[str]:
    """A line on each of the first ones, and how many more there are."""
    lines = [f"  {error['op']}: {error['message']}" for error in errors[:SHOWN_ERRORS]]
    more = len(errors) - len(lines)
    return [*lines, f"  and {more} more, all of them with --format json"] if more else lines


def _steps(record: Record) -> str:
    return f"{counted(record['steps'], 'step')} checked"


def _memory(record: Record) -> str:
    peak, buffers = bytes_text(record["peak_l1_bytes"]), bytes_text(record["peak_cb_bytes"])
    dram = bytes_text(record["peak_dram_bank_bytes"])
    return f"L1 holds at most {peak} per core (circular buffers: {buffers}), a DRAM bank at most {dram}."


def _replayed_l1(l1: Record) -> str:
    text = f"The predicted L1 peak is exact in {l1['exact']} of {counted(l1['steps'], 'step')}"
    if l1["below"]:
        text += f", too low in {l1['below']} (worst: {percent_text(l1['worst_below'])} at {l1['worst_below_op']})"
    if l1["elsewhere"]:
        text += f"; {l1['elsewhere']} of {l1['placed']} tensors lie elsewhere"
    return text + "."


def _model(model: Record) -> str:
    file = "" if model["sha256_stated"] else "; the document does not say which file it came from"
    return f"The graph {'computes' if model['ok'] else 'does NOT compute'} the model{file}."


def _values_table(values: Record) -> str:
    columns = ("queries", "wrong", "not_run", "worst", "gain")
    rows = [(op, *(row[key] for key in columns)) for op, row in values["by_op"].items()]
    return table(("op", "queries", "wrong", "not run", "worst", "gain"), rows)


def _outputs_table(outputs: list[Record]) -> str:
    """Each output beside what rounding alone does to it."""
    figures = ("pcc", "relative_error", "ratio")
    rows = [
        (name, *(f"{found[k]:.6g}" for k in figures))
        for o in outputs
        for name, found in ((o["name"], o), ("  by rounding alone", o["rounding_alone"]))
    ]
    return table(("output", "PCC", "relative error", "ratio"), rows)


def price_text(record: Record, board: str) -> str:
    """The price of a graph that verifies; else why it has none."""
    if not record["verified"]:
        count = counted(len(record["errors"]), "error")
        lines = [f"The graph does NOT verify on {board}, so it has no price: {count}."]
        return "\n".join([*lines, *_errors(record["errors"])])
    read, written = (bytes_text(record[f"dram_{way}_bytes_total"]) for way in ("read", "write"))
    peak, resident = bytes_text(record["l1_peak_bytes"]), percent_text(record["l1_resident_fraction"])
    total, limit = record["predicted_time_ns"], record["limit"]
    lines = [
        f"The graph verifies and takes {time_text(total)} on {board} by the cost model.",
        f"It reads {read} from DRAM and writes {written}; L1 holds at most {peak} per core.",
        f"{resident} of the activation bytes are produced in L1.",
        f"The physical limit is {time_text(limit['limit_ns'])}, {percent_text(limit['of_limit'])} of that time.",
    ]
    classes = sorted(record["by_class"].items(), key=lambda item: (-item[1], item[0]))
    rows = [(name, time_text(ns), percent_text(ns / total if total else None)) for name, ns in classes]
    return "\n".join([*lines, "", table(("class", "time", "share"), rows)])
