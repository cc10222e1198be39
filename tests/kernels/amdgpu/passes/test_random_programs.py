"""Waits and nops of random programs: enough for the interpreter, and not one too many."""

from __future__ import annotations

import numpy as np
import pytest
from gfx942.mutations import mutations
from random_machine_code import random_program, run

from optimizer.kernels.amdgpu.emit import kernel_text
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.passes.combining import remove_dead_code
from optimizer.kernels.amdgpu.passes.insert_waits import insert_waits, required_waits
from optimizer.kernels.amdgpu.passes.mitigate_hazards import mitigate_hazards, required_nops
from optimizer.kernels.amdgpu.witness.errors import ExecutionError


def finished(program: Program) -> str:
    return kernel_text(mitigate_hazards(insert_waits(program)))


@pytest.mark.parametrize("seed", range(12))
def test_programs_with_branches_and_loops_are_well_defined(seed: int) -> None:
    text = finished(random_program(seed, 80, branches=True))
    assert run(text).statistics.instructions > 80


@pytest.mark.parametrize("seed", range(6))
def test_straight_programs_have_no_wait_and_no_nop_too_many(seed: int) -> None:
    text = finished(random_program(seed, 50, branches=False))
    run(text)
    changed = list(mutations(text))
    for mutation in changed:
        with pytest.raises(ExecutionError, match=r"missing-wait|hazard"):
            run(mutation.text)
    assert len(changed) > 10


@pytest.mark.parametrize("seed", range(6))
def test_without_dead_code_the_same_is_stored(seed: int) -> None:
    program = random_program(seed, 80, branches=True)
    shorter = remove_dead_code(program)
    assert len(shorter.body) < len(program.body)
    before, after = (run(finished(p)).buffers["y"] for p in (program, shorter))
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize("seed", range(4))
def test_a_second_time_nothing_is_added(seed: int) -> None:
    program = random_program(seed, 80, branches=True)
    once = mitigate_hazards(insert_waits(program))
    assert required_waits(once) == {}
    assert required_nops(once) == {}
