"""Rewriting ends: every change takes something away that no other brings back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
from optimizer.kernels.amdgpu.registers.allocate import Allocation, AllocationOptions, allocate
from optimizer.kernels.amdgpu.text import parse
from optimizer.process.work_limit import bounded
from tests.samples import examples

STEPS = 20_000
"""More than any of these kernels takes."""


def constants_read_together(limit: int) -> str:
    """Three constants that one instruction reads, behind as many others as keep them alive."""
    return f"""
.kernel few
.workgroup 64 1 1
.argument y 8 pointer
.max_vgprs {limit}
.reserved_vgprs 0
    s_load_dwordx2 ks0..+2@2, s[0:1], 0
    v_mov_b32 kv0, 1001
    v_mov_b32 kv1, 1002
    v_mov_b32 kv2, 1003
    v_add3_u32 kv3, kv0, kv1, kv2
    v_add3_u32 kv4, kv2, kv0, kv3
    global_store_dword v0, kv4, ks0..+2@2
    s_endpgm
"""


def allocated(text: str, spill: bool) -> Allocation:
    with bounded("rewriting it", STEPS, "the kernel"):
        return allocate(parse(text), AllocationOptions(rewrite=True, allow_spill=spill))


@pytest.mark.parametrize("spill", [False, True])
def test_constants_are_not_made_again_for_ever(spill: bool) -> None:
    """Three operands need three registers, whatever is done about it."""
    with pytest.raises(AllocationError, match="few"):
        allocated(constants_read_together(3), spill)


def test_constants_that_fit_are_made_again() -> None:
    assert allocated(constants_read_together(4), False).peak_vgprs <= 4


@pytest.mark.parametrize("spill", [False, True])
def test_a_build_with_too_few_registers_is_refused(spill: bool) -> None:
    with pytest.raises(AllocationError):
        build(parse(constants_read_together(3)), AssemblyOptions(allow_spill=spill))


@given(
    st.integers(2, 6),
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(1, 10),
)
@settings(max_examples=examples(120))
def test_small_kernels_end_with_any_number_of_registers(
    vgprs: int, agprs: int, sums: list[tuple[int, int, int]], constants: int
) -> None:
    """Registers, or a refusal; never more steps than a small kernel takes."""
    lines = [f"    v_mov_b32 kv{n}, {1000 + n}" for n in range(constants)]
    for n, operands in enumerate(sums, constants):
        a, b, c = (m % n for m in operands)
        lines.append(f"    v_add3_u32 kv{n}, kv{a}, kv{b}, kv{c}")
    lines.append(f"    ds_write_b32 v0, kv{constants + len(sums) - 1}")
    text = "\n".join((".kernel k", f".max_vgprs {vgprs}", f".max_agprs {agprs}", *lines, "    s_endpgm"))
    try:
        found = allocated(text, True)
    except AllocationError:
        return
    assert found.peak_vgprs <= vgprs
