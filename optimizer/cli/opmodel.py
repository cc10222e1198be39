"""`ttopt opmodel`: ask an OpModel backend about rows of a file (`query`, `time`), look after kept answers (`cache`)."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from optimizer.cli.arguments import Commands, add_format, path_argument
from optimizer.cli.tables import as_json, bytes_text, table
from optimizer.errors import FormatError, LimitError, OptionError
from optimizer.process.csv_text import csv_lines
from optimizer.process.json_document import MAX_BYTES, decoded

if TYPE_CHECKING:
    from optimizer.opmodel.answer_cache import AnswerCache


def add(commands: Commands) -> None:
    parser = commands.add_parser("opmodel", help="ask an OpModel backend about single ops", allow_abbrev=False)
    subcommands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="subcommand", required=True)
    query = subcommands.add_parser("query", help="is each row valid, and what does it take in L1?", allow_abbrev=False)
    query.add_argument("rows", type=path_argument, metavar="ROWS.jsonl[.gz]", help="one op per line (docs/formats.md)")
    query.add_argument("--opmodel", default="analytical", metavar="NAME", help="backend (default: analytical)")
    query.add_argument("--jobs", type=_jobs, metavar="N", help="processes that ask at once, where the backend has any")
    query.set_defaults(run=run_query)
    time = subcommands.add_parser("time", help="how long does each row take?", allow_abbrev=False)
    time.add_argument("rows", type=path_argument, metavar="ROWS.csv", help="one op per row (docs/formats.md)")
    time.add_argument("--opmodel", default="analytical", metavar="NAME", help="backend (default: analytical)")
    time.set_defaults(run=run_time)
    _add_cache(subcommands)


def _add_cache(commands: Commands) -> None:
    cache = commands.add_parser("cache", help="answers kept of slow backends (docs/ttmetal.md)", allow_abbrev=False)
    subcommands = cache.add_subparsers(title="commands", metavar="COMMAND", dest="cache_command", required=True)
    stats = subcommands.add_parser("stats", help="what is kept, and how much room it takes", allow_abbrev=False)
    add_format(stats)
    stats.set_defaults(run=run_cache_stats)
    clear = subcommands.add_parser("clear", help="remove every answer", allow_abbrev=False)
    clear.set_defaults(run=run_cache_clear)
    export = subcommands.add_parser("export", help="print every answer, one JSON object per line", allow_abbrev=False)
    export.set_defaults(run=run_cache_export)
    take = subcommands.add_parser("import", help="take over exported answers", allow_abbrev=False)
    take.add_argument("answers", type=path_argument, metavar="ANSWERS.jsonl[.gz]", help="what `export` printed")
    take.set_defaults(run=run_cache_import)


def _jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1, got '{text}'")
    return int(text)


def run_query(args: argparse.Namespace) -> int:
    from optimizer.opmodel.query import query_rows

    for answer in query_rows(read_jsonl(args.rows), args.opmodel, args.jobs):
        print(json.dumps(answer))
    return 0


def run_time(args: argparse.Namespace) -> int:
    from optimizer.opmodel.query import time_rows

    for line in csv_lines(("id", "predicted_ns"), time_rows(read_csv(args.rows), args.opmodel)):
        print(line, end="")
    return 0


def run_cache_stats(args: argparse.Namespace) -> int:
    statistics = _cache().statistics()
    if args.format == "json":
        print(as_json(statistics.to_json()))
        return 0
    size, cap = bytes_text(statistics.bytes), bytes_text(statistics.max_bytes)
    print(f"{statistics.path}: {statistics.answers} answers, {size} of at most {cap}")
    rows = [
        [c.version, c.build, c.board, str(c.l1_small_bytes), c.source, str(count)] for c, count in statistics.contexts
    ]
    if rows:
        print(table(("version", "build", "board", "l1_small", "device", "answers"), rows))
    return 0


def run_cache_clear(args: argparse.Namespace) -> int:
    print(f"{_cache().clear()} answers removed", file=sys.stderr)
    return 0


def run_cache_export(args: argparse.Namespace) -> int:
    for line in _cache().export_lines():
        print(line)
    return 0


def run_cache_import(args: argparse.Namespace) -> int:
    count = _cache().import_records(read_jsonl(args.answers))
    print(f"{count} answers taken over", file=sys.stderr)
    return 0


def _cache() -> AnswerCache:
    from optimizer.opmodel.answer_cache import PATH_VARIABLE, shared_cache

    cache = shared_cache()
    if cache is None:
        raise OptionError(f"there is no answer cache: {PATH_VARIABLE} is 'off'")
    return cache


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a JSON-lines file, gzipped or not; FormatError names the line."""
    with _opened(path) as lines:
        try:
            for number, line in enumerate(_lines(lines, path), start=1):
                if line.strip():
                    yield _row(line, f"{path} line {number}")
        except (gzip.BadGzipFile, EOFError, UnicodeDecodeError) as error:
            raise FormatError(f"not a readable JSON-lines file: {error}", node=str(path)) from error


def _opened(path: Path) -> IO[str]:
    return gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")


def _lines(file: IO[str], path: Path) -> Iterator[str]:
    """Lines of a file; LimitError at one that is longer than a document may be."""
    while line := file.readline(MAX_BYTES):
        if len(line) == MAX_BYTES:
            raise LimitError(f"a line of more than {MAX_BYTES >> 20} MiB", node=str(path), limit=MAX_BYTES)
        yield line


def _row(line: str, place: str) -> dict[str, Any]:
    row = decoded(line, place)
    if not isinstance(row, dict):
        raise FormatError("each line holds one JSON object", node=place)
    return row


def read_csv(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a CSV file with a header line."""
    with path.open(encoding="utf-8", newline="") as file:
        try:
            yield from csv.DictReader(_lines(file, path))
        except (csv.Error, UnicodeDecodeError) as error:
            raise FormatError(f"not a readable CSV file: {error}", node=str(path)) from error
