"""`ttopt timeline`: what lies in L1 while each op of a plan runs, value by value.

The figures are those of the verifier's replay (`verify.memory_rules`), so that every position adds up to the total that
the plan was checked with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from optimizer.result import OptimizedGraph
from optimizer.result.l1_contents import Item, Taken, contents
from optimizer.verify import StepMemory, verified
from optimizer.verify.memory_rules import replay


@dataclass(frozen=True)
class Position:
    """L1 per core while one op runs, at its peak."""

    position: int
    """Index in the `ops` of graph.json, as in its reservations."""
    op: str
    role: str
    items: tuple[Item, ...]
    memory: StepMemory

    def bytes_of(self, *kinds: str) -> int:
        return sum(item.bytes for item in self.items if item.kind in kinds)


@dataclass(frozen=True)
class Timeline:
    """Every op that the device runs, in order."""

    positions: tuple[Position, ...]
    limit_bytes: int
    """What a plan may take per core."""
    bank_bytes: int
    """What tensors, the holes between them and circular buffers may reach into."""

    @property
    def peak(self) -> Position:
        """The position that takes most; the first of several."""
        return max(self.positions, key=lambda p: p.memory.total_bytes)

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row per item and position, with the position's own figures in each: `COLUMNS`."""
        for p in self.positions:
            whole = (p.memory.total_bytes, self.limit_bytes, p.memory.extent_bytes, self.bank_bytes)
            for item in p.items:
                yield dict(zip(COLUMNS, (p.position, p.op, p.role, *asdict(item).values(), *whole), strict=True))

    def to_json(self) -> dict[str, Any]:
        """`{limit_bytes, bank_bytes, positions: [{position, op, role, total_bytes, extent_bytes, items}]}`."""
        return {
            "limit_bytes": self.limit_bytes,
            "bank_bytes": self.bank_bytes,
            "positions": [
                {
                    "position": p.position,
                    "op": p.op,
                    "role": p.role,
                    "total_bytes": p.memory.total_bytes,
                    "extent_bytes": p.memory.extent_bytes,
                    "items": [asdict(item) for item in p.items],
                }
                for p in self.positions
            ],
        }


COLUMNS = (
    "position", "op", "role", *(f.name for f in fields(Item)),
    "total_bytes", "limit_bytes", "extent_bytes", "bank_bytes",
)  # fmt: skip
"""Of the CSV. New ones may be added at the end."""


def timeline(result: OptimizedGraph) -> Timeline:
    """Replay a result on its own OpModel. VerificationError if it does not verify: its L1 means nothing then."""
    device, options = result.device, result.options
    steps = {step.op: step for step in replay(verified(result))}
    taken = {op: Taken(step.total_bytes, step.cb_bytes) for op, step in steps.items()}
    positions = tuple(
        Position(at.position, at.op.id, result.records[at.op.id].role.value, at.items, steps[at.op.id])
        for at in contents(result, taken)
    )
    bank = device.l1_bank_bytes(options.l1_small_bytes)
    return Timeline(positions, device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap), bank)
