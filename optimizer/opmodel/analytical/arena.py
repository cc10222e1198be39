"""An op's L1 while its programs run: tt-metal's counters, and where its tensors really lie.

tt-metal allocates L1 tensors first-fit from the top of the bank, so a freed tensor can leave a hole above
another one; circular buffers must stay below the lowest tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.opmodel.analytical.trace import Trace


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A live L1 tensor: its bytes per core and the distance from the top of the bank to its upper end."""

    size: int
    depth: int


class Arena:
    """Allocations and programs of one op on an L1 that holds nothing but the op's operands."""

    def __init__(self, operands: int) -> None:
        self.operand = Block(operands, 0)
        """The op's operands in L1, at the top; they count as allocated before the op."""
        self.trace = Trace()
        self.small_peak = 0
        """Most bytes in L1_SMALL at once."""
        self._live = [self.operand] if operands else []
        self._small = 0
        self._deepest = operands

    def allocate(self, size: int) -> Block:
        """A tensor appears in the highest hole that takes it."""
        depth = 0
        for block in self._live:
            if block.depth - depth >= size:
                break
            depth = block.depth + block.size
        block = Block(size, depth)
        self._live.append(block)
        self._live.sort(key=lambda b: b.depth)
        self.trace.allocate(size)
        self._deepest = max(self._deepest, depth + size)
        return block

    def free(self, block: Block) -> None:
        self._live = [b for b in self._live if b is not block]
        self.trace.free(block.size)

    def drop(self, block: Block) -> None:
        """Frees a tensor unless that was done before."""
        if any(b is block for b in self._live):
            self.free(block)

    def move(self, block: Block) -> Block:
        """`ttnn.move`: freed and allocated anew, higher up where there is room."""
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
        low = self._live[-1].depth + self._live[-1].size if self._live else 0
        self._deepest = max(self._deepest, low + size + scratch)

    @property
    def room(self) -> int:
        """Bytes that must be free beside the operands."""
        return self._deepest - self.operand.size
