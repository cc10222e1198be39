"""`s_mov_b64 vcc, vcc` before branches on vccz that only half of vcc was written for.

Up to gfx9, a write of vcc_lo or vcc_hi alone leaves vccz as it was; a write of both sets it. Source: LLVM's
SIInsertWaitcnts, which does the same where `partialVCCWritesUpdateVCCZ` does not hold.
"""

from __future__ import annotations

from optimizer.kernels.amdgpu.cfg import build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.operands import VCC
from optimizer.kernels.amdgpu.resources import written_resources

_BRANCHES = ("s_cbranch_vccz", "s_cbranch_vccnz")
_HALVES = frozenset(("vcc_lo", "vcc_hi"))


def refresh_vccz(program: Program) -> Program:
    """On physical registers; before waits, because the move reads vcc."""
    stale = _stale(program)
    body: list[Item] = []
    for place, item in enumerate(program.body):
        if place in stale:
            body.append(Instruction("s_mov_b64", (VCC,), (VCC,), comment="vccz"))
        body.append(item)
    return program.with_body(tuple(body))


def _stale(program: Program) -> set[int]:
    """Branches on vccz before which, on some way, half of vcc was written last."""
    cfg = build_cfg(program)
    found: set[int] = set()

    def stale_behind(b: int, stale: int) -> int:
        for place, item in program.at(cfg.blocks[b].items):
            if item.name in _BRANCHES and stale:
                found.add(place)
                stale = False
            written = _HALVES.intersection(written_resources(item))
            stale = len(written) == 1 or (stale and not written)
        return stale

    cfg.reaching(False, stale_behind)
    return found
