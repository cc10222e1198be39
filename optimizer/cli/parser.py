"""The argument parser: every command registers itself, mistakes are answered with near matches."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NoReturn

from optimizer.cli import (
    asm,
    batch,
    chains,
    diff,
    explain,
    kernel,
    models,
    names,
    opmodel,
    results,
    run,
    serve,
    timeline,
    top,
)
from optimizer.errors import InputError, near
from optimizer.process.logs import VARIABLE
from optimizer.process.version import __version__

COMMANDS = (
    models, top, explain, chains, timeline, results, run, diff, batch, opmodel, kernel, asm, names, serve,
)  # fmt: skip
"""Modules with `add(commands)`, in the order of `ttopt --help`."""


class UsageError(InputError):
    """The command line itself is wrong."""

    code = "bad-usage"


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print its usage and exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see `{self.prog} --help`)")


def build_parser() -> Parser:
    parser = Parser(
        prog="ttopt",
        description="Chooses tensor layouts, shardings and op configs for TTNN graphs on Tenstorrent boards.",
        epilog=f"What is decided is told on stderr by -v, or by {VARIABLE} room by room (docs/solver.md).",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ttopt {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    for module in COMMANDS:
        module.add(commands)
    return parser


def parse(parser: Parser, argv: Sequence[str]) -> argparse.Namespace:
    """Parsed arguments; unknown commands and flags raise UsageError with what comes near."""
    commands = command_parsers(parser)
    words = [word for word in argv if not word.startswith("-")]
    if words and words[0] not in commands:
        raise UsageError(f"unknown command '{words[0]}'{near(words[0], commands)} (see `ttopt --help`)")
    args, unknown = parser.parse_known_args(argv)
    if unknown:
        chosen = _innermost(parser, args)
        flags = [flag for action in chosen._actions for flag in action.option_strings]
        word = unknown[0].partition("=")[0]
        kind = "unknown option" if word.startswith("-") else "unexpected argument"
        raise UsageError(f"{kind} '{word}'{near(word, flags)} (see `{chosen.prog} --help`)")
    if args.command is None:
        raise UsageError(f"a command is needed: {', '.join(commands)} (see `ttopt --help`)")
    return args


def command_parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The sub-commands of a parser by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _innermost(parser: argparse.ArgumentParser, args: argparse.Namespace) -> argparse.ArgumentParser:
    for name in (args.command, getattr(args, "subcommand", None)):
        parser = command_parsers(parser).get(name or "", parser)
    return parser
