"""`L1Chain`: a run of ops whose intermediate tensors stay in L1, and the states it goes through.

    InBuild --build()--> Built --resolve()--> Resolved --complete()--> Completed
                           |                      |
                           +------- fail() -------+------> Failed

Anything else is a StateError. A failed chain's ops stay in DRAM; the reason is kept and reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from optimizer.errors import StateError
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.process import logs
from optimizer.result import ChainRecord

_log = logs.room("policy")


class ChainState(StrEnum):
    IN_BUILD = "in_build"
    BUILT = "built"
    RESOLVED = "resolved"
    FAILED = "failed"
    COMPLETED = "completed"


class SpillLocation(StrEnum):
    """Where the chain's last result goes."""

    NONE = "none"
    """It is read from its shards."""
    L1_INTERLEAVED = "l1_interleaved"
    DRAM = "dram"
    """By a copy, or the last op writes there itself."""

    @staticmethod
    def of(layout: TensorLayout, spilled: bool) -> SpillLocation:
        """Of a result in this layout; `spilled`: it is written to DRAM as well."""
        if layout.is_dram or spilled:
            return SpillLocation.DRAM
        return SpillLocation.NONE if layout.is_sharded else SpillLocation.L1_INTERLEAVED


@dataclass(frozen=True)
class ChainChoice:
    """What a resolved chain decided for one of its ops."""

    candidate: OpCandidate
    operand0: TensorLayout
    """Layout in which operand 0 is read; if it is not the producer's, a copy is inserted."""


_ALLOWED = {
    ChainState.IN_BUILD: (ChainState.BUILT,),
    ChainState.BUILT: (ChainState.RESOLVED, ChainState.FAILED),
    ChainState.RESOLVED: (ChainState.COMPLETED, ChainState.FAILED),
    ChainState.FAILED: (),
    ChainState.COMPLETED: (),
}


@dataclass
class L1Chain:
    """One chain. Ops are graph op ids in schedule order."""

    id: str
    ops: list[str] = field(default_factory=list)
    state: ChainState = ChainState.IN_BUILD
    choices: tuple[ChainChoice, ...] = ()
    preferred: TensorMemoryLayout | None = None
    """Sharding of the last result that the op after the chain (a concat) could take in place."""
    spill_location: SpillLocation = SpillLocation.DRAM
    reason: str | None = None
    statistics: dict[str, Any] = field(default_factory=dict)

    def add(self, op_id: str) -> None:
        self._expect(ChainState.IN_BUILD, "add")
        self.ops.append(op_id)

    def build(self) -> None:
        if not self.ops:
            raise StateError(f"chain '{self.id}' has no ops to build")
        self._go(ChainState.BUILT)

    def resolve(self, choices: tuple[ChainChoice, ...]) -> None:
        if len(choices) != len(self.ops):
            raise StateError(f"chain '{self.id}' has {len(self.ops)} ops, got {len(choices)} choices")
        self._go(ChainState.RESOLVED)
        self.choices = choices

    def complete(self, spill_location: SpillLocation) -> None:
        self._go(ChainState.COMPLETED)
        self.spill_location = spill_location

    def fail(self, reason: str) -> None:
        self._go(ChainState.FAILED, reason)
        self.choices = ()
        self.spill_location = SpillLocation.NONE
        self.reason = reason

    def copy(self) -> L1Chain:
        """The chain as it is now, to be taken to another end."""
        return replace(self, ops=list(self.ops), statistics=dict(self.statistics))

    def record(self) -> ChainRecord:
        """The chain as the result reports it."""
        return ChainRecord(
            self.id, tuple(self.ops), self.state.value, self.spill_location.value, self.reason, self.statistics
        )

    def _expect(self, state: ChainState, action: str) -> None:
        if self.state is not state:
            raise StateError(f"chain '{self.id}' cannot {action} in state '{self.state.value}'")

    def _go(self, target: ChainState, because: str | None = None) -> None:
        if target not in _ALLOWED[self.state]:
            raise StateError(f"chain '{self.id}' cannot go from '{self.state.value}' to '{target.value}'")
        _log.debug("chain state", chain=self.id, before=self.state.value, after=target.value, because=because)
        self.state = target
