"""What stays in order, and at which distance."""

from __future__ import annotations

import pytest

from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.scheduling.dependences import MemoryOrder, dependences
from optimizer.kernels.amdgpu.text import parse_instruction

LOAD = "global_load_dword kv1, kv0, s[4:5]"
STORE = "global_store_dword kv2, kv3, s[6:7]"


def edges(*lines: str, apart: bool = False) -> dict[tuple[int, int], int]:
    """(earlier, later) -> cycles."""
    items: list[Instruction] = [parse_instruction(line) for line in lines]
    graph = dependences(items, MemoryOrder(apart))
    return {(source, n): cycles for n, found in enumerate(graph.before) for source, cycles in found.items()}


@pytest.mark.parametrize(
    ("first", "second", "cycles"),
    [
        ("v_add_u32 kv1, kv0, kv0", "v_add_u32 kv2, kv1, kv0", 4),
        ("v_add_u32 kv2, kv1, kv0", "v_mov_b32 kv1, 0", 4),
        ("v_mov_b32 kv1, 0", "v_mov_b32 kv1, 1", 4),
        ("s_cmp_lt_u32 ks0, ks1", "s_cselect_b32 ks2, ks0, ks1", 4),
        (LOAD, "v_add_u32 kv2, kv1, kv0", 640),
        (LOAD, "v_mov_b32 kv1, 0", 640),
        (LOAD, "v_mov_b32 kv0, 0", 4),
        ("ds_read_b128 kv4..+4@2, kv0", "v_mov_b32 kv1, kv5", 64),
        ("v_mov_b32 kv4, 0", "v_mfma_f32_16x16x16_f16 kv8..+4@2, kv4..+2@2, kv6..+2@2, 0", 12),
        ("v_mfma_f32_16x16x16_f16 kv8..+4@2, kv4..+2@2, kv6..+2@2, 0", "v_mov_b32 kv1, kv8", 32),
        ("v_cmp_lt_u32 ks0..+2@2, kv0, kv1", "global_load_dword kv4, kv0, ks0..+2@2", 24),
    ],
)  # fmt: skip
def test_registers_keep_their_order_at_the_distance_that_results_need(first: str, second: str, cycles: int) -> None:
    assert edges(first, second) == {(0, 1): cycles}


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (LOAD, "global_load_dword kv4, kv0, s[6:7]", False),
        (LOAD, STORE, True),
        (STORE, "global_store_dword kv4, kv5, s[6:7]", True),
        ("ds_read_b32 kv1, kv0", "ds_read_b32 kv2, kv0", False),
        ("ds_read_b32 kv1, kv0", "ds_write_b32 kv0, kv3", True),
        ("ds_write_b32 kv0, kv3", "ds_read_b32 kv1, kv4", True),
        ("ds_write_b32 kv0, kv3", LOAD, False),
        ("ds_bpermute_b32 kv1, kv0, kv3", "ds_write_b32 kv4, kv5", False),
        ("scratch_store_dword off, kv3, off offset:4", LOAD, False),
        ("scratch_store_dword off, kv3, off offset:4", "scratch_load_dword kv1, off, off offset:4", True),
        ("buffer_load_dword_lds kv0, ks0..+4@4, 0", "ds_read_b32 kv2, kv3", True),
        ("s_load_dword ks9, s[0:1], 0", STORE, False),
        ("s_load_dword ks9, s[8:9], 0", STORE, True),
        ("s_barrier", LOAD, True),
        ("s_barrier", "ds_read_b32 kv1, kv0", True),
        ("s_barrier", "v_mov_b32 kv1, 0", False),
        ("s_barrier", "scratch_load_dword kv1, off, off offset:4", False),
        ("s_barrier", "s_barrier", True),
    ],
)
def test_memory_keeps_its_order(first: str, second: str, kept: bool) -> None:
    assert bool(edges(first, second)) == kept
    assert bool(edges(second, first)) == kept


def test_loads_that_are_apart_from_stores_pass_them_and_barriers() -> None:
    assert edges(STORE, LOAD, apart=True) == edges("s_barrier", LOAD, apart=True) == {}
    assert edges(STORE, "s_barrier", apart=True) == {(0, 1): 4}


def test_what_is_written_to_lds_is_complete_at_a_barrier_of_several_waves() -> None:
    assert edges("ds_write_b32 kv0, kv3", "s_barrier") == {(0, 1): 52}
