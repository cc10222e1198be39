"""L1 replayed step by step: what is resident, what each op takes, and where the runtime's allocator puts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.l1.events import OPERAND, Made, Ran
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.tiling import l1_bytes_per_core, round_up
from optimizer.result import OpRecord, OptimizedGraph, Role
from optimizer.verify.subject import Error, StepMemory, Subject


def fits_the_limit(subject: Subject) -> Iterator[Error]:
    """Residents and the op's own peak stay within the plan's L1 limit at every step."""
    for step in subject.steps:
        if step.total_bytes > subject.limit_bytes:
            yield (
                step.op,
                f"L1 holds {step.resident_bytes} B and the op takes {step.own_peak_bytes} B more: "
                f"{step.total_bytes} B of {subject.limit_bytes} B",
            )


def fits_the_bank(subject: Subject) -> Iterator[Error]:
    """The first-fit, top-down placement of tensors leaves room for the circular buffers at every step."""
    for step in subject.steps:
        if step.extent_bytes > subject.bank_bytes:
            yield (
                step.op,
                f"tensors, holes and circular buffers take {step.extent_bytes} B of the {subject.bank_bytes} B of L1",
            )


Span = tuple[int, int]
"""(start, end) of a buffer as distances from the top of L1, rounded up to whole units."""


@dataclass(frozen=True)
class Beginning:
    """L1 as an op begins."""

    op: Op
    residents: Mapping[str, Span]
    """Buffers that are there, as long as this step is looked at."""
    results: Mapping[str, int]
    """Bytes of its own results."""


class Watch:
    """Told of everything that happens in L1, in order; this one listens to nothing.

    Buffers go by the values that live in them. What an op makes on the way has a name that begins with `PASSING`.
    """

    def begins(self, step: Beginning) -> None:
        """An op begins."""

    def made(self, name: str, span: Span) -> None:
        """A buffer comes to life."""

    def ran(self, cb_bytes: int) -> None:
        """A program runs with these circular buffers."""

    def returned(self) -> None:
        """The op has returned: what is freed from here on nothing reads any more."""

    def freed(self, name: str) -> None:
        """A buffer is gone."""


def replay(subject: Subject, watch: Watch | None = None) -> list[StepMemory]:
    """The schedule step by step: weights first, then allocate top-down first-fit, free after the last read."""
    ops = list(subject.run_ops())
    buffer_of = _buffers(subject, ops)
    last_read = {buffer_of[v]: step for step, op in enumerate(ops) for v in op.inputs if v in buffer_of}
    bank = _Bank(subject.device.l1_buffer_alignment_bytes, watch or Watch())
    for v in weights_in_l1(subject.result):
        bank.make(v, _bytes(subject, v))
        last_read[v] = len(ops)
    steps = []
    for step, op in enumerate(ops):
        answer = subject.answers[op.id]
        resident = sum(end - start for start, end in bank.live.values())
        before = bank.depth
        own = [v for v in op.outputs if buffer_of.get(v) == v]
        bank.watch.begins(Beginning(op, bank.live, {v: _bytes(subject, v) for v in own}))
        dying = buffer_of.get(op.inputs[0]) if op.inputs else None
        if dying is not None and last_read[dying] > step:
            dying = None
        deepest = _run(subject, op, own, dying, bank)
        extent = max(before + answer.choice_room_bytes, deepest)
        placed = tuple((v, bank.live[v][1]) for v in own)
        steps.append(StepMemory(op.id, resident, answer.peak_bytes, answer.cb_bytes, extent, placed))
        bank.watch.returned()
        for v in [v for v in bank.live if last_read.get(v, -1) <= step]:
            bank.free(v)
    return steps


class _Bank:
    """L1 of a core: what lies where."""

    def __init__(self, unit_bytes: int, watch: Watch) -> None:
        self.unit_bytes = unit_bytes
        self.watch = watch
        self.live: dict[str, Span] = {}

    @property
    def depth(self) -> int:
        """Distance of the lowest buffer from the top."""
        return max((end for _, end in self.live.values()), default=0)

    def make(self, name: str, size: int) -> None:
        self.live[name] = place_buffer(self.live, round_up(size, self.unit_bytes))
        self.watch.made(name, self.live[name])

    def free(self, name: str) -> None:
        """Nothing for what is not there any more."""
        if self.live.pop(name, None) is not None:
            self.watch.freed(name)

    def run(self, cb_bytes: int) -> int:
        """A program runs; how deep L1 is in use then."""
        self.watch.ran(cb_bytes)
        return self.depth + cb_bytes


def _run(subject: Subject, op: Op, own: list[str], dying: str | None, bank: _Bank) -> int:
    """How deep L1 is in use while an op runs; its results are there then.

    `own` are the results with a buffer of their own, `dying` what operand 0 lies in, if this op reads it last.
    """
    happens = subject.answers[op.id].allocations
    shares = any(subject.layouts[v].is_l1 and v not in own for v in op.outputs)
    if happens is None or shares or (own and None in happens.results):
        return _run_by_sums(subject, op, own, bank)
    number = {n: v for n, v in zip(happens.results, own, strict=False) if n is not None}
    deepest = bank.depth
    for event in happens.events:
        if isinstance(event, Made):
            bank.make(number.get(event.buffer, f"{PASSING}{event.buffer}"), event.size_bytes)
        elif isinstance(event, Ran):
            deepest = max(deepest, bank.run(event.cb_bytes))
        elif event.buffer == OPERAND and dying is not None:
            bank.free(dying)
        else:
            bank.free(f"{PASSING}{event.buffer}")
        deepest = max(deepest, bank.depth)
    for name in [name for name in bank.live if name.startswith(PASSING)]:
        bank.free(name)
    return deepest


def _run_by_sums(subject: Subject, op: Op, own: list[str], bank: _Bank) -> int:
    """The same for an op of which only sums are known: what it makes on the way is there before its results."""
    answer = subject.answers[op.id]
    results = sum(_bytes(subject, v) for v in op.outputs if subject.layouts[v].is_l1)
    passing = max(0, answer.l1_peak_bytes - results)
    if passing:
        bank.make(PASSING, passing)
    for v in own:
        bank.make(v, _bytes(subject, v))
    inside = max(0, answer.peak_bytes - passing - sum(_bytes(subject, v) for v in own))
    deepest = bank.run(inside)
    bank.free(PASSING)
    return deepest


PASSING = "\0"
"""How the names of buffers begin that are gone when an op returns; no value's does."""


def _buffers(subject: Subject, ops: list[Op]) -> dict[str, str]:
    """L1 value -> the value whose buffer it lives in: itself, the source of a view, what it is written into."""
    buffers: dict[str, str] = {}
    for op in ops:
        shared = shared_operand(subject.records[op.id])
        for v in op.outputs:
            if subject.layouts[v].is_l1:
                buffers[v] = v if shared is None else buffers.get(op.inputs[shared], v)
    return buffers


def shared_operand(record: OpRecord) -> int | None:
    """Position of the operand in whose buffer the result lies, as a view or written in place; None: in its own."""
    return 0 if record.role is Role.VIEW else overwritten_operand(record.config)


def weights_in_l1(result: OptimizedGraph) -> list[str]:
    """Weights that the ops of a run read from L1, in the order of their first readers: they stay there."""
    run = (op for op in result.graph.ops() if result.records[op.id].role is not Role.HOST)
    read = dict.fromkeys(v for op in run for v in op.inputs)
    return [v for v in read if result.layouts[v].is_l1 and result.graph.is_static(v)]


def _bytes(subject: Subject, value_id: str) -> int:
    value = subject.graph.value(value_id)
    return l1_bytes_per_core(value.shape, value.dtype, subject.layouts[value_id], subject.device)


def place_buffer(live: dict[str, tuple[int, int]], size: int) -> tuple[int, int]:
    """(start, end) distance from the top of L1 of the first hole that takes `size` bytes."""
    start = 0
    for used_start, used_end in sorted(live.values()):
        if used_start - start >= size:
            break
        start = max(start, used_end)
    return (start, start + size)
