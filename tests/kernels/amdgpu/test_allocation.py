"""Allocation: right by an exact checker and by what is stored; few registers; precise complaints; rewriting."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from random_programs import Wishes, random_program
from tracing import stores

from optimizer.errors import VerificationError
from optimizer.kernels.amdgpu.errors import AllocationError, OperandError
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.program_json import read_program
from optimizer.kernels.amdgpu.registers.allocate import AllocationOptions, allocate
from optimizer.kernels.amdgpu.registers.allocation_units import Units
from optimizer.kernels.amdgpu.registers.check_allocation import check_allocation, violations
from optimizer.kernels.amdgpu.registers.liveness import analyse
from optimizer.kernels.amdgpu.text import parse
from optimizer.kernels.amdgpu.validate import validate

DOCUMENT = json.loads((Path(__file__).parents[3] / "fixtures/kernels/amdgpu_cases.json").read_text())
ALLOC = [case for case in DOCUMENT["cases"] if case["kind"] == "alloc"]
AS_IT_IS = AllocationOptions(rewrite=False)
SPILLING = AllocationOptions(allow_spill=True)
SMALL = Wishes(steps=10, pressure=10, sizes=(1, 1, 2, 4), depth=1)


@pytest.mark.parametrize("case", ALLOC, ids=lambda c: c["id"])
def test_known_cases(case: dict) -> None:  # type: ignore[type-arg]
    program, expect = read_program(case["program"]), case["expect"]
    allocation = allocate(program, AS_IT_IS)
    mapping = {str(r): n for r, n in allocation.mapping.items()}
    check_allocation(program, allocation.mapping)
    assert allocation.peak_vgprs <= expect.get("peak_vgprs_max", 256)
    assert expect.get("exact_mapping", {}).items() <= mapping.items()
    for a, b in expect.get("no_share", ()):
        assert mapping[a] != mapping[b]
    for file, numbers in expect.get("forbidden", {}).items():
        assert not {n for name, n in mapping.items() if name[1] == file} & set(numbers)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_store_the_same_in_physical_registers(seed: int) -> None:
    program = random_program(seed, Wishes(steps=30 + 10 * seed))
    allocation = allocate(program, AS_IT_IS)
    assert violations(program, allocation.mapping) == []
    assert stores(program, allocation.mapping) == stores(program) != []


@pytest.mark.parametrize("seed", range(12))
def test_single_registers_take_exactly_the_pressure(seed: int) -> None:
    allocation = allocate(random_program(seed, Wishes(steps=120, sizes=(1,))), AS_IT_IS)
    vgprs = allocation.classes["v"]
    assert vgprs.peak == vgprs.pressure + 1


@pytest.mark.parametrize("seed", range(18))
def test_no_exhaustive_search_finds_a_lower_peak(seed: int) -> None:
    program = random_program(seed, SMALL)
    best = min(exhaustive(program, moves) for moves in (True, False))
    assert allocate(program, AS_IT_IS).peak_vgprs == best


def exhaustive(program: Program, moves: bool) -> int:
    """The lowest peak of all placements of the units, by trying every register for each in turn."""
    units = Units(analyse(program), "v")
    units.coalesce(moves)
    values = units.intervals()
    live = {v.id: [{p for s, e in part for p in range(s, e)} for part in v.parts] for v in values}

    def fits(placed: dict[int, int], value: int, register: int) -> bool:
        return not any(
            live[value][i] & live[other][register + i - first]
            for other, first in placed.items()
            for i in range(len(live[value]))
            if 0 <= register + i - first < len(live[other])
        )

    def place(n: int, placed: dict[int, int], limit: int) -> bool:
        if n == len(values):
            return True
        v = values[n]
        choices = [v.fixed] if v.fixed is not None else range(1, limit - v.size + 1)
        return any(
            r % v.alignment == v.phase and fits(placed, v.id, r) and place(n + 1, {**placed, v.id: r}, limit)
            for r in choices
        )

    values.sort(key=lambda v: (v.fixed is None, v.start))
    held: Counter[int] = Counter(p for parts in live.values() for part in parts for p in part)
    return next(limit for limit in range(max(held.values(), default=0), 64) if place(0, {}, limit))


def test_moves_and_accumulators_are_coalesced() -> None:
    program = parse("""
        .reserved_vgprs 0
        v_mfma_f32_32x32x8_f16 kv0..+16@2, v[2:3], v[4:5], 0
        v_mfma_f32_32x32x8_f16 kv16..+16@2, v[2:3], v[4:5], kv0..+16@2
        v_mov_b32 kv32, kv16
        ds_write_b32 v0, kv32
        buffer_store_dwordx4 kv17..+4, v0, s[4:7], 0
        s_endpgm
    """)
    mapping = allocate(program, AS_IT_IS).mapping
    assert mapping[VirtualReg("v", 0)] == mapping[VirtualReg("v", 16)] == mapping[VirtualReg("v", 32)]


def test_prescribed_and_named_registers_are_free_outside_their_live_range() -> None:
    program = parse("""
        .precolored kv0=1
        v_mov_b32 kv1, v1
        v_mov_b32 kv2, v0
        v_add_u32 kv0, kv1, kv2
        ds_write_b32 v0, kv0
        v_mov_b32 kv3, 5
        v_mov_b32 kv4, 6
        v_add_u32 kv5, kv3, kv4
        ds_write_b32 kv3, kv5
        s_endpgm
    """)
    allocation = allocate(program, AS_IT_IS)
    check_allocation(program, allocation.mapping)
    assert allocation.mapping[VirtualReg("v", 0)] == 1
    assert allocation.peak_vgprs == 3


def test_a_large_matrix_result_lies_apart_from_its_factors() -> None:
    program = parse("""
        ds_read_b64 kv0..+2@2, v0
        v_mfma_f32_32x32x8_f16 kv2..+16@2, kv0..+2@2, kv0..+2@2, 0
        buffer_store_dwordx4 kv2..+4@2, v0, s[4:7], 0
        s_endpgm
    """)
    mapping = allocate(program, AS_IT_IS).mapping
    taken = range(mapping[VirtualReg("v", 2)], mapping[VirtualReg("v", 2)] + 16)
    assert not {mapping[VirtualReg("v", 0)], mapping[VirtualReg("v", 1)]} & set(taken)


def test_contradictory_alignments_are_refused() -> None:
    with pytest.raises(OperandError, match="alignments"):
        allocate(
            parse("""
                buffer_load_dwordx3 kv0..+3@2, v0, s[4:7], 0
                ds_write_b64 v0, kv0..+2@2
                ds_write_b64 v0, kv1..+2@2
                s_endpgm
            """)
        )


CROWDED = "\n".join([
    ".reserved_vgprs 0",
    ".max_vgprs 4",
    *(f"v_add_u32 kv{n}, v0, v0" for n in range(4)),
    *(f"ds_write_b32 v0, kv{n}" for n in range(4)),
    "s_endpgm",
])  # fmt: skip


def test_failure_names_the_range_its_overlaps_by_length_and_the_pool() -> None:
    with pytest.raises(AllocationError) as caught:
        allocate(parse(CROWDED))
    message, details = str(caught.value), caught.value.details
    assert "no VGPR left for kv3 (live from 3 to 7): 4 VGPRs, 1 of them reserved; pressure is 4" in message
    assert [o["range"] for o in details["overlaps"]][-3:] == ["kv0", "kv1", "kv2"]
    assert details["size"] == 1
    assert details["capacity"] == 4
    assert pickle.loads(pickle.dumps(caught.value)).details == details


def test_nothing_is_spilled_unless_it_was_asked_for() -> None:
    allocation = allocate(parse(CROWDED), SPILLING)
    check_allocation(allocation.program, allocation.mapping)
    assert allocation.peak_vgprs <= 4
    assert "is spilled to AGPRs: 1 stores and 1 loads" in allocation.warnings[0]
    assert stores(allocation.program, allocation.mapping) == stores(parse(CROWDED))


def test_without_agprs_spills_go_to_scratch() -> None:
    allocation = allocate(replace(parse(CROWDED), max_agprs=0), SPILLING)
    assert allocation.program.launch.scratch_bytes > 0
    assert "scratch memory" in allocation.warnings[0]
    assert stores(allocation.program, allocation.mapping) == stores(parse(CROWDED))


def test_scalars_are_spilled_to_lanes() -> None:
    lines = [".max_sgprs 6", *(f"s_load_dword ks{n}, s[0:1], {4 * n}" for n in range(6))]
    lines += [f"v_mov_b32 kv{n}, ks{n}\nds_write_b32 v0, kv{n}" for n in range(6)]
    program = parse("\n".join([*lines, "s_endpgm"]))
    allocation = allocate(program, SPILLING)
    check_allocation(allocation.program, allocation.mapping)
    validate(allocation.program)
    assert allocation.peak_sgprs <= 6
    assert "lanes of a VGPR" in allocation.warnings[0]
    assert stores(allocation.program, allocation.mapping) == stores(program)


def test_constants_are_made_again_rather_than_kept() -> None:
    lines = [".max_vgprs 4", *(f"v_mov_b32 kv{n}, {n}" for n in range(9))]
    lines += [f"ds_write_b32 v0, kv{n}" for n in range(9)]
    program = parse("\n".join([*lines, "s_endpgm"]))
    allocation = allocate(program)
    assert allocation.peak_vgprs <= 4
    assert allocation.warnings == ()
    assert stores(allocation.program, allocation.mapping) == stores(program)
    with pytest.raises(AllocationError):
        allocate(program, AS_IT_IS)


FRAGMENTED = """
    .max_vgprs 4
    v_add_u32 kv0, v0, v0
    v_add_u32 kv1, v0, v0
    v_add_u32 kv2, v0, v0
    ds_write_b32 v0, kv1
    ds_write_b32 v0, v0
    ds_read_b64 kv4..+2@2, kv0
    ds_write_b64 kv0, kv4..+2@2
    ds_write_b32 kv0, kv2
    s_endpgm
"""


def test_a_live_range_is_split_where_a_pair_finds_no_place() -> None:
    program = replace(parse(FRAGMENTED), precolored=((VirtualReg("v", 0), 1), (VirtualReg("v", 2), 2)))
    with pytest.raises(AllocationError):
        allocate(program)
    allocation = allocate(parse(FRAGMENTED))
    assert stores(allocation.program, allocation.mapping) == stores(parse(FRAGMENTED))


@pytest.mark.parametrize("seed", range(8))
def test_rewritten_programs_store_the_same(seed: int) -> None:
    program = random_program(seed, Wishes(steps=50, pressure=30, sizes=(1, 1, 2, 4)))
    tight = replace(program, max_vgprs=14)
    allocation = allocate(tight, SPILLING)
    assert violations(allocation.program, allocation.mapping) == []
    validate(allocation.program)
    assert stores(allocation.program, allocation.mapping) == stores(program)


@pytest.mark.parametrize("seed", range(6))
def test_the_checker_sees_any_two_values_put_together(seed: int) -> None:
    program = random_program(seed, SMALL)
    mapping = allocate(program, AS_IT_IS).mapping
    liveness = analyse(program)
    singles = [r for r in mapping if r.file == "v" and liveness.segments[r]]
    together = [
        (a, b)
        for a, b in combinations(singles, 2)
        if any(s < t2 and s2 < t for s, t in liveness.segments[a] for s2, t2 in liveness.segments[b])
    ]
    assert together
    for a, b in together:
        with pytest.raises(VerificationError):
            check_allocation(program, {**mapping, a: mapping[b]})


def test_a_program_of_5000_instructions_is_allocated_with_few_registers() -> None:
    program = random_program(3, Wishes(steps=1500, pressure=120, sizes=(1, 1, 1, 1, 2, 4)))
    allocation = allocate(program, AS_IT_IS)
    assert len(program.instructions) > 3000
    assert violations(program, allocation.mapping) == []
