"""What to change in a program whose registers do not fit, cheapest first: rematerialise, move, spill."""

from __future__ import annotations

from optimizer.kernels.amdgpu.instruction_edits import Change
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.compaction import compact
from optimizer.kernels.amdgpu.registers.matrix_addends import free_addends
from optimizer.kernels.amdgpu.registers.rematerialise import rematerialise
from optimizer.kernels.amdgpu.registers.spilling import spill
from optimizer.regalloc.fewest import peak_bound


class Rewriting:
    """Changes one after another, until the program fits or nothing is left to change."""

    def __init__(self, rewrite: bool, allow_spill: bool) -> None:
        self._may_rewrite, self._may_spill = rewrite or allow_spill, allow_spill
        self._temporaries: set[VirtualReg] = set()

    def next(self, failed: ClassFailure) -> Change | None:
        """A changed program to try next; None if nothing that is allowed is left."""
        change = self._cheap(failed) if self._may_rewrite else None
        if change is None and self._may_spill:
            change = spill(failed, self._temporaries)
        if change is not None:
            self._temporaries |= change.temporaries
        return change

    def _cheap(self, failed: ClassFailure) -> Change | None:
        change = rematerialise(failed) or free_addends(failed)
        if change is not None:
            return change
        # Moves make room for ranges among registers that are free, they do not make more registers free.
        capacity = failed.failure.capacity
        return compact(failed) if peak_bound(failed.units.intervals(), capacity, failed.reserved) <= capacity else None
