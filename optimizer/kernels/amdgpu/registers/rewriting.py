"""What to change in a program whose registers do not fit, cheapest first: rematerialise, move, spill.

This ends. Every change but the last falls a measure of the program: first the matrix products whose addend is needed in
part later (`matrix_addends` frees one at least, nothing makes another), then the registers that no change has made
(constants made again and spills take one at least away; all that they put in its place are temporaries, which neither
takes). Moves between registers make new ones, so they come last, once in every class: what they give is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from optimizer.kernels.amdgpu.instruction_edits import Change, Placed
from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure, allocation_error
from optimizer.kernels.amdgpu.registers.compaction import compact
from optimizer.kernels.amdgpu.registers.liveness import analyse
from optimizer.kernels.amdgpu.registers.matrix_addends import free_addends
from optimizer.kernels.amdgpu.registers.rematerialise import rematerialise
from optimizer.kernels.amdgpu.registers.spilling import spill
from optimizer.regalloc.fewest import peak_bound


@dataclass(frozen=True)
class Moved:
    """A program with the moves that make room for all its ranges."""

    program: Program
    placed: tuple[Placed, ...]
    """The classes that did not fit, as they are now."""
    moves: int


class Rewriting:
    """Changes one after another, until the program fits or nothing is left to change."""

    def __init__(self, rewrite: bool, allow_spill: bool) -> None:
        self._may_rewrite, self._may_spill = rewrite or allow_spill, allow_spill
        self._temporaries: set[VirtualReg] = set()

    def next(self, failures: Sequence[ClassFailure]) -> Change | Moved:
        """A changed program to try next, or one that fits; AllocationError if nothing that is allowed is left."""
        stuck = failures[0]
        if self._may_rewrite:
            for failed in failures:
                change = rematerialise(failed, self._temporaries) or free_addends(failed)
                if change is not None:
                    self._temporaries |= change.temporaries
                    return change
            moved = _moved(failures)
            if isinstance(moved, Moved):
                return moved
            stuck = moved
        change = spill(stuck, self._temporaries) if self._may_spill else None
        if change is None:
            raise allocation_error(stuck)
        self._temporaries |= change.temporaries
        return change


def _moved(failures: Sequence[ClassFailure]) -> Moved | ClassFailure:
    """The program with moves in every class that does not fit, or the first class for which there are none."""
    for failed in failures:
        # Moves make room for ranges among registers that are free, they do not make more registers free.
        capacity = failed.failure.capacity
        if peak_bound(failed.units.intervals(), capacity, failed.reserved) > capacity:
            return failed
    program, moves = failures[0].liveness.program, 0
    placed: list[Placed] = []
    for failed in failures:
        here = failed if not placed else replace(failed, liveness=analyse(program))
        change = compact(here)
        if change is None:
            return failed
        program, moves = change.program, moves + change.moves
        assert change.placed is not None
        placed.append(change.placed)
    return Moved(program, tuple(placed), moves)
