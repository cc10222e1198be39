"""What one import may compute: elements of arrays that the input's numbers call for, and steps of work.

A model of a hundred bytes can name a size of 10**11 or make every value twice as long as the one before. Whoever
makes something whose size the input states asks here first. Both budgets count, so the same input always ends the
same way; the wall clock is looked at by the caller's `checkpoint` only.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from optimizer.errors import LimitError
from optimizer.importers.model import ImportLimits

WORK_PER_BYTE = 16
"""Steps that each byte of the file allows beyond `ImportLimits.max_work`; real models take one or two."""


class Budget:
    """What is left of an import's elements and work."""

    def __init__(
        self, limits: ImportLimits, file_bytes: int = 0, checkpoint: Callable[[], None] = lambda: None
    ) -> None:
        self.limits = limits
        self._max_work = limits.max_work + WORK_PER_BYTE * file_bytes
        self._checkpoint = checkpoint
        self._elements = 0
        self._work = 0

    def elements(self, place: str, *shape: int) -> None:
        """Ask for an array of this shape; LimitError naming `place` when the import's share is used up."""
        count = prod(max(0, size) for size in shape)
        self._elements += count
        limit = self.limits.max_computed_elements
        if self._elements > limit:
            shown = f"{list(shape)}" if len(shape) > 1 else f"{count}"
            raise LimitError(
                f"{place} makes the import compute an array of {shown} elements, {self._elements} in all; "
                f"the limit is {limit}",
                limit=limit,
            )
        self.work(place, 1 + count // 64)

    def work(self, place: str, steps: int) -> None:
        """Ask for `steps` of work, each some microseconds; LimitError naming `place`, or what the checkpoint raises."""
        self._checkpoint()
        self._work += steps
        if self._work > self._max_work:
            raise LimitError(
                f"importing the model takes more than {self._max_work} steps of work, at {place}; the limit is "
                f"{self.limits.max_work} and {WORK_PER_BYTE} for each byte of the file",
                limit=self._max_work,
            )
