"""What a library function returns, and what all kernels have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gfx942.builder import KernelBuilder
from gfx942.expr import ExpressionEmitter
from optimizer.errors import OptionError
from optimizer.kernels.amdgpu.abi import KERNARG
from optimizer.kernels.amdgpu.ir import Argument, Launch, Program
from optimizer.kernels.amdgpu.operands import VCC, RegRange

WAVE = 64
BUFFER_LIMIT = 1 << 31
"""Bytes: offsets above it mark what is out of range."""
OUT_OF_RANGE = 0x80000000
RAW_BUFFER = 0x00020000
"""Word 3 of a buffer descriptor: raw, 32-bit data format."""


@dataclass(frozen=True)
class LibraryKernel:
    """A program and how it is launched. Arguments are `program.launch.arguments`."""

    program: Program
    grid: tuple[int, int, int]
    """Workgroups in x, y, z."""

    @property
    def workgroup(self) -> tuple[int, int, int]:
        """Threads in x, y, z."""
        return self.program.launch.workgroup


def launch_of(grid: Sequence[int], threads: int, arguments: Sequence[Argument], lds_bytes: int = 0) -> Launch:
    """How a kernel is started; only the workgroup ids that differ are passed."""
    ids = max((n for n, size in enumerate(grid, 1) if size > 1), default=0)
    return Launch((threads, 1, 1), tuple(arguments), ids, lds_bytes)


def check_buffer(name: str, size: int) -> int:
    """The size of a buffer in bytes. OptionError if 32-bit offsets do not reach all of it."""
    if not 0 < size < BUFFER_LIMIT:
        raise OptionError(f"{name} has {size} bytes", node=name, limit=f"1..{BUFFER_LIMIT - 1}")
    return size


def buffer_descriptor(b: KernelBuilder, argument: int, size: int, like: RegRange | None = None) -> RegRange:
    """Four SGPRs that describe the buffer that pointer argument `argument` (8 bytes each) points to.

    Loads behind its `size` bytes give 0, stores there are dropped. `like` is a descriptor of the same size.
    """
    descriptor: RegRange = b.sgpr(4)
    b.s_load_dwordx2(KERNARG, 8 * argument, dst=descriptor.sub_range(0, 2, 2))
    if like is not None:
        b.s_mov_b64(like.sub_range(2, 2, 2), dst=descriptor.sub_range(2, 2, 2))
    else:
        b.s_mov_b32(size, dst=descriptor.component(2))
        b.s_mov_b32(RAW_BUFFER, dst=descriptor.component(3))
    return descriptor


def masked_offset(e: ExpressionEmitter, offset: Any, position: Any, limit: int) -> Any:
    """A VGPR with the offset where `position < limit`, out of range elsewhere. Overwrites vcc."""
    b = e.builder
    b.v_cmp_gt_u32(max(limit, 0), position, dst=VCC)
    # vcc is the one scalar that the instruction may read: no room for a literal.
    return b.v_cndmask_b32(e.constant_register(OUT_OF_RANGE, in_vgpr=True), offset, VCC)
