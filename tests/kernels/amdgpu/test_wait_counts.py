"""Waits and nops counted, against the blanket strategy."""

from __future__ import annotations

from gfx942.wait_counts import WaitCounts, wait_counts

from optimizer.kernels.amdgpu.passes.insert_waits import insert_waits
from optimizer.kernels.amdgpu.passes.mitigate_hazards import mitigate_hazards
from optimizer.kernels.amdgpu.text import parse

PROGRAM = """
.workgroup 256 1 1
s_load_dwordx2 s[4:5], s[0:1], 0
v_lshlrev_b32 v1, 2, v0
global_load_dword v2, v1, s[4:5]
global_load_dword v3, v1, s[4:5] offset:256
v_mul_f32 v2, v2, v2
v_add_f32 v2, v2, v3
v_readfirstlane_b32 s6, v2
ds_write_b32 v1, v2
s_barrier
ds_read_b32 v4, v1
s_endpgm
"""


def test_counts() -> None:
    program = mitigate_hazards(insert_waits(parse(PROGRAM)))

    # Waited for: the pointer, the first load, the second, LDS at the barrier. Nops: before v_readfirstlane.
    # Blanket: both loads, three times v2, once LDS data v2, the barrier; five vector instructions.
    assert wait_counts(program) == WaitCounts(4, 1, 1, blanket_waits=7, blanket_nops=4)
