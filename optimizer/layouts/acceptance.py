"""What layout generation asks about an op, without knowing who answers.

The layouts room must not import the OpModel room (it is the other way round), so the question is a
protocol here; `optimizer.opmodel.pricing.OpPricer` answers it with an OpModel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import MemoryConfig, TensorLayout
from optimizer.layouts.op_config import OpConfig


class OpAcceptance(Protocol):
    """Answers for the ops of one graph."""

    @property
    def grid_yx(self) -> tuple[int, int]:
        """Worker grid of the board, (rows, columns)."""
        ...

    def produced(
        self, op: Op, operands: Sequence[TensorLayout], config: OpConfig | None, request: MemoryConfig | None
    ) -> TensorLayout | None:
        """Layout of the op's first result, or None when the op refuses or does not fit within the L1 limit."""
        ...

    def default_operands(self, op: Op) -> tuple[TensorLayout, ...]:
        """Operand layouts with everything in DRAM interleaved (host for conv weights)."""
        ...
