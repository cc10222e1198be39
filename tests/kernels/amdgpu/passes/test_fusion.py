"""Fusions: what becomes one instruction, and what must not."""

from __future__ import annotations

import pytest

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.passes.combining import FUSIONS, fuse
from optimizer.kernels.amdgpu.text import instruction_text, parse
from optimizer.kernels.amdgpu.validate import validate

HEAD = "v_mov_b32 kv1, v0\nv_mov_b32 kv2, v0\nv_mov_b32 kv3, v0\n"
TAIL = "\nds_write_b32 v0, kv9\ns_endpgm\n"


def fused(lines: str) -> list[str]:
    program = parse(HEAD + lines + TAIL)
    for fusion in FUSIONS.values():
        program = fuse(program, fusion)
    validate(program)
    return texts(program)[3:-2]


def texts(program: Program) -> list[str]:
    return [instruction_text(item) for _, item in program.instructions]


FUSES = [
    ("v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, kv5, kv2", "v_lshl_add_u32 kv9, kv1, 8, kv2"),
    ("v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, kv2, kv5", "v_lshl_add_u32 kv9, kv1, 8, kv2"),
    ("v_lshlrev_b32 kv5, 8, kv1\nv_or_b32 kv9, kv5, kv2", "v_lshl_or_b32 kv9, kv1, 8, kv2"),
    ("v_lshlrev_b32 kv5, 8, kv1\nv_or_b32 kv9, kv2, kv5", "v_lshl_or_b32 kv9, kv1, 8, kv2"),
    ("v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, s4, kv5", "v_lshl_add_u32 kv9, kv1, 8, s4"),
    ("v_lshlrev_b32 kv5, 8, s4\nv_add_u32 kv9, s4, kv5", "v_lshl_add_u32 kv9, s4, 8, s4"),
    ("v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, 64, kv5", "v_lshl_add_u32 kv9, kv1, 8, 64"),
    ("v_add_u32 kv5, kv1, kv2\nv_lshlrev_b32 kv9, 3, kv5", "v_add_lshl_u32 kv9, kv1, kv2, 3"),
    ("v_or_b32 kv5, kv1, kv2\nv_or_b32 kv9, kv3, kv5", "v_or3_b32 kv9, kv1, kv2, kv3"),
]


@pytest.mark.parametrize(("lines", "expected"), FUSES)
def test_two_instructions_become_one(lines: str, expected: str) -> None:
    assert fused(lines) == [expected]


def test_what_stands_between_does_not_matter() -> None:
    lines = "v_lshlrev_b32 kv5, 8, kv1\nv_xor_b32 kv6, kv2, kv3\ns_nop 0\nv_add_u32 kv9, kv5, kv6"
    assert fused(lines)[-1] == "v_lshl_add_u32 kv9, kv1, 8, kv6"


def test_chains_of_ors_are_fused_in_pairs() -> None:
    lines = "v_or_b32 kv4, kv1, kv2\nv_or_b32 kv5, kv4, kv3\nv_or_b32 kv6, kv5, v0\nv_or_b32 kv9, kv6, 5"
    assert fused(lines) == ["v_or3_b32 kv5, kv1, kv2, kv3", "v_or3_b32 kv9, kv5, v0, 5"]


STAYS = {
    "literal": "v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, 0x280, kv5",
    "two scalar registers": "v_lshlrev_b32 kv5, 8, s4\nv_add_u32 kv9, s5, kv5",
    "or with two scalar registers": "v_lshlrev_b32 kv5, 8, s4\nv_or_b32 kv9, s5, kv5",
    "literal in the or": "v_or_b32 kv5, 0x280, kv1\nv_or_b32 kv9, kv5, kv2",
    "amount in a register": "v_lshlrev_b32 kv5, kv2, kv1\nv_add_u32 kv9, kv5, kv2",
    "amount in a register behind an addition": "v_add_u32 kv5, kv1, kv2\nv_lshlrev_b32 kv9, kv3, kv5",
    "sum as amount": "v_add_u32 kv5, kv1, kv2\nv_lshlrev_b32 kv9, kv5, 3",
    "used twice": "v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, kv5, kv5",
    "used elsewhere": "v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, kv5, kv2\nds_write_b32 v0, kv5",
    "source redefined": ".redefinable kv1\nv_lshlrev_b32 kv5, 8, kv1\nv_mov_b32 kv1, 3\nv_add_u32 kv9, kv5, kv2",
    "physical source redefined": "v_lshlrev_b32 kv5, 8, v7\nv_mov_b32 v7, 3\nv_add_u32 kv9, kv5, kv2",
    "precoloured source redefined": ".precolored kv6=7\nv_lshlrev_b32 kv5, 8, kv6\nv_mov_b32 v7, 3\n"
    "v_add_u32 kv9, kv5, kv2",
    "exec changed": "v_lshlrev_b32 kv5, 8, kv1\ns_mov_b64 exec, 1\nv_add_u32 kv9, kv5, kv2",
    "another block": "v_lshlrev_b32 kv5, 8, kv1\nelsewhere:\nv_add_u32 kv9, kv5, kv2",
    "result redefinable": ".redefinable kv5\nv_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, kv5, kv2",
    "modifier": "v_lshlrev_b32 kv5, 8, kv1\nv_add_u32 kv9, kv5, kv2 clamp",
    "physical result": "v_lshlrev_b32 v5, 8, kv1\nv_add_u32 kv9, v5, kv2",
}


@pytest.mark.parametrize("lines", STAYS.values(), ids=STAYS)
def test_unsafe_or_illegal_fusions_are_not_made(lines: str) -> None:
    assert fused(lines) == texts(parse(lines))
