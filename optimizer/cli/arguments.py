"""Arguments that several commands share, and the options of `Options` as flags."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from optimizer.options import OptionInfo, Options, option_infos, parse_option
from optimizer.process import logs

Commands = Any
"""What `ArgumentParser.add_subparsers` returns; its type is private to argparse."""
RESULT_HELP = "a graph.json, or the folder that holds it"


def add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=("table", "json"), default="table", help="what to print (default: table)")


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """`-v` and `-vv`; of commands without them, `TTOPT_LOG` alone decides."""
    parser.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help=f"tell on stderr what is decided, -vv every step ({logs.VARIABLE} does it room by room, docs/solver.md)",
    )


def path_argument(text: str) -> Path:
    """A path of the command line; an empty text, which would mean the present folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path")
    return Path(text)


def positive(text: str) -> int:
    """A whole number from 1."""
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is no whole number from 1")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """One flag per field of `Options`; absent flags leave the default."""
    group = parser.add_argument_group("options of the optimisation")
    for info in option_infos():
        if info.kind is bool:
            group.add_argument(info.flag, action=argparse.BooleanOptionalAction, default=None, help=_help(info))
        else:
            metavar = info.example or info.name.rpartition("_")[2].upper()
            group.add_argument(info.flag, action="append", dest=info.name, metavar=metavar, help=_help(info))


def options_record(args: argparse.Namespace) -> dict[str, Any]:
    """The options given on the command line, as decoded JSON would hold them."""
    record: dict[str, Any] = {}
    for info in option_infos():
        given = getattr(args, info.name, None)
        if given is not None:
            record[info.name] = given if info.kind is bool else parse_option(info.name, given)
    return record


def options_from(args: argparse.Namespace) -> Options:
    return Options.from_mapping(options_record(args))


def _help(info: OptionInfo) -> str:
    text = info.help
    if info.choices:
        text += f"; one of {', '.join(map(str, info.choices))}"
    if info.default not in (None, "", False):
        text += f" (default: {info.default})"
    return text.replace("%", "%%")
