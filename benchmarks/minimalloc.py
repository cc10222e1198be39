"""Places the buffers of MiniMalloc's benchmark files (CSV with the columns id, lower, upper, size).

    python benchmarks/minimalloc.py PATH... [--seconds 60] [--capacity N] [--at-least 7]

A path is a file or a folder of `*.csv`. The capacity is the number in the file's name (`A.1048576.csv`) unless it
is given. `upper` is exclusive. Every placement is checked by a sweep that shares nothing with the engines. Prints
one line per file; exits 1 if fewer than `--at-least` files (default: all) were placed or proven impossible.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
import time
from pathlib import Path

from reference_solvers.placement import Lifetime, PlacementStatus, peak_load, place, placement_problem

from optimizer.cli.tables import table
from optimizer.errors import FormatError

COLUMNS = ("lower", "upper", "size")
HEADS = ("file", "buffers", "load / capacity", "answer", "engine", "seconds", "check")


def read(path: Path) -> list[Lifetime]:
    """The buffers of one file; FormatError names the line that is wrong."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
        unknown = sorted(set(rows.fieldnames or ()) - {"id", "offset", *COLUMNS})
        if missing or unknown:
            raise FormatError(f"missing columns: {missing}; columns that change the problem: {unknown}", node=str(path))
        found = []
        for row in rows:
            try:
                found.append(Lifetime(*(int(row[column]) for column in COLUMNS)))
            except (TypeError, ValueError) as error:
                raise FormatError(f"line {rows.line_num}: {error}", node=str(path)) from error
        return found


def capacity_of(path: Path) -> int:
    """The number before `.csv` in a file's name."""
    match = re.search(r"\.(\d+)\.csv$", path.name)
    if match is None:
        raise FormatError("the name holds no capacity (NAME.CAPACITY.csv); give --capacity", node=str(path))
    return int(match[1])


def files(paths: list[Path]) -> list[Path]:
    return [file for path in paths for file in (sorted(path.glob("*.csv")) if path.is_dir() else [path])]


def run(path: Path, capacity: int, seconds: float) -> tuple[bool, list[str]]:
    """Whether the file is settled, and its line of the table."""
    buffers = read(path)
    started = time.perf_counter()
    result = place(buffers, capacity, seconds=seconds)
    took = time.perf_counter() - started
    problem = None if result.addresses is None else placement_problem(buffers, result.addresses, capacity)
    checked = "-" if result.addresses is None else problem or "right"
    load = f"{peak_load(buffers) / capacity:.4f}"
    line = [path.name, str(len(buffers)), load, result.status.value, result.engine, f"{took:.1f}", checked]
    return result.status is not PlacementStatus.UNKNOWN and problem is None, line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("--seconds", type=float, default=60.0, help="limit per file")
    parser.add_argument("--capacity", type=int)
    parser.add_argument("--at-least", type=int, help="files that must be settled (default: all)")
    args = parser.parse_args()
    found = files(args.paths)
    runs = []
    for path in found:
        runs.append(run(path, args.capacity or capacity_of(path), args.seconds))
        print(" ".join(runs[-1][1]), file=sys.stderr, flush=True)
    settled = sum(good for good, _ in runs)
    print(table(HEADS, [line for _, line in runs]))
    print(f"{settled} of {len(runs)} settled within {args.seconds:g} s each")
    return 0 if runs and settled >= (len(runs) if args.at_least is None else args.at_least) else 1


if __name__ == "__main__":
    sys.exit(main())
