"""An op's L1 while its programs run: tt-metal's counters, and where its tensors lie."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.l1.allocator import L1Allocator
from optimizer.l1.events import OPERAND, EventLog
from optimizer.opmodel.analytical.case import Refused, Usage
from optimizer.opmodel.analytical.trace import Trace
from optimizer.opmodel.base import Rejection, TensorSpec

_ENDLESS = 1 << 40
"""Top of an address space in which every allocation succeeds; whether there is room is asked afterwards."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """An L1 tensor: its bytes per core, its address, and its number among the op's own."""

    size: int
    address: int
    number: int

    @property
    def depth(self) -> int:
        """Distance of its lower end from the top of the bank."""
        return _ENDLESS - self.address


class Arena:
    """Allocations and programs of one op on an L1 that holds nothing but the op's operands."""

    def __init__(self, operands: int) -> None:
        self._l1 = L1Allocator(0, _ENDLESS, 1)
        self._log = EventLog()
        self.operand = Block(operands, self._place(operands) if operands else _ENDLESS, OPERAND)
        """The op's operands in L1, at the top; they count as allocated before the op."""
        self.trace = Trace()
        self.small_peak = 0
        """Most bytes in L1_SMALL at once."""
        self._live = [self.operand] if operands else []
        self._last = OPERAND
        self._small = 0
        self._deepest = operands

    def allocate(self, size: int) -> Block:
        """A tensor appears in the highest hole that takes it."""
        self._last = self._log.made(size)
        block = Block(size, self._place(size), self._last)
        self._live.append(block)
        self.trace.allocate(size)
        self._deepest = max(self._deepest, block.depth)
        return block

    def _place(self, size: int) -> int:
        address = self._l1.allocate(size)
        if address is None:
            raise Refused(f"Out of Memory: {size} B of L1", Rejection.OOM_L1)
        return address

    def free(self, block: Block) -> None:
        """The tensor ends. ValueError if it has done so before."""
        self._live.remove(block)
        if block.size or block.number != OPERAND:
            self._l1.free(block.address)
        self._log.freed(block.number)
        self.trace.free(block.size)

    def drop(self, block: Block) -> None:
        """Frees a tensor unless that was done before."""
        if any(b is block for b in self._live):
            self.free(block)

    def move(self, block: Block) -> Block:
        """`ttnn.move`: freed and allocated again, higher up where there is room."""
        self.free(block)
        return self.allocate(block.size)

    def allocate_small(self, size: int) -> None:
        """Index tensors appear in L1_SMALL, which tt-metal counts together with the other tensors."""
        self._small += size
        self.small_peak = max(self.small_peak, self._small)
        self.trace.allocate(size)

    def free_small(self, size: int) -> None:
        self._small -= size
        self.trace.free(size)

    def run(self, size: int, dataflow: bool = False, scratch: int = 0) -> None:
        """A program with so many bytes of buffers runs below the lowest tensor."""
        self.trace.run(size, dataflow, scratch=scratch)
        self._log.ran(size + scratch)
        self._deepest = max(self._deepest, self._depth + size + scratch)

    @property
    def _depth(self) -> int:
        """Distance of the lowest tensor from the top."""
        lowest = self._l1.lowest_address
        return 0 if lowest is None else _ENDLESS - lowest

    @property
    def room(self) -> int:
        """Bytes that must be free beside the operands."""
        return self._deepest - self.operand.size

    def check_small(self, limit: int) -> None:
        """Refuses what L1_SMALL of so many bytes has no room for."""
        if self.small_peak > limit:
            raise Refused(f"Out of Memory: {self.small_peak} B of L1_SMALL of {limit} B", Rejection.OOM_L1_SMALL)

    def usage(self, out: TensorSpec, cores: int) -> Usage:
        """All that happened; a result in L1 is the tensor made last."""
        trace, made = self.trace, self._last if out.layout.is_l1 else None
        return Usage(
            (out,), cb=trace.buffers, l1=trace.peak_tensors, peak=trace.peak_total, cores=cores, room=self.room,
            allocations=self._log.allocations(made),
        )  # fmt: skip
