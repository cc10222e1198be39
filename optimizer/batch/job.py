"""What a worker does for one job of a batch, on this machine or another."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from optimizer.batch.plan import BatchJob, digest_of_file
from optimizer.errors import FormatError, StateError
from optimizer.export.registry import emit
from optimizer.pipeline import optimize_file
from optimizer.pipeline.learned import learned_here
from optimizer.process import logs
from optimizer.process.files import move_file, scratch_folder
from optimizer.process.version import program_id
from optimizer.result import OptimizedGraph

FIGURES = (
    "status",
    "policy",
    "opmodel",
    "predicted_time_ns",
    "gap",
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
)
"""Entries of a result's summary that become columns of the results table."""


@dataclass(frozen=True)
class Done:
    """What a job has made."""

    figures: dict[str, Any]
    """Columns of the results table."""
    artifacts: dict[str, str]
    """Path below the job's folder -> SHA-256."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """The same files, where they were made on another machine."""


SCRATCH = ".ttopt-job-"
"""How the names of folders begin in which jobs write what they have not finished."""


def optimize_here(job: BatchJob, output: Path) -> Done:
    """Optimize a model of this machine; its artifacts go into the folder of its name below `output`."""
    with scratch_folder(output, SCRATCH) as scratch:
        done = _optimized(job, job.source, scratch)
        for name in done.artifacts:
            move_file(scratch / name, output / job.name / name)
    return done


def optimize_elsewhere(job: BatchJob, model: bytes | None, program: str) -> Done:
    """Optimize on a machine that may not see the files of the one that asks, and hand the artifacts back.

    The model is read from its path where it has the right content there (its external data lie beside it), else it is
    `model`. FormatError if neither is there, StateError if this machine has another version of ttopt than `program`.
    """
    if program != program_id():
        raise StateError(f"this machine runs ttopt {program_id()}, the batch {program}: install the same everywhere")
    with scratch_folder(Path(gettempdir()), "ttopt-") as folder:
        done = _optimized(job, _reachable(job, model), folder)
        return Done(done.figures, done.artifacts, {name: (folder / name).read_bytes() for name in done.artifacts})


def _reachable(job: BatchJob, model: bytes | None) -> Path | bytes:
    if job.source.is_file() and digest_of_file(job.source) == job.digest:
        return job.source
    if model is not None and hashlib.sha256(model).hexdigest() != job.digest:
        raise _changed(job)
    if model is None:
        raise FormatError(
            "too large to be sent, and not on the machine of the worker",
            node=str(job.source),
            alternatives=("a folder that all machines share", "a batch without --cluster"),
        )
    return model


def _optimized(job: BatchJob, source: Path | bytes, folder: Path) -> Done:
    options = job.options
    learned = learned_here(options.opmodel, job.device, options.l1_small_bytes)
    with logs.labelled(job=job.name):
        result = optimize_file(source, options, device=job.device, learned=learned)
    if isinstance(source, Path) and digest_of_file(source) != job.digest:
        raise _changed(job)
    for name in ("json", *job.emit):
        emit(result, name, folder)
    return Done(figures(result), artifacts_in(folder))


def _changed(job: BatchJob) -> FormatError:
    return FormatError("the file has changed since the batch began; run it again", node=str(job.source))


def figures(result: OptimizedGraph) -> dict[str, Any]:
    """The row of a result: chosen entries of its summary, and the DRAM baseline beside them."""
    summary = result.summary.to_json()
    dram_ns = summary["baselines"]["dram_ns"]
    return {
        **{name: summary[name] for name in FIGURES},
        "limit_ns": summary["limit"]["limit_ns"],
        "of_limit": summary["limit"]["of_limit"],
        "dram_ns": dram_ns,
        "change": round(summary["predicted_time_ns"] / dram_ns - 1, 6) if dram_ns else 0.0,
        "stopped": result.summary.stopped,
        "unsupported": len(summary["unsupported"]),
        "refused": None if summary["check"] is None else len(summary["check"]["refused"]),
    }


def artifacts_in(folder: Path) -> dict[str, str]:
    """Every file below a folder, with its SHA-256, in order of path."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}
