"""A thread as one core runs it: index arithmetic, loops, conditions, and the pipes that the core takes part in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from optimizer.errors import StateError
from optimizer.kernels.tensix.dialect import IF_DST, IF_SRC
from optimizer.kernels.tensix.ir import Op, Value
from optimizer.kernels.tensix.pipes import PipeNet

Way = tuple[str, int]
"""Name of a pipe net, and the number of one of its pipes."""


@dataclass
class CoreNumbers:
    """What the indices of a program after `fold-grid` are on one core, while its ops are walked in their order."""

    core: tuple[int, int]
    """Column and row on the chip."""
    arguments: Mapping[str, int]
    """Run-time arguments by name."""
    nets: Mapping[str, PipeNet] = MappingProxyType({})
    known: dict[str, int] = field(default_factory=dict)
    ways: dict[str, Way] = field(default_factory=dict)
    """By the pipe's value, while the region for it runs."""

    def __getitem__(self, v: Value) -> int:
        return self.known[v.name]

    def running(self, ops: Sequence[Op]) -> Iterator[Op]:
        """Ops as they run, but for those that make an index: it is known from then on."""
        for op in ops:
            if op.name in ("ttl.for", "ttl.if"):
                for _ in self.rounds(op):
                    yield from self.running(op.body.ops)
            elif op.name in (IF_SRC, IF_DST):
                name = op.operands[0].name
                net = self.nets[name]
                for number in net.outgoing(self.core) if op.name == IF_SRC else net.incoming(self.core):
                    self.ways[op.body.args[0].name] = name, number
                    yield from self.running(op.body.ops)
            elif not self.takes(op):
                yield op

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
