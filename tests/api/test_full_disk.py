"""A folder for temporary files without room: whoever finds that out, it is told as `no-room`, once."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.app import create_app
from api.disk import SpoolError
from api.jobs.database import Database
from api.jobs.queue import JobQueue
from api.jobs.records import State, Submission, Task
from api.jobs.store import JobStore, Quota
from api.settings import Settings
from api.tasks.registry import run_task
from api.workers.slot import Slot
from tests.api.clients import local_client
from tests.api.jobs.test_store import source
from tests.api.test_service import assert_problem

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def refuse(*_: Any, **__: Any) -> Any:
    raise FULL


def test_a_form_is_told_that_there_is_no_room(tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The body has found its place; the file in the form, which is unpacked into another one, does not."""
    files: Callable[..., Any] = tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda *a, **n: files(*a, **n) if n.get("dir") else refuse())
    app = create_app(Settings(store=store_url, workers=0, spool_folder=str(tmp_path)))
    with local_client(app) as client:
        answer = client.post("/v1/jobs", files={"file": b"x" * 2_000_000})
        assert_problem(answer, 503, "no-room")
        assert client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize("place", ["api.workers.slot.temporary_file", "api.jobs.contents._write"])
def test_a_job_fails_at_once_where_its_worker_has_no_room(
    store_url: str, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    database = Database(store_url)
    database.migrate()
    store, queue, told = JobStore(database), JobQueue(database, 60, 3), []
    with source(b"model") as body:
        job = store.take_in(Submission("", Task("optimize"), "key"), [body], Quota())
    claim = queue.claim("w")
    assert claim is not None
    monkeypatch.setattr(place, refuse)
    Slot(store, queue, Settings(store=store_url), told.append).run(claim)
    found = store.job(job.id, "")
    assert (found.state, found.attempts, told) == (State.FAILED, 1, [job.id])
    assert found.problem is not None
    assert (found.problem["code"], found.problem["status"]) == ("no-room", 503)
    assert queue.claim("w") is None
    database.close()


def test_a_solver_process_without_room_for_its_answer(project_root: Path) -> None:
    model = project_root / "fixtures" / "graphs" / "mlp.json"
    with model.open("rb") as body, Path("/dev/full").open("wb") as answer, Path(os.devnull).open("wb") as progress:
        descriptors = [file.fileno() for file in (body, answer, progress)]
        with pytest.raises(SpoolError, match="takes no more"):
            run_task(*descriptors, task=Task("optimize", options={"policy": "dram"}), soft_seconds=600.0)
