"""`ttopt opmodel query` and `ttopt opmodel time`: ask an OpModel backend about rows of a file."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from optimizer.cli.arguments import Commands, path_argument
from optimizer.errors import FormatError


def add(commands: Commands) -> None:
    parser = commands.add_parser("opmodel", help="ask an OpModel backend about single ops", allow_abbrev=False)
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)
    query = subcommands.add_parser("query", help="is each row valid, and what does it take in L1?", allow_abbrev=False)
    query.add_argument("rows", type=path_argument, metavar="ROWS.jsonl[.gz]", help="one op per line (docs/formats.md)")
    query.add_argument("--opmodel", default="analytical", metavar="NAME", help="backend (default: analytical)")
    query.set_defaults(run=run_query)
    time = subcommands.add_parser("time", help="how long does each row take?", allow_abbrev=False)
    time.add_argument("rows", type=path_argument, metavar="ROWS.csv", help="one op per row (docs/formats.md)")
    time.add_argument("--opmodel", default="analytical", metavar="NAME", help="backend (default: analytical)")
    time.set_defaults(run=run_time)


def run_query(args: argparse.Namespace) -> int:
    from optimizer.opmodel.query import query_rows

    for answer in query_rows(read_jsonl(args.rows), args.opmodel):
        print(json.dumps(answer))
    return 0


def run_time(args: argparse.Namespace) -> int:
    from optimizer.opmodel.query import time_rows

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(("id", "predicted_ns"))
    for answer in time_rows(read_csv(args.rows), args.opmodel):
        writer.writerow((answer["id"], answer["predicted_ns"]))
    return 0


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON-lines file, gzipped or not; FormatError names the line."""
    with _opened(path) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _row(line, f"{path} line {number}")
        except (gzip.BadGzipFile, EOFError, UnicodeDecodeError) as error:
            raise FormatError(f"not a readable JSON-lines file: {error}", node=str(path)) from error


def _opened(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _row(line: str, place: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"not JSON: {error}", node=place) from error
    if not isinstance(row, dict):
        raise FormatError("each line holds one JSON object", node=place)
    return row


def read_csv(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file with a header line."""
    with path.open(encoding="utf-8", newline="") as file:
        try:
            yield from csv.DictReader(file)
        except (csv.Error, UnicodeDecodeError) as error:
            raise FormatError(f"not a readable CSV file: {error}", node=str(path)) from error
