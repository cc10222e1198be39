"""Commands that judge a finished `graph.json`: `check`, `price`."""

from __future__ import annotations

import argparse
from typing import Any

from optimizer.cli.arguments import Commands, add_format, path_argument
from optimizer.cli.tables import as_json, pairs
from optimizer.cli.values import RESULT_HELP, flat


def add(commands: Commands) -> None:
    check = commands.add_parser("check", help="verify a result again, from scratch", allow_abbrev=False)
    check.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    check.add_argument(
        "--model", type=path_argument, metavar="MODEL", help="the model's file: also show that the result computes it"
    )
    check.add_argument("--opmodel", metavar="NAME", help="backend to ask (default: the result's own)")
    add_format(check)
    check.set_defaults(run=run_check)

    price = commands.add_parser("price", help="verify and price any annotated graph", allow_abbrev=False)
    price.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    add_format(price)
    price.set_defaults(run=run_price)


def run_check(args: argparse.Namespace) -> int:
    from optimizer.export.reader import read_result
    from optimizer.recheck import check_record

    return _print_check(check_record(read_result(args.result), args.opmodel, args.model), args.format)


def run_price(args: argparse.Namespace) -> int:
    from optimizer.export.reader import read_result
    from optimizer.recheck import price_record

    record = price_record(read_result(args.result))
    print(as_json(record) if args.format == "json" else pairs((k, flat(v)) for k, v in record.items()))
    return 0 if record["verified"] else 1


def _print_check(record: dict[str, Any], form: str) -> int:
    if form == "json":
        print(as_json(record))
    else:
        print(pairs((k, flat(v)) for k, v in record.items() if k != "errors"))
        for error in record["errors"]:
            print(f"{error['op']}: {error['message']}")
    return 0 if record["ok"] else 1
