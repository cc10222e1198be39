"""How many waves run on a SIMD, and how many registers leave that as it is.

A SIMD has 512 VGPRs per lane, for VGPRs and AGPRs together, given out in eights, and room for eight waves; of SGPRs,
eight waves may have 100 each, vcc and five more that the hardware keeps included, and seven any number. Workgroups of a
compute unit share its LDS, their waves its four SIMDs. Sources: "AMD Instinct MI300 Instruction Set Architecture",
sections 3.6.1 and 3.6.4; `getOccupancyWithNumSGPRs` and `getOccupancyWithLocalMemSize` of LLVM's AMDGPU back end.
"""

from __future__ import annotations

from math import prod

from optimizer.kernels.amdgpu.emit import SIMDS, VGPR_GRANULE, VGPRS_PER_SIMD, WAVE, Footprint
from optimizer.kernels.amdgpu.ir import Launch, Program
from optimizer.kernels.amdgpu.operands import FILE_SIZES
from optimizer.kernels.amdgpu.targets import LDS_BYTES

WAVES_PER_SIMD = 8
_SGPRS_OF_EIGHT = 100
_HIDDEN_SGPRS = 6


def occupancy(taken: Footprint, launch: Launch, mcpu: str) -> int:
    """Waves per SIMD that registers and LDS allow; the fullest SIMD counts where they do not share evenly."""
    granted = -(-taken.next_free_vgpr // VGPR_GRANULE) * VGPR_GRANULE
    by_sgprs = WAVES_PER_SIMD if taken.sgprs + _HIDDEN_SGPRS <= _SGPRS_OF_EIGHT else WAVES_PER_SIMD - 1
    return min(VGPRS_PER_SIMD // granted, by_sgprs, _waves_by_lds(launch, mcpu))


def _waves_by_lds(launch: Launch, mcpu: str) -> int:
    if not launch.lds_bytes:
        return WAVES_PER_SIMD
    waves = -(-prod(launch.workgroup) // WAVE)
    groups = max(1, LDS_BYTES[mcpu] // launch.lds_bytes)
    return min(WAVES_PER_SIMD, -(-groups * waves // SIMDS))


def register_limits(program: Program, taken: Footprint, waves: int) -> dict[str, int]:
    """Registers of each class that may be live at once so that `waves` run on a SIMD, beside the program's AGPRs.

    Not fewer than the program takes: where `waves` do not fit, its own registers are the limit.
    """
    room = VGPRS_PER_SIMD // waves // VGPR_GRANULE * VGPR_GRANULE
    if taken.agprs:
        room = (room - taken.agprs) // 4 * 4
    sgprs = _SGPRS_OF_EIGHT - _HIDDEN_SGPRS if waves == WAVES_PER_SIMD else FILE_SIZES["s"]
    wanted = {"v": max(room, taken.vgprs), "s": max(sgprs, taken.sgprs), "a": taken.agprs}
    return {file: min(count, program.capacity(file)) - len(program.reserved(file)) for file, count in wanted.items()}
