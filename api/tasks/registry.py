"""What a solver process can be asked to do, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from api.disk import disk_room
from api.jobs.records import Task
from api.tasks.work import Done, Work

Run = Callable[[Task, Work], Done]

KINDS = {
    "optimize": "api.tasks.models:optimize_model",
    "inspect": "api.tasks.models:inspect_model",
    "explain": "api.tasks.results:explain",
    "diff": "api.tasks.results:diff",
    "check": "api.tasks.results:check",
    "price": "api.tasks.results:price",
    "artifact": "api.tasks.results:artifact",
}
"""Name -> where it is done. A task reads its bodies, writes one answer, and raises TtoptError."""


def run_task(*descriptors: int, task: Task, soft_seconds: float) -> Done:
    """Do a task: the descriptors are its bodies, then the file for its answer, then the pipe for its progress.

    After `soft_seconds` a search ends with the best it has.
    """
    module, _, name = KINDS[task.kind].partition(":")
    run = cast(Run, getattr(import_module(module), name))
    *bodies, answer, progress = descriptors
    with disk_room():
        return run(task, Work(tuple(bodies), answer, progress, soft_seconds))
