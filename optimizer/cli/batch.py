"""`ttopt batch`: many models, or one model over a design space."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from optimizer.cli.arguments import Commands, add_format, add_options, add_verbosity, options_record, path_argument
from optimizer.cli.tables import as_json, bytes_text, percent_text, table, time_text
from optimizer.errors import OptionError

LARGEST = 10**6
"""Most worker processes, and longest deadline in seconds."""


def add(commands: Commands) -> None:
    parser = commands.add_parser("batch", help="optimize many models, or sweep options", allow_abbrev=False)
    parser.add_argument("models", nargs="+", type=path_argument, metavar="MODEL", help="models, or folders of models")
    parser.add_argument(
        "-o", "--output", type=path_argument, required=True, metavar="DIR", help="folder for all results"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help="worker processes (default: one per core)")
    parser.add_argument("--resume", action="store_true", help="keep what an earlier run into DIR finished")
    parser.add_argument(
        "--deadline", type=float, metavar="SECONDS", help="stop a job after this long; it counts as failed"
    )
    parser.add_argument(
        "--sweep", action="append", default=[], metavar="OPTION=V1,V2", help="try every value; may be repeated"
    )
    parser.add_argument(
        "--emit", action="append", default=[], metavar="NAMES", help="more artifacts, a,b,... (`ttopt emitters`)"
    )
    add_format(parser)
    add_verbosity(parser)
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from optimizer.batch.local import LocalExecutor
    from optimizer.batch.plan import parse_sweep, plan_jobs
    from optimizer.batch.run import run_batch
    from optimizer.cli.models import checked_emitters

    for name, value in (("--jobs", args.jobs), ("--deadline", args.deadline)):
        if value is not None and not 0 < value <= LARGEST:
            raise OptionError(f"'{name}' must be positive and at most {LARGEST}, got {value:g}", limit=LARGEST)
    sweep = parse_sweep(args.sweep)
    jobs = plan_jobs(args.models, options_record(args), sweep, checked_emitters(args.emit))
    executor = LocalExecutor(args.jobs, args.deadline)
    try:
        records = run_batch(jobs, executor, args.output, LiveLine(), resume=args.resume)
    finally:
        executor.close()
    print(as_json(records) if args.format == "json" else results_text(records, list(sweep)))
    print(f"wrote {args.output / 'results.csv'}, {args.output / 'results.json'}", file=sys.stderr)
    return 0 if all(record["ok"] for record in records) else 1


class LiveLine:
    """Progress on stderr: one rewritten line on a terminal, one line per job elsewhere."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._failed = 0

    def __call__(self, record: dict[str, Any], done: int, count: int) -> None:
        self._failed += not record["ok"]
        if sys.stderr.isatty():
            rate = done / max(time.monotonic() - self._started, 1e-3)
            text = f"{done}/{count}  {rate:.1f}/s  {self._failed} failed  eta {(count - done) / rate:.0f} s"
            end = "\n" if done == count else ""
            print(f"\r\x1b[K{text}", end=end, file=sys.stderr, flush=True)
        else:
            verdict = "done" if record["ok"] else "FAILED"
            print(f"[{done}/{count}] {record['name']} {verdict}, {record['seconds']} s", file=sys.stderr)


def results_text(records: list[dict[str, Any]], swept: list[str]) -> str:
    """The results table, then the failures."""
    good = [record for record in records if record["ok"]]
    bad = [record for record in records if not record["ok"]]
    header = (
        "result",
        *swept,
        "ops",
        "unsupported",
        "reshards",
        "loads",
        "spills",
        "L1 peak",
        "in L1",
        "DRAM",
        "plan",
        "s",
    )
    blocks = [table(header, [_row(record, swept) for record in good])] if good else []
    blocks.append(f"{len(good)} done, {len(bad)} failed")
    blocks += [f"FAILED {record['name']}: {record['error']['message']}" for record in bad]
    return "\n".join(blocks)


def _row(record: dict[str, Any], swept: list[str]) -> list[object]:
    return [
        record["name"],
        *(record[name] for name in swept),
        record["ops"],
        record["unsupported"],
        record["reshards"],
        record["loads"],
        record["spills"],
        bytes_text(record["l1_peak_bytes"]),
        percent_text(record["l1_resident_fraction"]),
        time_text(record["dram_ns"]),
        time_text(record["predicted_time_ns"]),
        f"{record['seconds']:.1f}",
    ]
