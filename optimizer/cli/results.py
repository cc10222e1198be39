"""Commands that judge a finished `graph.json`: `check`, `price`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from optimizer.cli.arguments import Commands, add_format, add_verbosity, path_argument
from optimizer.cli.progress import ProgressBar
from optimizer.cli.tables import print_record
from optimizer.cli.terminal import one_line
from optimizer.cli.values import RESULT_HELP
from optimizer.cli.verdicts import check_text, price_text
from optimizer.errors import OptionError

if TYPE_CHECKING:
    from optimizer.result import OptimizedGraph
    from optimizer.values.check import Checked


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


def _add_values(record: dict[str, Any], result: OptimizedGraph, args: argparse.Namespace) -> None:
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


def _add_whole(record: dict[str, Any], result: OptimizedGraph, args: argparse.Namespace) -> None:
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
