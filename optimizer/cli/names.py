"""Commands that list what there is, and `ttopt schema`."""

from __future__ import annotations

import argparse

from optimizer.cli.arguments import Commands, add_format, path_argument
from optimizer.cli.tables import as_json, bytes_text, pairs, table
from optimizer.device import DeviceSpec, preset_names
from optimizer.process.registered import OPMODELS, POLICIES


def add(commands: Commands) -> None:
    for name, text, run in (
        ("boards", "list the boards", run_boards),
        ("policies", "list the memory layout policies", run_policies),
        ("opmodels", "list the OpModel backends", run_opmodels),
        ("emitters", "list what `--emit` can write", run_emitters),
    ):
        parser = commands.add_parser(name, help=text, allow_abbrev=False)
        add_format(parser)
        parser.set_defaults(run=run)
    schema = commands.add_parser("schema", help="write the JSON Schemas of the file formats", allow_abbrev=False)
    schema.add_argument(
        "-o", "--output", type=path_argument, required=True, metavar="DIR", help="folder to write them to"
    )
    schema.set_defaults(run=run_schema)


def run_boards(args: argparse.Namespace) -> int:
    boards = [DeviceSpec.preset(name) for name in preset_names()]
    if args.format == "json":
        print(as_json([board.to_json() for board in boards]))
        return 0
    rows = [
        (
            b.name,
            b.arch,
            f"{b.grid_yx[0]}x{b.grid_yx[1]}",
            bytes_text(b.cb_limit_bytes),
            b.dram_banks,
            f"{b.dram_peak_gbps:.0f}",
            b.clock_mhz,
        )
        for b in boards
    ]
    print(table(("board", "arch", "cores (y x x)", "L1 per core", "DRAM banks", "DRAM GB/s", "MHz"), rows))
    return 0


def run_policies(args: argparse.Namespace) -> int:
    return _print_described(POLICIES.descriptions(), args.format)


def run_opmodels(args: argparse.Namespace) -> int:
    return _print_described(OPMODELS.descriptions(), args.format)


def run_emitters(args: argparse.Namespace) -> int:
    from optimizer.export.registry import emitter_descriptions

    return _print_described(emitter_descriptions(), args.format)


def run_schema(args: argparse.Namespace) -> int:
    from optimizer.export.schema import write_schemas

    for path in write_schemas(args.output):
        print(path)
    return 0


def _print_described(described: dict[str, str], form: str) -> int:
    if form == "json":
        print(as_json([{"name": name, "description": text} for name, text in described.items()]))
    else:
        print(pairs(described.items()))
    return 0
