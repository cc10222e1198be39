"""`ttopt batch`: many models, or one model over a design space."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.batch.comparison import Pivot, Record, Sweep, failures, pareto, pivot
from optimizer.batch.tables import GEOMETRIC_MEAN
from optimizer.cli.arguments import (
    Commands,
    add_format,
    add_options,
    add_verbosity,
    options_record,
    path_argument,
    positive,
)
from optimizer.cli.interruption import interrupted_by_signals
from optimizer.cli.progress import BatchProgress
from optimizer.cli.tables import bytes_text, counted, percent_text, print_record, table, time_text
from optimizer.errors import OptionError, shortened
from optimizer.options import value_text
from optimizer.wording.units import change_text

if TYPE_CHECKING:
    from optimizer.batch.executor import Executor

LARGEST_DEADLINE = 10**6
"""In seconds."""
MOST_ROWS = 200
"""Of a table; the files hold the others."""


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


def results_text(records: Sequence[Record], sweep: Sweep) -> str:
    """The results, times side by side, the Pareto front; models that fail come once, last."""
    good = [record for record in records if record["ok"]]
    blocks = [_results(good, tuple(sweep))] if good else []
    if sweep and good:
        blocks += [_pivot(pivot(records, sweep)), _front(pareto(records), tuple(sweep))]
    bad = len(records) - len(good)
    failed = [_failure(model, messages, bool(sweep)) for model, messages in failures(records)]
    blocks.append("\n".join([f"{len(good)} done, {bad} failed", *failed]))
    return "\n\n".join(blocks)


def _results(records: Sequence[Record], swept: Sequence[str]) -> str:
    compared = any("earlier_ns" in record for record in records)
    header = ["model", *swept, "status", "gap", "ops", "unsupported", "reshards", "loads", "spills"]
    header += ["L1 peak", "in L1", "DRAM", "plan", "change", "of limit"]
    header += [*(["earlier", "change"] if compared else []), "s"]
    rows = [_row(record, swept, compared) for record in records[:MOST_ROWS]]
    return _cut(table(header, rows), len(records))


def _row(record: Record, swept: Sequence[str], compared: bool) -> list[object]:
    plan_ns, dram_ns, earlier_ns = record["predicted_time_ns"], record["dram_ns"], record.get("earlier_ns")
    return [
        record["model"],
        *(value_text(record[name]) for name in swept),
        record["status"] if record["stopped"] is None else f"{record['status']}, stopped",
        percent_text(record["gap"]),
        record["ops"],
        record["unsupported"],
        record["reshards"],
        record["loads"],
        record["spills"],
        bytes_text(record["l1_peak_bytes"]),
        percent_text(record["l1_resident_fraction"]),
        time_text(dram_ns),
        time_text(plan_ns),
        change_text(dram_ns, plan_ns),
        percent_text(record.get("of_limit")),
        *([time_text(earlier_ns), change_text(earlier_ns, plan_ns)] if compared else []),
        f"{record['seconds']:.1f}",
    ]


def _pivot(times: Pivot) -> str:
    rows: list[list[object]] = [[model, *(time_text(t) for t in row)] for model, row in times.rows[:MOST_ROWS]]
    ratios = ["-" if ratio is None else f"x {ratio:.3f}" for ratio in times.ratios]
    text = table(["predicted time", *times.points], [*rows, [GEOMETRIC_MEAN, *ratios]])
    return _cut(text, len(times.rows))


def _front(records: Sequence[Record], swept: Sequence[str]) -> str:
    others = [name for name in swept if name != "board"]
    header = ["fastest for its L1 peak", "board", *others, "plan", "L1 peak"]
    rows = [
        [
            r["model"],
            r["board"],
            *(value_text(r[name]) for name in others),
            time_text(r["predicted_time_ns"]),
            bytes_text(r["l1_peak_bytes"]),
        ]
        for r in records[:MOST_ROWS]
    ]
    return _cut(table(header, rows), len(records))


def _cut(text: str, rows: int) -> str:
    return text if rows <= MOST_ROWS else f"{text}\n... {counted(rows - MOST_ROWS, 'more row')} in the files"


def _failure(model: str, messages: Sequence[tuple[str, int]], swept: bool) -> str:
    """A model and what became of it, in one line if it failed alike everywhere."""
    told = [f"{f' ({counted(count, "point")})' if swept else ''}: {shortened(text)}" for text, count in messages]
    return f"FAILED {model}{told[0]}" if len(told) == 1 else "\n ".join([f"FAILED {model}", *told])
