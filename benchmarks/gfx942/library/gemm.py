"""Matrix products with MFMA: one or several waves, one or several tiles per wave, LDS staging, a loop over k.

Fragments are 16 rows by 16 or 32 elements along k, kept in the order of the lanes that MFMA wants: lane `l` has row
`l mod 16` and the elements from `lane_k * (l div 16)` on. So a lane loads what it needs with one instruction, LDS holds
fragments one after the other, and reading them back is linear: no two lanes want the same bank. Which k goes with which
slot of an MFMA does not matter as long as a and b agree: a lane's 8 elements serve two instructions.

The MFMA computes b a^T, the transpose of the wanted tile: a lane then has four neighbours of one row of c, which one
store writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter, floor_div, mod
from gfx942.library.gemm_shape import TILE, GemmShape
from gfx942.library.kernel import (
    WAVE,
    LibraryKernel,
    buffer_descriptor,
    check_buffer,
    launch_of,
    masked_offset,
)
from optimizer.kernels.amdgpu.abi import KERNARG
from optimizer.kernels.amdgpu.ir import Argument
from optimizer.kernels.amdgpu.operands import RegRange


def gemm(shape: GemmShape) -> LibraryKernel:
    """The kernel of a product; arguments a, b, c."""
    arguments = (Argument("a"), Argument("b"), Argument("c"))
    launch = launch_of(shape.grid, WAVE * shape.waves, arguments, shape.lds_bytes)
    b = KernelBuilder(f"gemm_{shape.element}", launch)
    _Gemm(shape, b).write()
    return LibraryKernel(b.program(), shape.grid)


@dataclass
class _Panel:
    """The rows of a or b that a workgroup needs, and where a wave finds its own."""

    name: str
    rows: int
    """16-row strips per block."""
    buffer: RegRange
    corner: Any
    """Byte of the panel's first element: the uniform part of all addresses."""
    load_place: Any
    """Bytes of the fragment that a lane loads first, within the panel; advances by a block per step."""
    along: Any
    """First element of that fragment along k."""
    lds_offset: int
    read_place: Any
    """Bytes in LDS of the wave's first fragment."""
    offset: Any = None
    """VGPR of `load_place`."""
    position: Any = None
    """VGPR with a lane's first k, where the last block is not full."""


class _Gemm:
    def __init__(self, shape: GemmShape, b: KernelBuilder) -> None:
        self.shape, self.b, self.e = shape, b, ExpressionEmitter(b)
        tid, _, _ = self.e.bind_thread_ids((WAVE * shape.waves, 1, 1))
        self.tid, self.lane, self.wave = tid, mod(tid, WAVE), floor_div(tid, WAVE)
        self.group = self.e.bind_workgroup_ids(shape.grid)
        self.row, self.quarter = mod(self.lane, TILE), floor_div(self.lane, TILE)

    def write(self) -> None:
        shape, b = self.shape, self.b
        first = self._panel("a", 0)
        panels = (first, self._panel("b", 1, first.buffer if self._size("a") == self._size("b") else None))
        result = b.s_load_dwordx2(KERNARG, 16)
        self._place_result()
        self._place_loads(panels)
        tiles_m, tiles_n = shape.tiles
        tiles = [(i, j) for i in range(tiles_m) for j in range(tiles_n)]
        sums = {tile: b.vgpr(4) for tile in tiles}
        if shape.steps == 1:
            self._step(panels, sums, first=True)
        else:
            self._loop(panels, sums)
        size = check_buffer("c", 4 * shape.m * shape.n)
        target = panels[0].buffer
        b.s_mov_b64(result, dst=target.sub_range(0, 2, 2))
        if size != self._size("a"):
            b.s_mov_b32(size, dst=target.component(2))
        for tile in tiles:
            self._store(target, tile, sums[tile])
        b.s_endpgm()

    # -- addresses ----------------------------------------------------------------------------------------------------
    def _size(self, name: str) -> int:
        return check_buffer(name, 2 * self.shape.k * (self.shape.m if name == "a" else self.shape.n))

    def _panel(self, name: str, argument: int, like: RegRange | None = None) -> _Panel:
        shape = self.shape
        block = (shape.block_m, shape.block_n)[argument]
        wave = mod(self.wave, shape.waves_m) if name == "a" else floor_div(self.wave, shape.waves_m)
        tiles, rows = shape.tiles[argument], block // TILE
        lane_bytes = 2 * shape.lane_k
        if not shape.staged:
            first, part = TILE * tiles * wave, 0
        elif shape.waves % rows == 0:
            first, part = TILE * mod(self.wave, rows), floor_div(self.wave, rows)
        else:
            first, part = TILE * self.wave, 0
        along = shape.fragment_k * part + shape.lane_k * self.quarter
        return _Panel(
            name,
            rows,
            buffer_descriptor(self.b, argument, self._size(name), like),
            2 * shape.k * block * self.group[argument],
            2 * (shape.k * (first + self.row) + along),
            along,
            2 * shape.block_m * shape.block_k * argument,
            shape.fragment_bytes * tiles * wave + lane_bytes * self.lane,
        )

    def _place_loads(self, panels: tuple[_Panel, _Panel]) -> None:
        """Registers of the load addresses: one for both panels where their rows are shared out alike."""
        changes = self.shape.steps > 1
        for n, panel in enumerate(panels):
            if n and panel.load_place == panels[0].load_place:
                panel.offset = panels[0].offset
            else:
                panel.offset = self.e.owned(panel.load_place) if changes else self.e.vector(panel.load_place)
            if self.shape.k % self.shape.block_k:
                panel.position = self.e.owned(panel.along) if changes else self.e.vector(panel.along)

    def _place_result(self) -> None:
        """What is needed to store c, computed while the ids are there."""
        shape, e = self.shape, self.e
        tiles_m, tiles_n = shape.tiles
        row = TILE * tiles_m * mod(self.wave, shape.waves_m) + self.row
        column = TILE * tiles_n * floor_div(self.wave, shape.waves_m) + 4 * self.quarter
        corner = shape.block_m * self.group[0] * shape.n + shape.block_n * self.group[1]
        self.result_corner = e.named("result_corner", 4 * corner)
        self.result_place = 4 * (row * shape.n + column)
        e.vector(self.result_place)
        self.column = column + shape.block_n * self.group[1]
        if shape.n % shape.block_n or shape.n % 4:
            e.vector(self.column)

    # -- the loop over k ----------------------------------------------------------------------------------------------
    def _loop(self, panels: tuple[_Panel, _Panel], sums: dict[tuple[int, int], RegRange]) -> None:
        b, e = self.b, self.e
        for total in sums.values():
            b.emit("_init_acc_quad", 0, dst=b.redefinable(total))
        left = b.redefinable(b.sgpr())
        b.s_mov_b32(self.shape.steps - 1, dst=left)
        # The pointers, once: otherwise the loop would wait for them every time.
        b.wait(lgkmcnt=0)
        with e.scope():
            head = b.label(b.new_label("k_loop"))
            self._step(panels, sums, first=False)
        b.s_sub_u32(left, 1, dst=left)
        b.s_cbranch_scc0(head)

    def _step(self, panels: tuple[_Panel, _Panel], sums: dict[tuple[int, int], RegRange], first: bool) -> None:
        """One block along k: load, advance, pass through LDS, multiply."""
        shape, b = self.shape, self.b
        if shape.staged:
            loaded = [(panel, self._load_block(panel)) for panel in panels]
            if not first:
                self._advance(panels)
                self._barrier()
            for panel, fragments in loaded:
                for n, data in enumerate(fragments):
                    place = self.e.lds_address(2 * shape.lane_k * self.tid + self._pass_bytes(n) + panel.lds_offset)
                    b.emit(f"ds_write_b{16 * shape.lane_k}", place.vector, data, offset=place.offset)
            self._barrier()
        for number in range(shape.slices):
            left, right = (
                [self._fragment(panel, number, tile) for tile in range(count)]
                for panel, count in zip(panels, shape.tiles, strict=True)
            )
            if not shape.staged and not first and number == shape.slices - 1:
                self._advance(panels)
            for (i, j), total in sums.items():
                for half in range(0, shape.lane_k, 4):
                    start = first and number == 0 and half == 0
                    operands = (right[j].sub_range(half // 2, 2, 2), left[i].sub_range(half // 2, 2, 2))
                    b.emit(f"v_mfma_f32_16x16x16_{shape.element}", *operands, 0 if start else total, dst=total)

    def _barrier(self) -> None:
        """A wave sees its own LDS accesses in order."""
        if self.shape.waves > 1:
            self.b.s_barrier()

    def _pass_bytes(self, number: int) -> int:
        return number * self.shape.waves * self.shape.fragment_bytes

    def _advance(self, panels: tuple[_Panel, _Panel]) -> None:
        for n, panel in enumerate(panels):
            if n == 0 or panel.offset is not panels[0].offset:
                self.b.v_add_u32(2 * self.shape.block_k, panel.offset, dst=panel.offset)
            if panel.position is not None:
                self.b.v_add_u32(self.shape.block_k, panel.position, dst=panel.position)

    # -- fragments ----------------------------------------------------------------------------------------------------
    def _load_block(self, panel: _Panel) -> list[Any]:
        shape, rows, waves = self.shape, panel.rows, self.shape.waves
        fragments = []
        for n in range(shape.passes(panel.name, TILE * rows)):
            if waves % rows == 0:
                fragments.append(self._load(panel, 0, n * (waves // rows)))
            else:
                strips = rows // waves
                fragments.append(self._load(panel, waves * (n % strips), n // strips))
        return fragments

    def _load(self, panel: _Panel, strip: int, part: int) -> Any:
        """The lane's part of a fragment `strip` strips below and `part` fragments right of its first."""
        shape = self.shape
        offset = panel.offset
        if panel.position is not None:
            offset = masked_offset(self.e, offset, panel.position, shape.k - shape.fragment_k * part)
        place = self.e.buffer_address(panel.corner + 2 * shape.k * TILE * strip + 2 * shape.fragment_k * part)
        name = f"buffer_load_dwordx{shape.lane_k // 2}"
        return self.b.emit(name, offset, panel.buffer, place.scalar, offset=place.offset)

    def _fragment(self, panel: _Panel, number: int, tile: int) -> Any:
        """The lane's part of a fragment of the wave: slice `number` along k, tile `tile` of its rows."""
        shape = self.shape
        if not shape.staged:
            return self._load(panel, tile, number)
        at = panel.lds_offset + shape.fragment_bytes * (number * panel.rows + tile)
        place = self.e.lds_address(panel.read_place + at)
        return self.b.emit(f"ds_read_b{16 * shape.lane_k}", place.vector, offset=place.offset)

    # -- the result ---------------------------------------------------------------------------------------------------
    def _store(self, target: RegRange, tile: tuple[int, int], total: RegRange) -> None:
        shape, e = self.shape, self.e
        down, right = TILE * tile[0], TILE * tile[1]
        width = 4 if shape.n % 4 == 0 else 1
        for first in range(0, 4, width):
            place = e.buffer_address(self.result_place + self.result_corner + 4 * (down * shape.n + right + first))
            offset = place.vector
            if shape.n % shape.block_n or width == 1:
                offset = masked_offset(e, offset, e.vector(self.column), shape.n - right - first)
            data = total if width == 4 else total.component(first)
            name = "buffer_store_dwordx4" if width == 4 else "buffer_store_dword"
            self.b.emit(name, data, offset, target, place.scalar, offset=place.offset)
