"""Wait states between dependent instructions: the interpreter against LLVM's hazard recogniser."""

from __future__ import annotations

from functools import cache
from random import Random

import gfx942_texts
import numpy as np
import pytest
from gfx942.llvm import find_llvm, require_llvm
from hazard_cases import CASES, EXTRA, HazardCase

from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel
from optimizer.kernels.amdgpu.witness.interpreter.hazards import HazardTracker, Traits
from optimizer.kernels.amdgpu.witness.interpreter.parse import parse_program
from optimizer.kernels.amdgpu.witness.interpreter.step_table import decode_program

ENTRY = (
    ["s_load_dwordx2 s[4:5], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)", "s_mov_b64 vcc, 0", "s_mov_b32 s8, 0"]
    + [f"v_mov_b32_e32 v{number}, 0" for number in range(40)]
    + ["v_mov_b32_e32 v12, s4", "v_mov_b32_e32 v13, s5", "s_movk_i32 s6, 0x100", "s_mov_b32 s7, 0x20000"]
    + ["s_mov_b32 m0, 0", "s_nop 15", "s_nop 15"]
)


def text_with(case: HazardCase, states: int) -> str:
    nops = [f"s_nop {min(16, states - done) - 1}" for done in range(0, states, 16)]
    return gfx942_texts.kernel(
        "hazard", "\n".join([*ENTRY, case.text[0], *nops, case.text[1], "s_endpgm"]), vgprs=40, sgprs=12, lds=1024
    )


def is_hazard(case: HazardCase, states: int) -> bool:
    buffer = np.zeros(256, np.uint8)
    try:
        run_kernel(text_with(case, states), "hazard", [1], [64], {"buffer": buffer})
    except ExecutionError as error:
        # A reader of a load in flight, or two lanes at one address: not what these cases are about.
        if error.kind != "hazard":
            raise
        return True
    return False


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wait_states_of_the_interpreter(case: HazardCase) -> None:
    needed = next(states for states in range(24) if not is_hazard(case, states))

    assert needed == case.states


@cache
def llvm_states() -> dict[str, int]:
    return require_llvm().wait_states({case.name: "\n".join([*case.mir, "S_ENDPGM 0"]) for case in CASES})


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_llvm_asks_for_the_same_wait_states(case: HazardCase) -> None:
    assert llvm_states()[case.name] == case.states


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")
def test_llvm_reads_the_texts_as_written() -> None:
    for case in CASES:
        require_llvm().check(text_with(case, 1))


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")
def test_every_pair_of_instructions_needs_what_llvm_asks() -> None:
    texts, traits = list(MACHINE), decoded(list(MACHINE))
    pairs = [(i, j) for i in range(len(texts)) for j in range(len(texts))]
    bodies = {f"pair_{i}_{j}": body([texts[i], texts[j]]) for i, j in pairs}

    asked = require_llvm().wait_states(bodies)

    wrong = [
        f"{texts[i]} | {texts[j]}: {ours}, LLVM {llvm}"
        for i, j in pairs
        if (ours := states_inserted([traits[i], traits[j]])) != (llvm := asked[f"pair_{i}_{j}"])
    ]
    assert wrong == []


@pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")
def test_random_sequences_need_as_many_states_as_llvm_inserts() -> None:
    texts, traits = list(MACHINE), decoded(list(MACHINE))
    random = Random(7)
    sequences = {f"sequence_{n}": random.choices(range(len(texts)), k=8) for n in range(400)}

    asked = require_llvm().wait_states({name: body([texts[i] for i in chosen]) for name, chosen in sequences.items()})

    ours = {name: states_inserted([traits[i] for i in chosen]) for name, chosen in sequences.items()}
    assert {name: (ours[name], asked[name]) for name in ours if ours[name] != asked[name]} == {}


MACHINE = dict(EXTRA) | {text: mir for case in CASES for text, mir in zip(case.text, case.mir, strict=True)}


def body(texts: list[str]) -> str:
    return "\n".join([*(MACHINE[text] for text in texts), "S_ENDPGM 0"])


def decoded(texts: list[str]) -> list[Traits]:
    program = parse_program(gfx942_texts.kernel("pool", "\n".join(texts), vgprs=40, agprs=16, sgprs=12))
    return [step.traits for step in decode_program(program, program.descriptors["pool"])]


def states_inserted(sequence: list[Traits]) -> int:
    """Wait states that the sequence lacks in all, each inserted as late as it may be."""
    tracker, total = HazardTracker(), 0
    for traits in sequence:
        missing = max((need.states - tracker.since(need) for need in tracker.needs(traits)), default=0)
        if missing > 0:
            tracker.record(Traits("flow", (), ()), 1)
            tracker.advance(missing, is_nop=True)
        tracker.record(traits, 1)
        tracker.advance(1, is_nop=False)
        total += max(0, missing)
    return total
