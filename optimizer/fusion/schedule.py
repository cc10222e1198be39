"""The schedule of a result while regions are fused: places of their kernels, and what L1 holds at every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optimizer.fusion.regions import Region
from optimizer.ir.graph import Op as GraphOp
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.types import CircularBufferType
from optimizer.layouts.aliases import frees_operand
from optimizer.layouts.memory_config import BufferType
from optimizer.layouts.op_config import overwritten_operand
from optimizer.result import OptimizedGraph


class FusedSchedule:
    """Ops of a run in order. A fused op runs where the anchor of its region is."""

    def __init__(self, result: OptimizedGraph) -> None:
        self.result, self.graph = result, result.graph
        self.ops: list[GraphOp] = self.graph.run_ops()
        self.index: dict[str, int] = {op.id: n for n, op in enumerate(self.ops)}
        self.position: dict[str, int] = dict(self.index)
        """Where an op runs now."""
        self.gone: set[str] = set()
        """Values that are no tensors any more."""
        self._buffers, self._home = result.program.buffers, result.program.homes
        self._weights = sum(buffer.allocated_bytes for buffer in result.program.weights)
        options = result.options
        self.limit_bytes = result.device.l1_limit_bytes(options.l1_small_bytes, options.tensor_l1_usage_cap)

    # -- places -----------------------------------------------------------------------------------------------
    def place(self, members: Sequence[str], inputs: Iterable[str], outputs: Iterable[str]) -> str | None:
        """The last member in whose place all of them can run: after what they read, before what reads them."""
        inside = set(members)
        earliest = max((self.position[p.id] for v in inputs if (p := self._producer(v)) is not None), default=-1)
        readers = [self.position[r.id] for v in outputs for r in self.graph.consumers(v) if r.id not in inside]
        latest = min([*readers, *self._freed(inputs, inside)], default=len(self.ops))
        for op_id in reversed(members):
            if earliest < self.index[op_id] < latest:
                return op_id
        return None

    def _producer(self, value: str) -> GraphOp | None:
        """The op of the run that computes a value."""
        op = self.graph.producer(value)
        return op if op is not None and op.id in self.index else None

    def _ends(self, op: GraphOp, buffer: str) -> bool:
        """Whether what lies in a buffer is gone after an op that reads of it: freed, or written over."""
        config = self.result.records[op.id].config
        into = overwritten_operand(config)
        written = into is not None and self._home[op.inputs[into]] == buffer
        return written or frees_operand(config, self.result.layouts[op.inputs[0]])

    def _freed(self, values: Iterable[str], inside: set[str]) -> list[int]:
        """Positions of ops outside that, after one of these values is made, free its buffer or write into it."""
        found = []
        for v in values:
            buffer, producer = self._home[v], self._producer(v)
            made = -1 if producer is None else self.position[producer.id]
            for shared in self._buffers[buffer].values:
                for op in self.graph.consumers(shared):
                    outside = op.id not in inside and op.id in self.index
                    if outside and self.position[op.id] > made and self._ends(op, buffer):
                        found.append(self.position[op.id])
        return found

    def fuse(self, ops: Sequence[GraphOp], anchor: str, outputs: Iterable[str]) -> None:
        """Let ops run as one in the place of the anchor; of what they make only the outputs stay tensors."""
        made = {v for op in ops for v in op.outputs}
        self.position |= dict.fromkeys((op.id for op in ops), self.index[anchor])
        self.gone = (self.gone - made) | (made - set(outputs))

    # -- memory -----------------------------------------------------------------------------------------------
    def fits(self, region: Region, lowered: Op) -> bool:
        """Whether the kernel fits, and no other op has more in L1 than before while it runs."""
        anchor = self.index[region.anchor]
        touched = {self._home[o.value] for o in (*region.inputs, *region.outputs)}
        touched |= {self._home[v] for v in region.made}
        positions = {**self.position, **dict.fromkeys(region.op_ids, anchor)}
        gone = (self.gone - set(region.made)) | set(region.vanished)
        before = {b: self._life(b, self.position, self.gone) for b in sorted(touched)}
        after = {b: self._life(b, positions, gone) for b in sorted(touched)}
        inside = {self.index[op_id] for op_id in region.op_ids}
        spans = [span for span in (*before.values(), *after.values()) if span is not None]
        for step in range(min(s for s, _ in spans), max(e for _, e in spans) + 1):
            held = [
                sum(self._buffers[b].allocated_bytes for b, span in lives.items() if _holds(span, step))
                for lives in (before, after)
            ]
            if step not in inside and held[1] > held[0]:
                return False
        return self._resident(anchor, positions, gone) + buffer_bytes(lowered) <= self.limit_bytes

    def span(self, value: str) -> tuple[int, int] | None:
        """First and last step at which the buffer that a value lives in is held; None if it never is."""
        return self._life(self._home[value], self.position, self.gone)

    def _life(self, buffer: str, positions: dict[str, int], gone: set[str]) -> tuple[int, int] | None:
        """First and last step at which a buffer is held; None if it never is."""
        values = [v for v in self._buffers[buffer].values if v not in gone]
        if not values:
            return None
        producer = self._producer(buffer)
        start = -1 if producer is None else positions[producer.id]
        last = len(self.ops) if self._buffers[buffer].stays else start
        for v in values:
            last = max([last, *(positions[op.id] for op in self.graph.consumers(v) if op.id in positions)])
        return start, last

    def _resident(self, step: int, positions: dict[str, int], gone: set[str]) -> int:
        """Bytes per core of all tensors held while a step runs, its operands and results included."""
        total = self._weights
        for v, buffer in self._buffers.items():
            if buffer.place is BufferType.L1 and not buffer.stays and _holds(self._life(v, positions, gone), step):
                total += buffer.allocated_bytes
        return total


def _holds(span: tuple[int, int] | None, step: int) -> bool:
    return span is not None and span[0] <= step <= span[1]


def buffer_bytes(lowered: Op) -> int:
    """Bytes of the circular buffers that lie in no tensor."""
    binds = (op for op in lowered.body.ops if op.name == "ttl.bind_cb" and not op.has_attr("tensor"))
    return sum(op.result.type.size_bytes for op in binds if isinstance(op.result.type, CircularBufferType))
