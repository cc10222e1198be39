"""`ttopt export`: artifacts of a finished result."""

from __future__ import annotations

import argparse
from pathlib import Path

from optimizer.cli.arguments import Commands, add_format, path_argument
from optimizer.cli.models import checked_emitters
from optimizer.cli.progress import ProgressBar
from optimizer.cli.tables import as_json
from optimizer.cli.values import RESULT_HELP
from optimizer.errors import OptionError


def add(commands: Commands) -> None:
    parser = commands.add_parser("export", help="write artifacts of a finished result", allow_abbrev=False)
    parser.add_argument("result", type=path_argument, metavar="RESULT", help=RESULT_HELP)
    parser.add_argument(
        "-o", "--output", type=path_argument, metavar="DIR", help="folder for the artifacts (default: the result's)"
    )
    parser.add_argument(
        "--emit", action="append", required=True, metavar="NAMES", help="what to write, a,b,... (`ttopt emitters`)"
    )
    parser.add_argument(
        "--model",
        type=path_argument,
        metavar="MODEL",
        help="the model that the result was made of, for artifacts that need its file (onnx, weights)",
    )
    add_format(parser)
    parser.set_defaults(run=run_export)


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
