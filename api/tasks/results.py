"""A finished result in; what is wrong with it, what it costs, or an artifact of it out."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from api.jobs.records import Task
from api.permissions import RUNS_PROGRAMS, SETTING, NotPermittedError
from api.tasks.work import Done, Work
from optimizer.errors import OutputError
from optimizer.export.reader import read_result
from optimizer.export.registry import emit
from optimizer.files import encoded
from optimizer.result import OptimizedGraph

JSON = "application/json"
MEDIA_TYPES = {
    ".json": JSON,
    ".html": "text/html; charset=utf-8",
    ".py": "text/x-python; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".mlir": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".zip": "application/zip",
}
OTHER_MEDIA_TYPE = "application/octet-stream"
ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)
"""The earliest that a ZIP archive can hold: the same artifact is the same bytes at any time."""


def check(task: Task, work: Work) -> Done:
    """What `ttopt check` answers; with a second body, the model, whether the result computes it."""
    from optimizer.checking import check_record

    result = read_result(work.body())
    _check_programs(task, result, task.arguments.get("opmodel"))
    model = work.body(1) if len(work.bodies) > 1 else None
    return _record(work, check_record(result, task.arguments.get("opmodel"), model))


def price(task: Task, work: Work) -> Done:
    """What `ttopt price` answers."""
    from optimizer.checking import price_record

    result = read_result(work.body())
    _check_programs(task, result, None)
    return _record(work, price_record(result))


def artifact(task: Task, work: Work) -> Done:
    """What an emitter writes of a result (first body), where need be with its model (second): a file, or an archive."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "model", Path(folder) / "out"
        result = read_result(work.body())
        if len(work.bodies) > 1:
            source.write_bytes(work.body(1))
            result.source = source
        output.mkdir()
        emit(result, task.arguments["emitter"], output)
        files = sorted(path for path in output.rglob("*") if path.is_file())
        if not files:
            raise OutputError(f"the emitter '{task.arguments['emitter']}' has written nothing")
        if len(files) == 1:
            name, data = files[0].name, files[0].read_bytes()
        else:
            name, data = f"{task.arguments['emitter']}.zip", _archive(output, files)
    work.write(data)
    return Done({"media_type": MEDIA_TYPES.get(Path(name).suffix, OTHER_MEDIA_TYPE), "file_name": name})


def _check_programs(task: Task, result: OptimizedGraph, opmodel: str | None) -> None:
    """NotPermittedError if the check would run programs of the result and clients may not have that done."""
    name = opmodel or result.options.opmodel
    if name != RUNS_PROGRAMS["opmodel"] and not task.permissions.programs:
        raise NotPermittedError(
            f"'{name}' runs programs on the server and is off; its operator allows it with {SETTING}=1",
            node="opmodel",
            alternatives=(RUNS_PROGRAMS["opmodel"],),
        )


def _record(work: Work, record: dict[str, Any]) -> Done:
    work.write(encoded(json.dumps(record, indent=1) + "\n"))
    return Done({"media_type": JSON, "file_name": "answer.json"})


def _archive(folder: Path, files: list[Path]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), ARCHIVE_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    return held.getvalue()
