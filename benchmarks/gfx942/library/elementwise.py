"""A chain of elementwise operations in one pass over memory: `out = max(scale * x + y, 0)` in float32."""

from __future__ import annotations

from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter
from gfx942.library.kernel import LibraryKernel, buffer_descriptor, check_buffer, launch_of
from optimizer.errors import OptionError
from optimizer.kernels.amdgpu.abi import KERNARG
from optimizer.kernels.amdgpu.ir import Argument

THREADS = 256
PER_LANE = 4


def scale_add_relu(elements: int) -> LibraryKernel:
    """Any number of elements: what is behind the end is neither read nor written."""
    if elements < 1:
        raise OptionError(f"{elements} elements", limit=1)
    size = check_buffer("x", 4 * elements)
    grid = (-(-elements // (THREADS * PER_LANE)), 1, 1)
    arguments = (Argument("x"), Argument("y"), Argument("out"), Argument("scale", 4, pointer=False))
    b = KernelBuilder("scale_add_relu", launch_of(grid, THREADS, arguments))
    e = ExpressionEmitter(b)
    tid, _, _ = e.bind_thread_ids((THREADS, 1, 1))
    group, _, _ = e.bind_workgroup_ids(grid)
    first = buffer_descriptor(b, 0, size)
    buffers = [first, *(buffer_descriptor(b, n, size, like=first) for n in (1, 2))]
    # Packed arithmetic reads a pair of scalars.
    scale = b.sgpr(2)
    b.s_load_dword(KERNARG, 24, dst=scale.component(0))
    place = e.buffer_address(4 * PER_LANE * (THREADS * group + tid))
    x, y = (b.buffer_load_dwordx4(place.vector, buffer, place.scalar, offset=place.offset) for buffer in buffers[:2])
    b.s_mov_b32(scale.component(0), dst=scale.component(1))
    out = b.vgpr(4)
    for half in (0, 2):
        scaled = b.v_pk_mul_f32(x.sub_range(half, 2, 2), scale)
        total = b.v_pk_add_f32(scaled, y.sub_range(half, 2, 2))
        for n in (0, 1):
            b.v_max_f32(0, total.component(n), dst=out.component(half + n))
    b.buffer_store_dwordx4(out, place.vector, buffers[2], place.scalar, offset=place.offset)
    b.s_endpgm()
    return LibraryKernel(b.program(), grid)
