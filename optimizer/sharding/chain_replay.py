"""Replays a chain on the runtime's L1 allocator: a feasible sum of bytes is not enough.

Within a chain the operand, the result and the circular buffers of one op are alive at a time, plus a copy
where an edge is resharded. Holes between them can still push circular buffers into a tensor, so the exact
order of allocations and frees of the emitted program is put to the allocator. An op with temporaries runs
several programs; its buffers and temporaries need not coexist, so it must fit twice: the largest circular
buffers below what is resident, and its peak below resident tensors and result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.l1_chain import ChainChoice
from optimizer.solver.l1_allocator import Alloc, Event, Execute, Free, ReplayError, replay

_MESSAGES = {
    ReplayError.OUT_OF_MEMORY: "no hole of {needed} B is left in L1 (largest: {available} B)",
    ReplayError.CB_CLASH: "circular buffers of {needed} B reach the lowest tensor ({available} B are free below it)",
    ReplayError.CB_TOO_BIG: "circular buffers of {needed} B exceed L1 ({available} B)",
}


@dataclass(frozen=True)
class Clash:
    """The first op of a chain at which the runtime would run out of L1."""

    position: int
    message: str

    def describe(self, op_ids: Sequence[str]) -> str:
        return f"{op_ids[self.position]}: {self.message}"


def replay_chain(
    pricer: OpPricer,
    ops: Sequence[Op],
    choices: Sequence[ChainChoice],
    operands: Sequence[Sequence[TensorLayout]],
) -> Clash | None:
    """None if the chain runs on an otherwise empty L1, else where and why it does not."""
    events: list[Event] = []
    positions: list[int] = []
    have = pricer.default_layout(pricer.graph.value(ops[0].inputs[0]))
    held: list[str] = []
    for i, op in enumerate(ops):
        _op_events(pricer, op, choices[i], operands[i], have, held, events, str(i))
        positions += [i] * (len(events) - len(positions))
        have, held = choices[i].candidate.output, [f"{i}.result"]
    last = choices[-1].candidate.output
    spill = pricer.copy_query(ops[-1].outputs[0], last, pricer.default_layout(pricer.graph.value(ops[-1].outputs[0])))
    events.append(Execute(pricer.model.constraints(spill).cb_bytes))
    positions.append(len(ops) - 1)
    device, l1_small = pricer.model.device, pricer.model.l1_small_bytes
    outcome = replay(
        events,
        base_bytes=device.cb_base_bytes,
        top_bytes=device.worker_l1_bytes - l1_small,
        alignment_bytes=device.l1_buffer_alignment_bytes,
        cb_end_bytes=device.worker_l1_bytes,
    )
    failure = outcome.failure
    if failure is None:
        return None
    text = _MESSAGES[failure.error].format(needed=failure.needed_bytes, available=failure.available_bytes)
    return Clash(positions[failure.step], text)


def _op_events(
    pricer: OpPricer,
    op: Op,
    choice: ChainChoice,
    operands: Sequence[TensorLayout],
    have: TensorLayout,
    held: list[str],
    events: list[Event],
    name: str,
) -> None:
    """Append what one op does to L1. Operand 0 is there in layout `have`; `held` are buffers it frees."""
    if choice.operand0 != have:
        copy = pricer.model.constraints(pricer.copy_query(op.inputs[0], have, choice.operand0))
        events += [
            Alloc(f"{name}.copy", pricer.value_bytes(op.inputs[0], choice.operand0)),
            Execute(copy.cb_bytes),
        ]
        if have.is_l1:
            events.append(Free(held.pop(0)))
        held.append(f"{name}.copy")
    answer = pricer.constraints(op, operands, choice.candidate.config, choice.candidate.request)
    output_bytes = pricer.value_bytes(op.outputs[0], choice.candidate.output)
    events += [
        Execute(answer.cb_bytes),
        Alloc(f"{name}.result", output_bytes),
        Execute(max(0, answer.peak_bytes - output_bytes)),
        *(Free(buffer) for buffer in held),
    ]
