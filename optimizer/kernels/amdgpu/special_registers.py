"""scc, vcc and m0 hold nothing at entry: what reads them has to come after a definition on every way to it.

exec is defined at entry: the lanes that the wave has. Source: LLVM's AMDGPU usage guide, "Initial Kernel Execution
State", which names exec, flat_scratch and the registers that the descriptor asks for, and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph
from optimizer.kernels.amdgpu.errors import SsaError
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources
from optimizer.regalloc.flow import defined_on_every_way

_BITS = {"scc": 1, "vcc_lo": 2, "vcc_hi": 4, "m0": 8}
_WRITERS = {
    "scc": ("s_cmp_lg_u32", "s_and_b64", "another scalar instruction that sets it"),
    "vcc_lo": ("v_cmp_lt_u32 vcc", "s_mov_b64 vcc"),
    "vcc_hi": ("v_cmp_lt_u32 vcc", "s_mov_b64 vcc"),
    "m0": ("s_mov_b32 m0",),
}
"""What may define them, for the message."""


def check_special_registers(program: Program, cfg: ControlFlowGraph) -> None:
    """SsaError names the first instruction that, on some way, reads a special register before any definition."""
    made = []
    for block in cfg.blocks:
        written = {r for _, item in program.at(block.items) for r in written_resources(item)}
        made.append(_word(written))
    ready = defined_on_every_way(cfg.flow, made)
    for b in cfg.flow.order:
        bits = ready[b]
        for place, item in program.at(cfg.blocks[b].items):
            if missing := _word(read_resources(item)) & ~bits:
                raise _undefined(program, place, missing)
            bits |= _word(written_resources(item))


def _word(found: Collection[Resource]) -> int:
    return sum(bit for name, bit in _BITS.items() if name in found)


def _undefined(program: Program, place: int, missing: int) -> SsaError:
    name = next(n for n, bit in _BITS.items() if missing & bit)
    somewhere = any(name in written_resources(item) for _, item in program.instructions)
    said = "there is a way to it without any definition" if somewhere else "nothing defines it"
    return SsaError(
        f"{name} is used, but {said}; it holds nothing at entry",
        node=program.where(place),
        alternatives=_WRITERS[name],
    )
