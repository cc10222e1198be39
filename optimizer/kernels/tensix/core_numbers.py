"""Index arithmetic of one core: its coordinates, what it is given, counters of loops, conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from optimizer.errors import StateError
from optimizer.kernels.tensix.ir import Op, Value


@dataclass
class CoreNumbers:
    """What the indices of a program after `fold-grid` are on one core, while its ops are walked in their order."""

    core: tuple[int, int]
    """Column and row on the chip."""
    arguments: Mapping[str, int]
    """Run-time arguments by name."""
    known: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, v: Value) -> int:
        return self.known[v.name]

    def takes(self, op: Op) -> bool:
        """Whether an op makes an index; it is known then. StateError for a run-time argument that is not given."""
        match op.name:
            case "ttl.constant":
                made = op.integer("value")
            case "ttl.core_coordinate":
                made = self.core[op.integer("axis")]
            case "ttl.index":
                made = op.index_map("map").evaluate([self[v] for v in op.operands])[0]
            case "ttl.runtime_arg":
                name = op.string("name")
                if name not in self.arguments:
                    raise StateError(f"the run-time argument '{name}' is not given")
                made = self.arguments[name]
            case _:
                return False
        self.known[op.result.name] = made
        return True

    def rounds(self, op: Op) -> Iterator[None]:
        """Once per round of a loop, whose counter is known then; once for a condition that holds."""
        if op.name == "ttl.if":
            if self.holds(op):
                yield
            return
        upper = self[op.operands[0]] if op.operands else op.integer("upper")
        for number in range(op.integer("lower"), upper, op.integer("step")):
            self.known[op.body.args[0].name] = number
            yield

    def holds(self, condition: Op) -> bool:
        """Whether all pairs of a `ttl.if` are in their relations."""
        values = [self[v] for v in condition.operands]
        pairs = zip(values[::2], values[1::2], condition.strings("tests"), strict=True)
        return all(a == b if test == "==" else a <= b for a, b, test in pairs)
