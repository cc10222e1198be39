"""Where the hardware puts what a kernel starts with (AMDGPU user guide, "Initial Kernel Execution State", gfx942)."""

from __future__ import annotations

from optimizer.kernels.amdgpu.operands import PhysicalReg, RegRange

THREAD_ID = PhysicalReg("v", 0)
"""Packed: x in bits 0..9, y in 10..19, z in 20..29."""
KERNARG = RegRange(PhysicalReg("s", 0), 2, 2)
"""64-bit address of the kernel's arguments."""
WORKGROUP_ID = (PhysicalReg("s", 2), PhysicalReg("s", 3), PhysicalReg("s", 4))
"""x, y, z, as far as the kernel asks for them (`Launch.workgroup_ids`)."""
