"""The steps of a finished plan over the buffers that its values live in: one lowering, which all readers share.

`verify` derives the same again in its own way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from optimizer.device import DeviceSpec
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.memory_config import BufferType, TensorLayout
from optimizer.layouts.op_config import OpConfig
from optimizer.layouts.tiling import l1_bytes_per_core, round_up
from optimizer.program.lifetimes import Event, deallocations, event_of, last_uses, sharing


@dataclass(frozen=True)
class Buffer:
    """Memory that a value is made in, and that others may share: views of it, and what is written into it."""

    value: str
    """The one that it is made for."""
    values: tuple[str, ...]
    """All that live in it."""
    place: BufferType
    size_bytes: int
    """Of L1 per core; 0 elsewhere."""
    allocated_bytes: int
    """The same as the allocator rounds it."""
    stays: bool
    """Whether no step frees it: inputs, outputs and weights."""


@dataclass(frozen=True)
class Step:
    """One op that the device runs, or a copy that the plan makes for one."""

    op: Op
    position: int
    """Index in the ops of the graph."""
    event: Event
    makes: tuple[Buffer, ...]
    frees: tuple[Buffer, ...]
    """What it reads last, or makes and nobody reads."""


@dataclass(frozen=True)
class Program:
    """A finished plan as it runs on the device; what lies on the host is left out."""

    steps: tuple[Step, ...]
    buffers: Mapping[str, Buffer]
    """By the values that they are made for."""
    homes: Mapping[str, str]
    """Value -> the value whose buffer it lives in: itself, the source of a view, what it is written into."""
    last_read: Mapping[str, int]
    """Value -> position of the last op that reads it; absent if none does."""
    weights: tuple[Buffer, ...]
    """Those in L1, where they are put before the first run and stay, in the order of their first readers."""

    def deallocated(self, fused: Mapping[str, Event]) -> dict[str, tuple[str, ...]]:
        """Op -> values that the emitted program deallocates after it.

        `fused`: op that is part of a kernel -> what that does, labelled by the op in whose place it runs.
        """
        events = [e for step in self.steps if (e := fused.get(step.op.id, step.event)).label == step.op.id]
        kept = [v for buffer in self.buffers.values() if buffer.stays for v in buffer.values]
        return {event.label: freed for event, freed in zip(events, deallocations(events, kept), strict=True)}


def lowered(
    graph: Graph,
    layouts: Mapping[str, TensorLayout],
    configs: Mapping[str, OpConfig | None],
    views: Container[str],
    device: DeviceSpec,
) -> Program:
    """The program of a finished plan. `configs` are those of the ops that the device runs, `views` those of them whose
    results are views of operand 0."""
    run = [(position, op) for position, op in enumerate(graph.ops()) if op.id in configs]
    events = [event_of(graph, op, layouts, configs[op.id], op.id in views) for _, op in run]
    shared = sharing(events, certain=True)
    buffers = {v: _buffer(values, graph, layouts[v], device) for v, values in shared.items() if v == values[0]}
    ending = defaultdict(list)
    for v, at in last_uses(events, shared).items():
        if not buffers[v].stays:
            ending[at].append(buffers[v])
    steps = tuple(
        Step(op, position, event, tuple(buffers[v] for v in event.writes if v in buffers), tuple(ending[at]))
        for at, ((position, op), event) in enumerate(zip(run, events, strict=True))
    )
    homes = {v: values[0] for v, values in shared.items()}
    last_read = {v: position for position, op in run for v in op.inputs}
    read_in_l1 = dict.fromkeys(v for event in events for v in event.reads if layouts[v].is_l1 and graph.is_static(v))
    return Program(steps, buffers, homes, last_read, tuple(buffers[v] for v in read_in_l1))


def _buffer(values: Sequence[str], graph: Graph, layout: TensorLayout, device: DeviceSpec) -> Buffer:
    value = graph.value(values[0])
    size = l1_bytes_per_core(value.shape, value.dtype, layout, device)
    allocated = round_up(size, device.l1_buffer_alignment_bytes)
    stays = any(v in graph.inputs or graph.is_output(v) or graph.is_static(v) for v in values)
    return Buffer(value.id, tuple(values), layout.memory.buffer_type, size, allocated, stays)
