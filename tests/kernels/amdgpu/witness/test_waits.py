"""Waits of random straight-line programs: LLVM's insertion pass against the interpreter's poisoned registers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import gfx942_texts
import numpy as np
import pytest
from gfx942.llvm import find_llvm, require_llvm
from gfx942.mutations import mutations

from optimizer.kernels.amdgpu.witness.errors import ExecutionError
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

pytestmark = pytest.mark.skipif(find_llvm() is None, reason="LLVM 19 is not installed")

# v1 is an address in buffers and LDS, v[8:15] and s[20:27] hold data.
ENTRY = (
    "s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_lshlrev_b32_e32 v1, 4, v0\ns_waitcnt lgkmcnt(0)\n"
    + "\n".join(f"v_mov_b32_e32 v{number}, v0" for number in range(8, 16))
    + "\n"
    + "\n".join(f"s_mov_b32 s{number}, 0" for number in range(20, 28))
    + "\nds_write_b128 v1, v[8:11]\ns_waitcnt lgkmcnt(0)\n"
)


def instruction(random: Random) -> tuple[str, str]:
    """A random instruction as text and as MIR."""
    v, w = random.randrange(8, 16), random.randrange(8, 16)
    s, pair, vpair = random.randrange(20, 28), 2 * random.randrange(10, 14), 2 * random.randrange(4, 8)
    base = "$sgpr4_sgpr5"
    return random.choice(
        (
            (
                f"global_load_dword v{v}, v1, s[4:5]",
                f"$vgpr{v} = GLOBAL_LOAD_DWORD_SADDR {base}, $vgpr1, 0, 0, implicit $exec",
            ),
            (
                f"global_load_dwordx2 v[{vpair}:{vpair + 1}], v1, s[4:5]",
                f"$vgpr{vpair}_vgpr{vpair + 1} = GLOBAL_LOAD_DWORDX2_SADDR {base}, $vgpr1, 0, 0, implicit $exec",
            ),
            (
                f"global_store_dword v1, v{v}, s[4:5]",
                f"GLOBAL_STORE_DWORD_SADDR $vgpr1, $vgpr{v}, {base}, 0, 0, implicit $exec",
            ),
            (f"ds_read_b32 v{v}, v1", f"$vgpr{v} = DS_READ_B32_gfx9 $vgpr1, 0, 0, implicit $exec"),
            (f"ds_write_b32 v1, v{v}", f"DS_WRITE_B32_gfx9 $vgpr1, $vgpr{v}, 0, 0, implicit $exec"),
            # Bytes that no store overwrites: without addresses LLVM does not know of any that does.
            (f"s_load_dword s{s}, s[4:5], 0x4", f"$sgpr{s} = S_LOAD_DWORD_IMM {base}, 4, 0"),
            (
                f"s_load_dwordx2 s[{pair}:{pair + 1}], s[4:5], 0x4",
                f"$sgpr{pair}_sgpr{pair + 1} = S_LOAD_DWORDX2_IMM {base}, 4, 0",
            ),
            (f"v_mov_b32_e32 v{v}, v{w}", f"$vgpr{v} = V_MOV_B32_e32 $vgpr{w}, implicit $exec"),
            (f"v_mov_b32_e32 v{v}, s{s}", f"$vgpr{v} = V_MOV_B32_e32 $sgpr{s}, implicit $exec"),
            (f"s_mov_b32 s{s}, 1", f"$sgpr{s} = S_MOV_B32 1"),
        )
    )


def program(texts: Sequence[str], waits: Sequence[Sequence[int]]) -> str:
    """The kernel's text; a nop state before each instruction keeps memory clauses out of the question."""
    body = [
        line for text, counts in zip(texts, waits, strict=False) for line in (*(f"s_waitcnt {n}" for n in counts), text)
    ]
    return gfx942_texts.kernel("waits", f"{ENTRY}{chr(10).join(body)}\ns_endpgm", lds=1024, kernarg=8).replace(
        'gfx942"', 'gfx942:xnack-"'
    )


def run(text: str) -> str | None:
    try:
        run_kernel(text, "waits", [1], [64], {"buffer": np.zeros(1024, np.uint8)})
    except ExecutionError as error:
        return error.kind
    return None


def sequences(count: int, length: int) -> dict[str, list[tuple[str, str]]]:
    random = Random(11)
    return {f"program_{n}": [instruction(random) for _ in range(length)] for n in range(count)}


def llvm_programs(count: int, length: int) -> dict[str, str]:
    drawn = sequences(count, length)
    bodies = {name: "\n".join([*(machine for _, machine in pairs), "S_ENDPGM 0"]) for name, pairs in drawn.items()}
    inserted = require_llvm().waits(bodies)
    # The first wait of a function is for what its caller left outstanding.
    waits = {name: [before[0][1:], *before[1:]] for name, before in inserted.items()}
    return {name: program([text for text, _ in pairs], waits[name]) for name, pairs in drawn.items()}


def test_programs_with_llvms_waits_run() -> None:
    refused = {name: kind for name, text in llvm_programs(150, 14).items() if (kind := run(text)) is not None}

    assert refused == {}


def test_programs_without_a_wait_of_llvms_are_refused() -> None:
    first_line = 8 + ENTRY.count("\n")
    changed = {
        (name, mutation.description): mutation.text
        for name, text in llvm_programs(60, 14).items()
        for mutation in mutations(text, weaken=False)
        if mutation.line >= first_line
    }

    unnoticed = [place for place, text in changed.items() if run(text) is None]

    assert len(changed) >= 100
    assert unnoticed == []
