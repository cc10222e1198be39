"""Forms of pipelined loops, and loops that are left alone."""

from __future__ import annotations

import pytest

from optimizer.kernels.amdgpu.ir import Label, Program
from optimizer.kernels.amdgpu.passes.loops import SHAPES, pipeline_loops, rotate_loops
from optimizer.kernels.amdgpu.registers.liveness import analyse
from optimizer.kernels.amdgpu.scheduling.dependences import MemoryOrder
from optimizer.kernels.amdgpu.text import LABEL, instruction_text, parse
from optimizer.kernels.amdgpu.validate import validate_ssa

LIMITS = {"v": 64, "s": 94, "a": 0}
APART = MemoryOrder(loads_are_apart=True)
HEAD = """
    .redefinable kv1 kv2 ks0
    v_mov_b32 kv1, v0
    v_mov_b32 kv2, 0
    s_mov_b32 ks0, 4
"""
LOOP = """
    again:
    global_load_dword kv3, kv1, s[4:5]
    v_add_u32 kv1, 64, kv1
    v_add_u32 kv2, kv2, kv3
    s_sub_u32 ks0, ks0, 1
    s_cmp_lg_u32 ks0, 0
    s_cbranch_scc1 again
"""
TAIL = """
    ds_write_b32 v0, kv2
    s_endpgm
"""


def lines(program: Program) -> list[str]:
    return [f"{i.name}:" if isinstance(i, Label) else instruction_text(i) for i in program.body]


def pipelined(loop: str, shapes: tuple[tuple[int, int], ...] = SHAPES, order: MemoryOrder = APART) -> Program:
    changed = pipeline_loops(parse(HEAD + loop + TAIL), LIMITS, order, shapes)
    validate_ssa(changed)
    return changed


FIRST = [
    "global_load_dword kv3, kv1, s[4:5]", "v_add_u32 kv1, 64, kv1", "s_sub_u32 ks0, ks0, 1", "s_cmp_lg_u32 ks0, 0",
]  # fmt: skip
SECOND = "v_add_u32 kv2, kv2, kv3"


def other(line: str) -> str:
    return line.replace("kv3", "kv4")


def test_one_round_ahead_in_the_same_registers() -> None:
    assert lines(pipelined(LOOP, ((1, 1),)))[3:-2] == [
        "again:", *FIRST, "s_cbranch_scc0 again_drain_0",
        "again_round_0:", SECOND, *FIRST, "s_cbranch_scc1 again_round_0", "s_branch again_drain_0",
        "again_drain_0:", SECOND, "again_end:",
    ]  # fmt: skip


def test_one_round_ahead_in_two_sets_of_registers() -> None:
    assert lines(pipelined(LOOP, ((1, 2),)))[3:-2] == [
        "again:", *FIRST, "s_cbranch_scc0 again_drain_0",
        "again_round_0:", SECOND, *map(other, FIRST), "s_cbranch_scc0 again_drain_1",
        "again_round_1:", other(SECOND), *FIRST, "s_cbranch_scc1 again_round_0", "s_branch again_drain_0",
        "again_drain_0:", SECOND, "s_branch again_end",
        "again_drain_1:", other(SECOND), "again_end:",
    ]  # fmt: skip


def test_several_rounds_ahead_are_chosen_where_one_is_too_short() -> None:
    text = "\n".join(lines(pipelined(LOOP)))
    assert "again_fill_2:" in text
    assert "again_round_3:" not in text.partition("again_fill_2:")[0]


def test_no_more_registers_than_there_may_be() -> None:
    program = parse(HEAD + LOOP + TAIL)
    changed = pipeline_loops(program, {**LIMITS, "v": 4}, APART)
    assert analyse(changed).pressure("v") <= 4
    assert "again_fill_2:" not in lines(changed)


def test_where_nothing_is_stored_nothing_need_be_said_of_memory() -> None:
    assert any("_round_" in line for line in lines(pipelined(LOOP, order=MemoryOrder())))


LEFT = {
    "loads may read what is stored": LOOP.replace("global_load", "global_store_dword v0, kv2, s[6:7]\n    global_load"),
    "no loads": LOOP.replace("global_load_dword kv3, kv1, s[4:5]", "v_mov_b32 kv3, kv1"),
    "a wait inside": LOOP.replace("s_sub_u32", "s_waitcnt vmcnt(0)\n    s_sub_u32"),
    "a change of the mask inside": LOOP.replace("s_sub_u32", "s_mov_b64 exec, -1\n    s_sub_u32"),
    "several blocks": LOOP.replace("s_sub_u32", "s_cbranch_vccz other\n    other:\n    s_sub_u32"),
    "the load's place depends on the rest": LOOP.replace("v_add_u32 kv1, 64, kv1\n", "").replace(
        "global_load", "ds_read_b32 kv1, v0\n    global_load"
    ),
}


@pytest.mark.parametrize("loop", LEFT.values(), ids=LEFT)
def test_loops_that_are_left_alone(loop: str) -> None:
    assert lines(pipelined(loop, order=MemoryOrder())) == lines(parse(HEAD + loop + TAIL))


def test_every_loop_is_pipelined_once_whatever_it_is_called() -> None:
    """Labels may have 200 letters, and one may begin as another one does."""
    other_loop = LOOP.replace("again", "again_and_again").replace("kv3", "kv4").replace("ks0", "ks1")
    third = LOOP.replace("again", "a" * 200).replace("kv3", "kv5").replace("ks0", "ks2")
    text = (
        HEAD
        + "s_mov_b32 ks1, 4\ns_mov_b32 ks2, 4\n.redefinable kv1 kv2 ks0 ks1 ks2\n"
        + LOOP
        + other_loop
        + third
        + TAIL
    )
    found = lines(pipeline_loops(parse(text), LIMITS, APART, ((1, 1),)))
    assert [line for line in found if "_round_" in line and line.endswith(":")] == [
        "again_round_0:", "again_and_again_round_0:", f"{'a' * 160}_round_0:",
    ]  # fmt: skip
    assert all(LABEL.fullmatch(line[:-1]) for line in found if line.endswith(":"))


def test_loads_that_wait_for_the_round_before_are_one_round_ahead_at_most() -> None:
    """The place of a load comes from LDS, where the round before has put it."""
    loop = LOOP.replace("v_add_u32 kv1, 64, kv1", "ds_read_b32 kv1, v0")
    assert not any("fill" in line for line in lines(pipelined(loop)))


def test_a_loop_under_a_partial_mask_is_left_alone() -> None:
    masked = HEAD + "s_mov_b64 exec, 5\n" + LOOP + TAIL
    assert lines(pipeline_loops(parse(masked), LIMITS, APART)) == lines(parse(masked))


TOP = """
header:
    s_cmp_lt_u32 ks0, ks1
    s_cbranch_scc1 inside
    s_branch out
inside:
    v_add_u32 kv2, kv2, kv2
latch:
    s_add_u32 ks0, ks0, 1
    s_branch header
out:
    s_endpgm
"""


def test_a_loop_that_tests_at_the_top_tests_at_the_bottom_behind_a_first_test() -> None:
    assert lines(rotate_loops(parse(TOP))) == [
        "header:", "s_cmp_lt_u32 ks0, ks1", "s_cbranch_scc1 inside", "s_branch out",
        "inside:", "v_add_u32 kv2, kv2, kv2", "s_add_u32 ks0, ks0, 1", "s_cmp_lt_u32 ks0, ks1", "s_cbranch_scc1 inside",
        "out:", "s_endpgm",
    ]  # fmt: skip


@pytest.mark.parametrize("more", ["v_mov_b32 kv3, 1", "s_add_u32 ks1, ks1, 1", "s_waitcnt vmcnt(0)"])
def test_a_header_that_does_more_than_compare_stays(more: str) -> None:
    text = TOP.replace("s_cmp_lt", f"{more}\n    s_cmp_lt")
    assert rotate_loops(parse(text)) == parse(text)
