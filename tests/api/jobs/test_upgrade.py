"""A store of an earlier version is brought up to this one with all that lies in it."""

from __future__ import annotations

import json

from alembic import command
from alembic.config import Config
from sqlalchemy import text

from api.jobs.database import MIGRATIONS, Database
from api.jobs.queue import JobQueue
from api.jobs.records import State
from api.jobs.room import CONTENT_BYTES, JOB_BYTES, RESULT_BYTES, held_for, taken_bytes
from api.jobs.store import JobStore

TASK = {"kind": "optimize", "content_type": "", "name": None, "options": {"board": "p150", "policy": "dram"},
        "arguments": {}, "max_nodes": 9, "permissions": {"programs": False}}  # fmt: skip
JOB = (
    "INSERT INTO jobs (id, owner, state, kind, task, natural_key, bodies, name, priority, request_id, fingerprint,"
    " created_at, not_before, attempts, cancel_asked, facts, result) VALUES (:id, '', :state, 'optimize', :task, :id,"
    " :bodies, 'net', 0, '', '', :at, 0, 0, :no, :facts, :result)"
)


def test_jobs_of_the_first_version_go_on(database_url: str) -> None:
    database = Database(database_url)
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    facts = json.dumps({"media_type": "application/json", "gap": None})
    with database.writing() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        content = "INSERT INTO contents VALUES (:id, :id, 100, 100, 'identity', :yes, 0)"
        for name in ("body", "answer"):
            connection.execute(text(content), {"id": name, "yes": True})
        jobs = (
            {"id": "waiting", "state": "queued", "bodies": '["body"]', "facts": None, "result": None, "at": 1},
            {"id": "ended", "state": "succeeded", "bodies": '["body"]', "facts": facts, "result": "answer", "at": 2},
            {"id": "damaged", "state": "failed", "bodies": "[", "facts": None, "result": None, "at": 3},
        )
        for job in jobs:
            task = "{" if job["id"] == "damaged" else json.dumps(TASK)
            connection.execute(text(JOB), {**job, "task": task, "no": False})
        connection.execute(text("INSERT INTO results VALUES ('ended', 'answer', :facts, 0)"), {"facts": facts})
    database.migrate()
    database.check_version()
    store = JobStore(database)
    assert [(job.id, job.state, job.board, job.policy) for job in store.jobs("", 9, None)] == [
        ("damaged", "failed", None, None), ("ended", "succeeded", "p150", "dram"), ("waiting", "queued", "p150", "dram")
    ]  # fmt: skip
    assert (store.bodies("waiting"), store.bodies("damaged")) == (("body",), ())
    ids = [len(task) + len("net") for task in (json.dumps(TASK), json.dumps(TASK), "{")]
    expected = sum(ids) + 3 * JOB_BYTES + held_for(100) + len(facts) + 2 * (100 + CONTENT_BYTES)
    with database.reading() as connection:
        assert taken_bytes(connection) == expected + len(facts) + RESULT_BYTES
    claim = JobQueue(database, 60, 3).claim("w")
    assert claim is not None
    assert (claim.job.id, claim.job.state, claim.task.options["board"]) == ("waiting", State.RUNNING, "p150")
    database.close()
