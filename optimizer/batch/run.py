"""Run the jobs of a batch and collect their records."""

from __future__ import annotations

import csv
import io
import json
import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from optimizer import logs
from optimizer.batch.executor import Executor, JobFailure, Outcome
from optimizer.batch.plan import BatchJob
from optimizer.batch.store import ResultStore
from optimizer.deadline import hard_deadline
from optimizer.errors import TtoptError
from optimizer.export.annotated_json import FILE_NAME
from optimizer.export.registry import emit
from optimizer.files import make_folder, write_text
from optimizer.result import OptimizedGraph

log = logging.getLogger(__name__)

FIGURES = (
    "status",
    "policy",
    "opmodel",
    "predicted_time_ns",
    "ops",
    "reshards",
    "loads",
    "spills",
    "dram_read_bytes_total",
    "dram_write_bytes_total",
    "l1_peak_bytes",
    "l1_limit_bytes",
    "dram_peak_bank_bytes",
    "l1_resident_fraction",
    "gap",
)
"""Entries of a result's summary that become columns of the results table."""

Record = dict[str, Any]
Report = Callable[[Record, int, int], None]
"""Called after every job with its record, the number of finished jobs and of all jobs."""


def optimize_job(job: BatchJob, folder: Path) -> Record:
    """Runs in a worker: optimize one model, write its artifacts, return its figures."""
    from optimizer.pipeline import optimize_file

    with logs.labelled(job=job.name), hard_deadline(job.options.time_limit):
        result = optimize_file(job.source, job.options)
    for name in ("json", *job.emit):
        emit(result, name, folder)
    return figures(result)


def figures(result: OptimizedGraph) -> Record:
    """The row of a result: chosen entries of its summary, and the DRAM baseline beside them."""
    summary = result.summary.to_json()
    return {
        **{name: summary[name] for name in FIGURES},
        "dram_ns": summary["baselines"]["dram_ns"],
        "unsupported": len(summary["unsupported"]),
        "refused": None if summary["check"] is None else len(summary["check"]["refused"]),
    }


def run_batch(
    jobs: Iterable[BatchJob], executor: Executor, output: Path, report: Report, resume: bool = False
) -> list[Record]:
    """Records of all jobs, successes in the order of the jobs, failures last.

    Each record holds `name`, `model`, `board`, the swept options, `ok`, `seconds`, and the figures of
    the result or an `error`. With `resume`, jobs that succeeded before (same key, results still there)
    are taken from the store under `output`. Writes `results.csv` and `results.json`, also when interrupted.
    """
    listed = list(jobs)
    records: dict[str, Record] = {}
    store = ResultStore(output / "results.sqlite")
    try:
        by_key = {job.key: job for job in listed}
        for job in listed:
            known = store.succeeded(job.key) if resume and (output / job.name / FILE_NAME).is_file() else None
            if known is not None:
                records[job.name] = known
                report(known, len(records), len(listed))
            else:
                executor.submit(job.key, partial(optimize_job, job, output / job.name))
        for outcome in executor.as_completed():
            job = by_key[outcome.key]
            record = _record(job, outcome)
            store.put(job.key, job.name, record["ok"], record)
            records[job.name] = record
            report(record, len(records), len(listed))
    finally:
        store.close()
        ordered = [records[job.name] for job in listed if job.name in records]
        ordered.sort(key=lambda record: not record["ok"])
        write_results(ordered, output)
    return ordered


def _record(job: BatchJob, outcome: Outcome) -> Record:
    record: Record = {
        "name": job.name,
        "model": str(job.source),
        "board": job.options.board,
        **job.swept,
        "ok": outcome.error is None,
        "seconds": round(outcome.seconds, 3),
    }
    if outcome.error is None and outcome.value["refused"]:
        message = f"{outcome.value['refused']} op(s) refused by '{job.options.check}' (`summary.check` of the result)"
        return {**record, **outcome.value, "ok": False, "error": {"code": "check-failed", "message": message}}
    if outcome.error is None:
        return {**record, **outcome.value}
    if isinstance(outcome.error, JobFailure):
        log.error("%s: a defect of ttopt, please report it\n%s", job.name, outcome.error.traceback)
    code = outcome.error.code if isinstance(outcome.error, TtoptError) else type(outcome.error).__name__
    return {**record, "error": {"code": code, "message": str(outcome.error)}}


def write_results(records: list[Record], folder: Path) -> None:
    """`results.json` and `results.csv` (one row per job, `error` as text)."""
    make_folder(folder)
    write_text(folder / "results.json", json.dumps(records, indent=1) + "\n")
    columns = list(dict.fromkeys(key for record in records for key in record))
    rows = io.StringIO(newline="")
    writer = csv.DictWriter(rows, columns, restval="")
    writer.writeheader()
    for record in records:
        error = record.get("error")
        writer.writerow({**record, **({"error": error["message"]} if error else {})})
    write_text(folder / "results.csv", rows.getvalue())
