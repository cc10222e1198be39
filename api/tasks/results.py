"""A finished result in; what is wrong with it, what it costs, or an artifact of it out."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

from api.jobs.records import Task
from api.permissions import RUNS_PROGRAMS, SETTING, NotPermittedError
from api.tasks.work import JSON_MEDIA_TYPE, Done, Work
from optimizer.errors import OutputError, UnknownNameError
from optimizer.export.reader import as_result, read_result
from optimizer.export.registry import emit
from optimizer.export.stored import read_annotated, read_document
from optimizer.opmodel.registry import names as opmodel_names
from optimizer.result import OptimizedGraph

MEDIA_TYPES = {
    ".json": JSON_MEDIA_TYPE,
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
    from optimizer.answers.checking import check_record

    result = read_result(work.body())
    _check_programs(task, result, task.arguments.get("opmodel"))
    model = work.body(1) if len(work.bodies) > 1 else None
    return work.answer_json(check_record(result, task.arguments.get("opmodel"), model))


def price(task: Task, work: Work) -> Done:
    """What `ttopt price` answers."""
    from optimizer.answers.checking import price_record

    result = read_result(work.body())
    _check_programs(task, result, None)
    return work.answer_json(price_record(result))


def explain(task: Task, work: Work) -> Done:
    """What `ttopt explain` answers: the recorded reason, and unless only that is wanted the alternatives."""
    from optimizer.answers.explanation import choices, explanation

    source = work.body()
    found = read_annotated(source)
    record = explanation(found.model_dump(by_alias=True), task.arguments["op"])
    if not task.arguments["recorded"]:
        _check_programs(task, as_result(found), None)
        record["choices"] = choices(found, source, record["id"], work.teller())
    return work.answer_json(record)


def diff(task: Task, work: Work) -> Done:
    """What `ttopt diff` answers of two results."""
    from optimizer.answers.difference import difference

    return work.answer_json(difference(read_document(work.body(0)), read_document(work.body(1))))


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
    if name not in opmodel_names():
        raise UnknownNameError("OpModel backend", name, opmodel_names(), node="opmodel")
    if name != RUNS_PROGRAMS["opmodel"] and not task.permissions.programs:
        raise NotPermittedError(
            f"'{name}' runs programs on the server and is off; its operator allows it with {SETTING}=1",
            node="opmodel",
            alternatives=(RUNS_PROGRAMS["opmodel"],),
        )


def _archive(folder: Path, files: list[Path]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), ARCHIVE_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    return held.getvalue()
