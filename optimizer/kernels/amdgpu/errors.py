"""What can be wrong with a kernel program.

InputError
|-- OpcodeError        a mnemonic that the processor does not have
|-- OperandError       an operand that its instruction cannot take
|-- ControlFlowError   a branch to nowhere, a label twice
`-- SsaError           a register used before its definition, or defined twice
InfeasibleError
`-- AllocationError    more registers needed at once than there are
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from optimizer.errors import InfeasibleError, InputError


class OpcodeError(InputError):
    """No such opcode on the processor; the alternatives say what to use instead."""

    code = "bad-opcode"


class OperandError(InputError):
    """An operand of the wrong kind, width, alignment, range or position."""

    code = "bad-operand"


class ControlFlowError(InputError):
    """Labels and branches that do not fit together."""

    code = "bad-control-flow"


class SsaError(InputError):
    """A use that its definition does not dominate, or a second definition of a register that may have only one."""

    code = "bad-ssa"


class AllocationError(InfeasibleError):
    """No place for a range of registers. `node` names it, `limit` is the size of the register file."""

    code = "out-of-registers"

    def __init__(
        self,
        message: str,
        *,
        node: str | None = None,
        limit: int | float | str | None = None,
        alternatives: Iterable[str] = (),
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, node=node, limit=limit, alternatives=alternatives)
        self.details = dict(details or {})
        """Range, class, size, alignment, overlaps by length, pool: as `ttopt asm alloc` prints them."""
