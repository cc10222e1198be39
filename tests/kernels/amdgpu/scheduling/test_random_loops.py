"""Random kernels store the same whether they are scheduled or not, however often their loops run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gfx942.llvm import find_llvm
from gfx942.mutations import mutations
from hypothesis import given, settings
from hypothesis import strategies as st
from random_loops import MOST_ROUNDS, random_loop, run_loop
from random_machine_code import random_program, run

from optimizer.kernels.amdgpu.emit import kernel_text
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.passes.insert_waits import insert_waits
from optimizer.kernels.amdgpu.passes.loops import pipeline_loops, rotate_loops
from optimizer.kernels.amdgpu.passes.mitigate_hazards import mitigate_hazards
from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
from optimizer.kernels.amdgpu.registers.check_allocation import check_allocation
from optimizer.kernels.amdgpu.scheduling.dependences import MemoryOrder
from optimizer.kernels.amdgpu.scheduling.list_schedule import schedule_blocks
from optimizer.kernels.amdgpu.scheduling.occupancy import occupancy
from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from tests.samples import examples, sampled

LIMITS = {"v": 64, "s": 94, "a": 0}


@given(st.integers(0, 10**6), st.sampled_from([64, 128]), st.booleans(), st.booleans(), st.integers(1, MOST_ROUNDS - 3))
@settings(max_examples=examples(24), deadline=None)
@pytest.mark.slow
def test_scheduled_loops_store_the_same(seed: int, threads: int, top: bool, apart: bool, rounds: int) -> None:
    program = random_loop(seed, threads, top)
    scheduled = AssemblyOptions(loads_at_barriers=not apart)
    written, ordered = (build(program, replace(scheduled, schedule=s)) for s in (False, True))
    check_allocation(ordered.allocation.program, ordered.allocation.mapping)
    waves = [occupancy(assembly.footprint, program.launch, "gfx942") for assembly in (written, ordered)]
    assert waves[1] >= waves[0]
    for count in {0, 1, 2, 3, rounds, MOST_ROUNDS} if top else {1, 2, 3, rounds, MOST_ROUNDS}:
        before, after = (run_loop(program, assembly.text, count) for assembly in (written, ordered))
        np.testing.assert_array_equal(after, before)


def test_many_of_the_random_loops_are_pipelined() -> None:
    texts = [build(random_loop(seed), AssemblyOptions(loads_at_barriers=False)).text for seed in range(4)]
    assert sum("again_round_0:" in text for text in texts) > 2
    assert any("again_fill_1:" in text for text in texts)


@pytest.mark.parametrize("seed", sampled(range(4), [1]))
def test_no_wait_and_no_nop_of_a_scheduled_loop_can_go(seed: int) -> None:
    program = random_loop(seed)
    text = build(program, AssemblyOptions(loads_at_barriers=False)).text
    tried = list(mutations(text, weaken=False))[:: 4 if seed == 1 else 1]
    passed = []
    for mutation in tried:
        try:
            # Which of its blocks a loop goes through depends on how often it runs.
            for rounds in range(1, MOST_ROUNDS + 1):
                run_loop(program, mutation.text, rounds)
        except ExecutionError:
            continue
        passed.append(mutation.description)
    assert tried
    assert passed == []


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not here")
@pytest.mark.parametrize("top", [False, True])
def test_llvm_reads_scheduled_loops(top: bool) -> None:
    llvm = find_llvm()
    assert llvm is not None
    for seed in range(2):
        assembly = build(random_loop(seed, top=top), AssemblyOptions(loads_at_barriers=False))
        assert llvm.check(assembly.text) == len(assembly.program.instructions)


def finished(program: Program) -> str:
    return kernel_text(mitigate_hazards(insert_waits(program)))


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=examples(32), deadline=None)
def test_machine_code_in_another_order_stores_the_same(seed: int, apart: bool) -> None:
    program = random_program(seed, 60, branches=True)
    order = MemoryOrder(apart, several_waves=False)
    changed = pipeline_loops(rotate_loops(program), LIMITS, order)
    changed = schedule_blocks(changed, LIMITS, order)
    before, after = (run(finished(p)).buffers["y"] for p in (program, changed))
    np.testing.assert_array_equal(after, before)
