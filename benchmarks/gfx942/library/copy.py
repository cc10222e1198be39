"""Copy of a matrix of 16-bit elements, a 16 x 16 tile per wave."""

from __future__ import annotations

from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter, floor_div, mod
from gfx942.library.kernel import (
    WAVE,
    LibraryKernel,
    buffer_descriptor,
    check_buffer,
    launch_of,
    masked_offset,
)
from optimizer.errors import OptionError
from optimizer.kernels.amdgpu.ir import Argument

TILE = 16
PER_LANE = 4
"""Elements: 64 lanes x 4 x 2 bytes are a tile."""


def copy(rows: int, columns: int) -> LibraryKernel:
    """`b = a` for row-major matrices of 16-bit elements. OptionError unless `columns` is a multiple of 4."""
    if rows < 1 or columns < 1 or columns % PER_LANE:
        raise OptionError(f"copy of {rows} x {columns}: columns come in fours", limit=PER_LANE)
    size = check_buffer("a", 2 * rows * columns)
    grid = (-(-rows // TILE), -(-columns // TILE), 1)
    b = KernelBuilder("copy", launch_of(grid, WAVE, (Argument("a"), Argument("b"))))
    e = ExpressionEmitter(b)
    tid, _, _ = e.bind_thread_ids((WAVE, 1, 1))
    tile_row, tile_column, _ = e.bind_workgroup_ids(grid)
    source = buffer_descriptor(b, 0, size)
    target = buffer_descriptor(b, 1, size, like=source)
    lanes = TILE // PER_LANE
    row, column = floor_div(tid, lanes), PER_LANE * mod(tid, lanes)
    corner = 2 * TILE * (tile_row * columns + tile_column)
    place = e.buffer_address(2 * (row * columns + column) + corner)
    offset = place.vector
    if columns % TILE:
        offset = masked_offset(e, offset, e.vector(TILE * tile_column + column), columns)
    data = b.buffer_load_dwordx2(offset, source, place.scalar, offset=place.offset)
    b.buffer_store_dwordx2(data, offset, target, place.scalar, offset=place.offset)
    b.s_endpgm()
    return LibraryKernel(b.program(), grid)
