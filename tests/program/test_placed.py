"""A finished plan as steps over buffers: every buffer is made once, and freed once unless it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.options import Options
from optimizer.program.placed import Program
from tests.plans import planned_file

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=["concat", "fork", "conv2d_relu"])
def program(request: pytest.FixtureRequest) -> Program:
    return planned_file(ROOT / f"fixtures/graphs/{request.param}.json", Options(policy="dfsharding2")).program


def test_a_buffer_is_made_once_and_freed_once_unless_it_stays(program: Program) -> None:
    made = [buffer for step in program.steps for buffer in step.makes]
    freed = [buffer.value for step in program.steps for buffer in step.frees]
    assert len({buffer.value for buffer in made}) == len(made)
    assert sorted(freed) == sorted(buffer.value for buffer in made if not buffer.stays)


def test_nothing_reads_a_buffer_after_the_step_that_frees_it(program: Program) -> None:
    gone: set[str] = set()
    for step in program.steps:
        assert gone.isdisjoint(program.homes[v] for v in step.event.reads)
        gone |= {buffer.value for buffer in step.frees}


def test_every_value_lives_in_one_buffer(program: Program) -> None:
    held = [v for buffer in program.buffers.values() for v in buffer.values]
    assert sorted(held) == sorted(program.homes)
    assert all(v in program.buffers[home].values for v, home in program.homes.items())
