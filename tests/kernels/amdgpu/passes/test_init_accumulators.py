"""The first MFMA takes the accumulator's initial constant."""

from __future__ import annotations

import pytest

from optimizer.kernels.amdgpu.passes.combining import init_accumulators
from optimizer.kernels.amdgpu.passes.expansion import expand_pseudos
from optimizer.kernels.amdgpu.text import instruction_text, parse

INIT = "_init_acc_quad kv0..+4@4, 0\n"
MFMA = "v_mfma_f32_16x16x16_f16 kv0..+4@4, v[4:5], v[6:7], kv0..+4@4\n"
MOVES = [f"v_mov_b32 kv{n}, 0" for n in range(4)]


def result(text: str) -> list[str]:
    program = expand_pseudos(init_accumulators(parse(text)))
    return [instruction_text(item) for _, item in program.instructions]


@pytest.mark.parametrize("between", ["", "s_nop 0\n", "v_mov_b32 kv9, 1\n", "further:\n"])
def test_the_addend_becomes_the_constant(between: str) -> None:
    assert result(INIT + between + MFMA + MFMA)[-2:] == [
        "v_mfma_f32_16x16x16_f16 kv0..+4@4, v[4:5], v[6:7], 0",
        MFMA.strip(),
    ]


def test_the_pseudo_instruction_too() -> None:
    text = INIT + "_mfma_acc kv0..+4@4, v[4:5], v[6:7]\n"
    assert result(text) == ["v_mfma_f32_16x16x16_f16 kv0..+4@4, v[4:5], v[6:7], 0"]


KEPT = {
    "in a loop": INIT + "again:\n" + MFMA + "s_cbranch_scc1 again\n",
    "both in a loop": "again:\n" + INIT + MFMA + "s_cbranch_scc1 again\n",
    "read before": INIT + "ds_write_b32 v0, kv2\n" + MFMA,
    "read by the MFMA itself": INIT + "v_mfma_f32_16x16x16_f16 kv0..+4@4, kv0..+2@2, v[6:7], kv0..+4@4\n",
    "result elsewhere": INIT + "v_mfma_f32_16x16x16_f16 kv8..+4@4, v[4:5], v[6:7], kv0..+4@4\n",
    "on one of two ways": INIT + "s_cbranch_scc1 past\n" + MFMA + "past:\nds_write_b128 v0, kv0..+4@4\n",
    "not an inline constant": INIT.replace(", 0", ", 0x1234") + MFMA,
}


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_otherwise_the_moves_stay(text: str) -> None:
    moves = [line for line in result(text) if line.startswith("v_mov_b32")]
    assert [line.replace("0x1234", "0") for line in moves] == MOVES
    assert not any(line.endswith("v[6:7], 0") for line in result(text))
