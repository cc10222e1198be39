"""`ttopt batch`: many models, or one model over a design space."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.cli.arguments import (
    Commands,
    add_format,
    add_options,
    add_verbosity,
    options_record,
    path_argument,
    positive,
)
from optimizer.cli.batch_progress import BatchProgress
from optimizer.cli.batch_text import results_text
from optimizer.cli.interruption import interrupted_by_signals
from optimizer.cli.tables import print_record
from optimizer.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.batch.executor import Executor

LARGEST_DEADLINE = 10**6
"""In seconds."""


def add(commands: Commands) -> None:
    parser = commands.add_parser("batch", help="optimize many models, or sweep options", allow_abbrev=False)
    parser.add_argument("models", nargs="+", type=path_argument, metavar="MODEL", help="models, or folders of models")
    parser.add_argument(
        "-o", "--output", type=path_argument, required=True, metavar="DIR", help="folder for all results"
    )
    parser.add_argument("--jobs", type=positive, metavar="N", help="worker processes (default: one per core)")
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
    parser.add_argument("--against", type=path_argument, metavar="DIR", help="compare with an earlier batch, by name")
    parser.add_argument("--parquet", action="store_true", help="write results.parquet too (extra `parquet`)")
    parser.add_argument(
        "--cluster", metavar="ADDRESS", help="run on a Dask cluster, as tcp://HOST:PORT (extra `dask`); without --jobs"
    )
    add_format(parser)
    add_verbosity(parser)
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from optimizer.batch.plan import parse_sweep, plan_jobs
    from optimizer.batch.run import run_batch
    from optimizer.batch.tables import read_records, require_parquet, table_names
    from optimizer.cli.models import checked_emitters

    if args.deadline is not None and not 0 < args.deadline <= LARGEST_DEADLINE:
        message = f"'--deadline' must be positive and at most {LARGEST_DEADLINE}, got {args.deadline:g}"
        raise OptionError(message, limit=LARGEST_DEADLINE)
    if args.parquet:
        require_parquet()
    _refuse_output_among_models(args.models, args.output)
    sweep = parse_sweep(args.sweep)
    earlier = None if args.against is None else read_records(args.against)
    jobs = plan_jobs(args.models, options_record(args), sweep, checked_emitters(args.emit))
    executor = _executor(args)
    try:
        with interrupted_by_signals(), BatchProgress() as progress:
            records = run_batch(jobs, executor, args.output, progress, sweep, args.resume, earlier, args.parquet)
    finally:
        executor.close()
    print_record(records, args.format, lambda shown: results_text(shown, sweep))
    written = ", ".join(str(args.output / name) for name in table_names(bool(sweep), args.parquet))
    print(f"wrote {written}", file=sys.stderr)
    return 0 if all(record["ok"] for record in records) else 1


def _executor(args: argparse.Namespace) -> Executor:
    if args.cluster is None:
        from optimizer.batch.local import LocalExecutor

        return LocalExecutor(args.jobs, args.deadline)
    if args.jobs is not None:
        raise OptionError("'--jobs' is for this machine's processes; a cluster has as many as its workers have threads")
    from optimizer.batch.cluster import ClusterExecutor

    return ClusterExecutor(args.cluster, args.deadline)


def _refuse_output_among_models(models: Sequence[Path], output: Path) -> None:
    """OptionError if the next batch would take the tables of this one for models."""
    if any(folder.is_dir() and folder.resolve() == output.resolve() for folder in models):
        message = f"results would lie among the models in '{output}'"
        raise OptionError(message, node="output", alternatives=("another folder", str(output / "out")))
