"""Orders of blocks: loads early, uses late, registers within the limits, nothing over what must stay."""

from __future__ import annotations

from optimizer.kernels.amdgpu.ir import Label, Program
from optimizer.kernels.amdgpu.registers.liveness import analyse
from optimizer.kernels.amdgpu.scheduling.dependences import MemoryOrder
from optimizer.kernels.amdgpu.scheduling.list_schedule import schedule_blocks
from optimizer.kernels.amdgpu.text import instruction_text, parse

LIMITS = {"v": 64, "s": 94, "a": 0}
PAIRS = """
    global_load_dword kv1, v0, s[4:5]
    v_add_u32 kv2, kv1, kv1
    global_load_dword kv3, v0, s[4:5] offset:64
    v_add_u32 kv4, kv3, kv2
    global_load_dword kv5, v0, s[4:5] offset:128
    v_add_u32 kv6, kv5, kv4
    ds_write_b32 v0, kv6
    s_endpgm
"""


def lines(program: Program) -> list[str]:
    return [f"{i.name}:" if isinstance(i, Label) else instruction_text(i) for i in program.body]


def ordered(text: str, vgprs: int = 64) -> Program:
    return schedule_blocks(parse(text), {**LIMITS, "v": vgprs}, MemoryOrder())


def test_loads_come_before_the_uses_of_others() -> None:
    assert [line.split()[0] for line in lines(ordered(PAIRS))] == [
        *["global_load_dword"] * 3, *["v_add_u32"] * 3, "ds_write_b32", "s_endpgm",
    ]  # fmt: skip


def test_registers_stay_within_the_limit() -> None:
    """`v0` is one of them."""
    pressures = [analyse(ordered(PAIRS, limit)).pressure("v") for limit in (3, 4, 5)]
    assert pressures == [2, 3, 3]


def test_nothing_passes_labels_masks_waits_and_nops() -> None:
    text = """
        v_mov_b32 kv9, 1
        {}
        global_load_dword kv1, v0, s[4:5]
        v_add_u32 kv2, kv1, kv9
        ds_write_b32 v0, kv2
        s_endpgm
    """
    fences = "s_waitcnt vmcnt(0)", "s_nop 3", "s_and_saveexec_b64 ks0..+2@2, vcc", "middle:", "s_memtime ks0..+2@2"
    for fence in fences:
        assert lines(ordered(text.format(fence)))[:2] == ["v_mov_b32 kv9, 1", fence]


def test_comments_stay_where_they_are() -> None:
    text = PAIRS.replace("global_load_dword kv3", "_comment ; here\n    global_load_dword kv3", 1)
    assert [line.split()[0] for line in lines(ordered(text))].index("_comment") == 2


def test_an_order_that_is_no_faster_is_left() -> None:
    text = "v_mov_b32 kv1, 1\nv_mov_b32 kv2, 2\nv_add_u32 kv3, kv1, kv2\nds_write_b32 v0, kv3\ns_endpgm"
    assert lines(ordered(text)) == lines(parse(text))
