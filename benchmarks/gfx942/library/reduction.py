"""Sums of float32: every workgroup adds 1024 elements, first per lane, then by halves in LDS."""

from __future__ import annotations

from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter
from gfx942.library.kernel import LibraryKernel, buffer_descriptor, check_buffer, launch_of
from optimizer.errors import OptionError
from optimizer.kernels.amdgpu.abi import THREAD_ID
from optimizer.kernels.amdgpu.ir import Argument
from optimizer.kernels.amdgpu.operands import EXEC, OFF, VCC

THREADS = 256
PER_LANE = 4
GROUP = THREADS * PER_LANE


def partial_sums(elements: int) -> LibraryKernel:
    """`out[g]` is the sum of elements `1024*g` to `1024*g + 1023`, as far as there are any.

    Order: `((x0 + x1) + x2) + x3` per lane, then lane `n` with lane `n + 128`, `n + 64`, ..., `n + 1`.
    """
    if elements < 1:
        raise OptionError(f"{elements} elements", limit=1)
    size = check_buffer("x", 4 * elements)
    grid = (-(-elements // GROUP), 1, 1)
    b = KernelBuilder("partial_sums", launch_of(grid, THREADS, (Argument("x"), Argument("out")), 4 * THREADS))
    e = ExpressionEmitter(b)
    tid, _, _ = e.bind_thread_ids((THREADS, 1, 1))
    group, _, _ = e.bind_workgroup_ids(grid)
    source, target = buffer_descriptor(b, 0, size), buffer_descriptor(b, 1, 4 * grid[0])
    place = e.buffer_address(4 * (GROUP * group + PER_LANE * tid))
    x = b.buffer_load_dwordx4(place.vector, source, place.scalar, offset=place.offset)
    own = e.vector(4 * tid)
    total = b.redefinable(b.vgpr())
    partial = b.v_add_f32(x.component(0), x.component(1))
    partial = b.v_add_f32(partial, x.component(2))
    b.v_add_f32(partial, x.component(3), dst=total)
    b.ds_write_b32(own, total)
    # Bytes between the lanes that are added: those of the lower half of what is left add those of the upper one.
    distance = b.redefinable(b.sgpr())
    b.s_movk_i32(2 * THREADS, dst=distance)
    loop = b.label(b.new_label("halve"))
    b.s_barrier()
    b.v_cmp_gt_u32(distance, own, dst=VCC)
    active = b.s_and_saveexec_b64(VCC)
    other = b.ds_read_b32(b.v_add_u32(distance, own))
    b.v_add_f32(total, other, dst=total)
    b.ds_write_b32(own, total)
    b.s_mov_b64(active, dst=EXEC)
    b.s_lshr_b32(distance, 1, dst=distance)
    b.s_cmp_ge_u32(distance, 4)
    b.s_cbranch_scc1(loop)
    b.v_cmp_eq_u32(0, THREAD_ID, dst=VCC)
    b.s_and_saveexec_b64(VCC)
    place = e.buffer_address(4 * group)
    b.buffer_store_dword(total, OFF, target, place.scalar)
    b.s_endpgm()
    return LibraryKernel(b.program(), grid)
