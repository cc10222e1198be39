"""L1 replayed step by step: what is resident, what each op takes, and where the runtime's allocator puts it."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.ir.graph import Op
from optimizer.l1.events import OPERAND, Made, Ran
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.tiling import l1_bytes_per_core, round_up
from optimizer.result import Role
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


def replay(subject: Subject) -> list[StepMemory]:
    """The schedule step by step: weights first, then allocate top-down first-fit, free after the last read."""
    unit = subject.device.l1_buffer_alignment_bytes
    ops = list(subject.run_ops())
    buffer_of = buffers(subject, ops)
    last_read = {buffer_of[v]: step for step, op in enumerate(ops) for v in op.inputs if v in buffer_of}
    live: dict[str, tuple[int, int]] = {}
    for v in subject.result.weights_in_l1():
        live[v] = place_buffer(live, round_up(_bytes(subject, v), unit))
        last_read[v] = len(ops)
    steps = []
    for step, op in enumerate(ops):
        answer = subject.answers[op.id]
        resident = sum(end - start for start, end in live.values())
        before = _depth(live)
        own = [v for v in op.outputs if buffer_of.get(v) == v]
        dying = buffer_of.get(op.inputs[0]) if op.inputs else None
        if dying is not None and last_read[dying] > step:
            dying = None
        deepest = _run(subject, op, own, dying, live)
        extent = max(before + answer.choice_room_bytes, deepest)
        placed = tuple((v, live[v][1]) for v in own)
        steps.append(StepMemory(op.id, resident, answer.peak_bytes, answer.cb_bytes, extent, placed))
        for v in [v for v in live if last_read.get(v, -1) <= step]:
            del live[v]
    return steps


def _run(subject: Subject, op: Op, own: list[str], dying: str | None, live: dict[str, tuple[int, int]]) -> int:
    """How deep L1 is in use while an op runs; its results are in `live` then.

    `own` are the results with a buffer of their own, `dying` what operand 0 lies in, if this op reads it last.
    """
    unit, answer = subject.device.l1_buffer_alignment_bytes, subject.answers[op.id]
    happens = answer.allocations
    shares = any(subject.layouts[v].is_l1 and v not in own for v in op.outputs)
    if happens is None or shares or (own and None in happens.results):
        return _run_by_sums(subject, op, own, live)
    number = {n: v for n, v in zip(happens.results, own, strict=False) if n is not None}
    deepest = _depth(live)
    for event in happens.events:
        if isinstance(event, Made):
            name = number.get(event.buffer, f"{_PASSING}{event.buffer}")
            live[name] = place_buffer(live, round_up(event.size_bytes, unit))
        elif isinstance(event, Ran):
            deepest = max(deepest, _depth(live) + event.cb_bytes)
        elif event.buffer == OPERAND and dying is not None:
            live.pop(dying, None)
        else:
            live.pop(f"{_PASSING}{event.buffer}", None)
        deepest = max(deepest, _depth(live))
    for name in [name for name in live if name.startswith(_PASSING)]:
        del live[name]
    return deepest


def _run_by_sums(subject: Subject, op: Op, own: list[str], live: dict[str, tuple[int, int]]) -> int:
    """The same for an op of which only sums are known: what it makes on the way is there before its results."""
    unit, answer = subject.device.l1_buffer_alignment_bytes, subject.answers[op.id]
    results = sum(_bytes(subject, v) for v in op.outputs if subject.layouts[v].is_l1)
    passing = max(0, answer.l1_peak_bytes - results)
    if passing:
        live[_PASSING] = place_buffer(live, round_up(passing, unit))
    for v in own:
        live[v] = place_buffer(live, round_up(_bytes(subject, v), unit))
    inside = max(0, answer.peak_bytes - passing - sum(_bytes(subject, v) for v in own))
    deepest = _depth(live) + inside
    live.pop(_PASSING, None)
    return deepest


_PASSING = "\0"
"""How the names of buffers begin that are gone when an op returns; no value's does."""


def _depth(live: dict[str, tuple[int, int]]) -> int:
    """Distance of the lowest buffer from the top."""
    return max((end for _, end in live.values()), default=0)


def buffers(subject: Subject, ops: list[Op]) -> dict[str, str]:
    """L1 value -> the value whose buffer it lives in: itself, the source of a view, what it is written into."""
    buffers: dict[str, str] = {}
    for op in ops:
        record = subject.records[op.id]
        shared = 0 if record.role is Role.VIEW else overwritten_operand(record.config)
        for v in op.outputs:
            if subject.layouts[v].is_l1:
                buffers[v] = v if shared is None else buffers.get(op.inputs[shared], v)
    return buffers


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
