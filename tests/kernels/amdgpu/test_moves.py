"""Values move between registers where ranges find no room: same stores, few moves, none where lanes are masked off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_programs import Wishes, random_program
from tracing import stores

from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.registers.allocate import Allocation, AllocationOptions, allocate
from optimizer.kernels.amdgpu.registers.check_allocation import violations
from optimizer.kernels.amdgpu.registers.compaction import Stretches
from optimizer.kernels.amdgpu.registers.liveness import analyse
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.validate import validate

AS_IT_IS = AllocationOptions(rewrite=False)
RANGES = Wishes(sizes=(1,) * 24 + (2,) * 10 + (3,) * 4 + (4,) * 10 + (16,))


def tight(seed: int, slack: int) -> Program:
    """A random program with ranges of up to 16 registers, and as many VGPRs as live at once plus v0 and a few."""
    program = random_program(seed, replace(RANGES, steps=20 + 20 * (seed % 10), pressure=16 + 12 * (seed % 8)))
    return replace(program, max_vgprs=analyse(program).pressure("v") + 1 + slack)


def check(allocation: Allocation, program: Program) -> None:
    validate(allocation.program)
    assert violations(allocation.program, allocation.mapping) == []
    assert stores(allocation.program, allocation.mapping) == stores(program)
    assert len(allocation.program.instructions) == len(program.instructions) + allocation.moves


@pytest.mark.parametrize(("seed", "most"), [(11, 10), (41, 8), (70, 6), (111, 4), (131, 4), (170, 6)])
def test_few_moves_make_room_where_ranges_find_none(seed: int, most: int) -> None:
    program = tight(seed, 2)
    with pytest.raises(AllocationError):
        allocate(program, AS_IT_IS)
    allocation = allocate(program)
    check(allocation, program)
    assert 0 < allocation.moves <= most


@pytest.mark.parametrize("seed", [10, 11, 21, 32])
def test_programs_fit_in_exactly_as_many_registers_as_live_at_once(seed: int) -> None:
    program = tight(seed, 0)
    with pytest.raises(AllocationError):
        allocate(program, AS_IT_IS)
    allocation = allocate(program)
    check(allocation, program)
    assert allocation.moves > 0


def test_no_move_without_need() -> None:
    program = random_program(3, replace(RANGES, steps=60))
    assert allocate(program).moves == 0
    assert allocate(program).program == program


FRAGMENTED = """
    .reserved_vgprs 0
    .max_vgprs 5
    v_add_u32 kv0, v0, v0
    v_add_u32 kv1, v0, v0
    v_add_u32 kv2, v0, v0
    v_add_u32 kv3, v0, v0
    ds_write_b32 v0, kv0
    ds_write_b32 v0, kv2
    ds_read_b64 kv4..+2@2, v0
    ds_write_b64 v0, kv4..+2@2
    ds_write_b32 v0, kv1
    ds_write_b32 v0, kv3
    s_endpgm
"""


def test_what_a_prescribed_register_holds_stays_there() -> None:
    prescribed = tuple((VirtualReg("v", n), n + 1) for n in range(4))
    with pytest.raises(AllocationError):
        allocate(replace(parse(FRAGMENTED), precolored=prescribed))
    program = replace(parse(FRAGMENTED), precolored=(prescribed[0], *prescribed[2:]))
    with pytest.raises(AllocationError):
        allocate(program, AS_IT_IS)
    allocation = allocate(program)
    check(allocation, program)
    assert [allocation.mapping[r] for r, _ in program.precolored] == [1, 3, 4]
    assert allocation.moves == 1


def test_values_that_live_round_a_loop_move_and_come_back() -> None:
    program = tight(11, 2)
    allocation = allocate(program)
    check(allocation, program)
    returning = allocation.program.redefinable - program.redefinable
    assert {r.file for r in returning} == {"v"}


def test_stretches_hold_every_item_once_and_blocks_join_in_the_same_registers() -> None:
    program = tight(70, 2)
    liveness = analyse(program)
    stretches = Stretches(liveness, "v", program.max_vgprs, program.reserved_vgprs).found()
    assert stretches is not None
    homes = {n: s.homes for s in stretches for first, last in s.spans for n in range(first, last)}
    assert sorted(homes) == sorted(n for s in stretches for a, b in s.spans for n in range(a, b))
    assert sorted(homes) == list(range(len(program.body)))
    cfg = liveness.cfg
    for b, block in enumerate(cfg.blocks):
        for after in cfg.flow.successors[b]:
            here, there = homes[liveness.rank[block.stop - 1]], homes[liveness.rank[cfg.blocks[after].start]]
            live = [r for r in liveness.live_in(after) if isinstance(r, VirtualReg) and r.file == "v"]
            assert [here[r] for r in live] == [there[r] for r in live]


def test_an_addend_that_is_partly_read_later_does_not_need_room_beside_the_product() -> None:
    program = parse("""
        .reserved_vgprs 0 1
        .max_vgprs 22
        ds_read_b64 kv40..+2@2, v0
        v_mfma_f32_32x32x8_f16 kv0..+16@2, kv40..+2@2, kv40..+2@2, 0
        v_mfma_f32_32x32x8_f16 kv16..+16@2, kv40..+2@2, kv40..+2@2, kv0..+16@2
        ds_write_b32 v0, kv3
        ds_write_b64 v0, kv16..+2@2
        s_endpgm
    """)
    with pytest.raises(AllocationError):
        allocate(program, AS_IT_IS)
    allocation = allocate(program)
    check(allocation, program)
    assert allocation.moves == 1


def test_scalars_move_too() -> None:
    loads = [f"s_load_dword ks{n}, s[0:1], {4 * n}" for n in range(4)]
    shown = [f"v_mov_b32 kv{n}, ks{n}\nds_write_b32 v0, kv{n}" for n in range(6)]
    lines = [".reserved_sgprs 0 1", ".max_sgprs 6", ".precolored ks0=2 ks1=3 ks2=4", *loads, shown[0], shown[2]]
    lines += ["s_load_dwordx2 ks4..+2@2, s[0:1], 16", *shown[4:], shown[1], shown[3], "s_endpgm"]
    program = parse("\n".join(lines))
    with pytest.raises(AllocationError):
        allocate(program, AS_IT_IS)
    allocation = allocate(program)
    check(allocation, program)
    assert sum(i.name == "s_mov_b32" for _, i in allocation.program.instructions) == allocation.moves == 1


def test_nothing_moves_under_a_partial_mask() -> None:
    prescribed = tuple((VirtualReg("v", n), n + 1) for n in (0, 2, 3))
    text = FRAGMENTED.replace("    ds_write_b32 v0, kv0\n", "    s_mov_b64 exec, 1\n    ds_write_b32 v0, kv0\n")
    with pytest.raises(AllocationError):
        allocate(replace(parse(text), precolored=prescribed))
