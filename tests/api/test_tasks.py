"""What a solver process does with a task, in this process."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from api.jobs.records import Task
from api.tasks.registry import KINDS, run_task
from api.tasks.work import Done
from optimizer.errors import TimeLimitError


@contextmanager
def files(*bodies: bytes) -> Iterator[list[int]]:
    """Descriptors of the bodies, of an empty file for the answer, and of a pipe that nobody has to read."""
    opened = [tempfile.TemporaryFile(buffering=0) for _ in range(len(bodies) + 1)]  # noqa: SIM115 - closed below
    for file, body in zip(opened, bodies, strict=False):
        file.write(body)
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    try:
        yield [*(file.fileno() for file in opened), theirs]
    finally:
        for descriptor in (ours, theirs):
            os.close(descriptor)
        for file in opened:
            file.close()


def answer(descriptors: list[int]) -> bytes:
    return os.pread(descriptors[-2], 1 << 30, 0)


def done(task: Task, *bodies: bytes, soft_seconds: float = 600.0) -> tuple[Done, bytes]:
    with files(*bodies) as descriptors:
        facts = run_task(*descriptors, task=task, soft_seconds=soft_seconds)
        return facts, answer(descriptors)


def test_a_task_near_the_end_of_its_time_gives_the_best_plan_so_far(project_root: Path) -> None:
    model = (project_root / "fixtures" / "onnx" / "llama32_1b_16l_dynamo20.onnx").read_bytes()
    for seconds in (1, 2, 4, 8, 16):
        try:
            facts, text = done(Task("optimize"), model, soft_seconds=seconds)
            break
        except TimeLimitError:
            continue  # on a busy machine there is nothing to return yet
    document = json.loads(text)
    assert any(warning.startswith("time limit of ") for warning in document["summary"]["warnings"])
    assert document["options"]["time_limit"] is None
    assert not facts.repeatable
    assert facts.facts["gap"] == document["summary"]["gap"]


def test_every_kind_of_task_can_be_found(project_root: Path) -> None:
    model = (project_root / "fixtures" / "graphs" / "mlp.json").read_bytes()
    facts, graph = done(Task("optimize", options={"policy": "dram"}), model)
    assert facts.repeatable
    op = json.loads(graph)["ops"][-1]["id"]
    given = {
        "optimize": ((model,), {}),
        "inspect": ((model,), {}),
        "check": ((graph, model), {}),
        "price": ((graph,), {}),
        "explain": ((graph,), {"op": op, "recorded": True}),
        "diff": ((graph, graph), {}),
        "artifact": ((graph,), {"emitter": "ttnn-py"}),
    }
    assert set(given) == set(KINDS)
    for kind, (bodies, arguments) in given.items():
        facts, text = done(Task(kind, arguments=arguments), *bodies)
        assert facts.facts["media_type"]
        assert text


@pytest.mark.parametrize("emitter", ["json", "report", "perf-csv", "visualizer"])
def test_an_artifact_is_the_same_bytes_every_time(emitter: str, project_root: Path) -> None:
    _, graph = done(
        Task("optimize", options={"policy": "dram"}), (project_root / "fixtures/graphs/mlp.json").read_bytes()
    )
    made = [done(Task("artifact", arguments={"emitter": emitter}), graph)[1] for _ in range(2)]
    assert made[0] == made[1]
