"""What to change in a program whose registers do not fit, cheapest first: rematerialise, move, spill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.kernels.amdgpu.addends import free_addends
from optimizer.kernels.amdgpu.compaction import compact
from optimizer.kernels.amdgpu.edit import Change
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.rematerialise import rematerialise
from optimizer.kernels.amdgpu.spilling import spill
from optimizer.regalloc.fewest import peak_bound

if TYPE_CHECKING:
    from optimizer.kernels.amdgpu.allocate import AllocationOptions, ClassFailure


class Rewriting:
    """Changes one after another, until the program fits or nothing is left to change."""

    def __init__(self, options: AllocationOptions) -> None:
        self._options = options
        self._temporaries: set[VirtualReg] = set()

    def next(self, failed: ClassFailure) -> Change | None:
        """A changed program to try next; None if nothing that is allowed is left."""
        change = self._cheap(failed) if self._options.rewrite or self._options.allow_spill else None
        if change is None and self._options.allow_spill:
            change = spill(failed, self._temporaries)
        if change is not None:
            self._temporaries |= change.temporaries
        return change

    def _cheap(self, failed: ClassFailure) -> Change | None:
        change = rematerialise(failed)
        if change is not None:
            return change
        change = free_addends(failed)
        if change is not None:
            return change
        # Moves make room for ranges among registers that are free, they do not make more registers free.
        capacity = failed.failure.capacity
        return compact(failed) if peak_bound(failed.units.intervals(), capacity, failed.reserved) <= capacity else None
