"""Command queues, events and traces of the stand-in: what may overlap, and what a replay does.

Every command computes at once, but what orders it is kept as a vector clock over queue 0, queue 1 and the host: a
command is after all that its queue did before, after the events that the queue waited for, and after what the host had
waited for when it handed the command over. Two commands that touch the same buffer, one of them writing, and that
nothing orders are Refused: on a device either may come first.

A capture keeps the calls of ops; a replay computes them again, into the buffers that the capture's results had. As on a
device a capture gives no values (its results are NaN until the first replay), holds only programs that were compiled by
a run before it, and takes no reads, writes or events. A buffer that was made since the capture and is there when the
trace is replayed is Refused (tt-metal warns that the replay may overwrite it), and so is one that the trace reads or
returns and that was freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from ttnn_standin.errors import Refused
from ttnn_standin.tensor import Buffer, Device, Machine, Tensor, prod
from ttnn_standin.values import Value

HOST = 2
"""Beside the queues 0 and 1, in a clock."""
COMMAND_BYTES = 2048
"""Of one op in a trace: a number of the stand-in's own."""
Clock = tuple[int, int, int]


def joined(one: Clock, other: Clock) -> Clock:
    """After both."""
    return (max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]))


@dataclass(frozen=True)
class Access:
    """The last touch of a buffer by one queue."""

    actor: int
    clock: Clock
    what: str


@dataclass
class History:
    """Who touched a buffer: the last write, and each actor's last read since."""

    write: Access | None = None
    reads: dict[int, Access] = field(default_factory=dict)


@dataclass(frozen=True)
class Event:
    """A recorded point of a queue."""

    clock: Clock


@dataclass
class Trace:
    """A captured run."""

    calls: list[tuple[str, Callable[[], Any], list[Tensor], list[Tensor]]] = field(default_factory=list)
    """Name, what computes it, operands and results of every op."""
    made: list[Buffer] = field(default_factory=list)
    """Buffers that the capture made."""
    alive: list[Buffer] = field(default_factory=list)
    """Those that were there at its end."""
    ended: bool = False


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors of a call's arguments or results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)


class Queues:
    """The queues of one machine's device."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.count = 1
        self.trace_region = 0
        self.clocks: list[Clock] = [(0, 0, 0)] * 3
        self.histories: dict[int, tuple[Buffer, History]] = {}
        self.compiled: set[str] = set()
        self.recording: Trace | None = None
        self.traces: list[Trace] = []

    # -- order -------------------------------------------------------------------------------------------------
    def command(self, queue: int, what: str, reads: list[Tensor], writes: list[Tensor]) -> Clock:
        """Hand a command to a queue; Refused where it races with another."""
        if queue not in range(self.count):
            raise Refused(f"{what}: queue {queue} of {self.count}")
        ticked = list(joined(self.clocks[queue], self.clocks[HOST]))
        ticked[queue] += 1
        self.clocks[queue] = now = (ticked[0], ticked[1], ticked[2])
        access = Access(queue, now, what)
        for tensor in reads:
            if tensor.on_device:
                history = self._history(tensor)
                self._after(history.write, access, "reads")
                history.reads[queue] = access
        for tensor in writes:
            if tensor.on_device:
                history = self._history(tensor)
                for earlier in (history.write, *history.reads.values()):
                    self._after(earlier, access, "writes")
                history.write, history.reads = access, {}
        return now

    def _history(self, tensor: Tensor) -> History:
        buffer = tensor.buffer.within or tensor.buffer
        return self.histories.setdefault(id(buffer), (buffer, History()))[1]

    def _after(self, earlier: Access | None, later: Access, does: str) -> None:
        if earlier is not None and later.clock[earlier.actor] < earlier.clock[earlier.actor]:
            raise Refused(
                f"{later.what} on queue {later.actor} {does} what {earlier.what} on queue {earlier.actor} touches, "
                "and nothing orders them"
            )

    def called(self, name: str, compute: Callable[[], Any], given: Any) -> Any:
        """An op on queue 0: computed, ordered, and kept where a capture is under way."""
        reads = list(tensors_in(list(given.values())))
        before = len(self.machine.buffers)
        self._capturable(name, given)
        result = compute()
        writes = list(tensors_in(result))
        if name != "deallocate" and any(tensor.on_device for tensor in (*reads, *writes)):
            if self.recording is None:
                self.command(0, f"ttnn.{name}", reads, writes)
            else:
                self.recording.calls.append((name, compute, reads, writes))
                self.recording.made += self.machine.buffers[before:]
        return result

    def _capturable(self, name: str, given: Any) -> None:
        key = f"{name}({', '.join(f'{k}={_shown(v)}' for k, v in given.items())})"
        if self.recording is None:
            self.compiled.add(key)
        elif name in ("to_device", "from_device"):
            raise Refused(f"ttnn.{name}: reads and writes are not supported during trace capture")
        elif name != "deallocate" and key not in self.compiled:
            raise Refused(f"ttnn.{name}: its program is not compiled, and a capture writes no kernels")

    def _commanded(self, device: Device, what: str) -> None:
        """Refused on a closed device, and in a capture."""
        if not device.open:
            raise Refused(f"{what}: the device is closed")
        self._outside_a_capture(what)

    def _outside_a_capture(self, what: str) -> None:
        if self.recording is not None:
            raise Refused(f"{what} is not supported during trace capture")

    # -- functions of ttnn -------------------------------------------------------------------------------------
    def functions(self) -> dict[str, Callable[..., Any]]:
        """By name."""
        return {
            "record_event": self.record_event,
            "wait_for_event": self.wait_for_event,
            "event_synchronize": self.event_synchronize,
            "synchronize_device": self.synchronize_device,
            "copy_host_to_device_tensor": self.copy_host_to_device_tensor,
            "copy": self.copy,
            "begin_trace_capture": self.begin_trace_capture,
            "end_trace_capture": self.end_trace_capture,
            "execute_trace": self.execute_trace,
            "release_trace": self.release_trace,
            "get_memory_view": self.get_memory_view,
        }

    def record_event(self, device: Device, cq_id: int) -> Event:
        self._commanded(device, "ttnn.record_event")
        return Event(self.command(cq_id, "ttnn.record_event", [], []))

    def wait_for_event(self, cq_id: int, mesh_event: Event) -> None:
        self._outside_a_capture("ttnn.wait_for_event")
        self.clocks[cq_id] = joined(self.clocks[cq_id], mesh_event.clock)

    def event_synchronize(self, mesh_event: Event) -> None:
        self.clocks[HOST] = joined(self.clocks[HOST], mesh_event.clock)

    def synchronize_device(self, device: Device) -> None:
        self._commanded(device, "ttnn.synchronize_device")
        for clock in self.clocks[:HOST]:
            self.clocks[HOST] = joined(self.clocks[HOST], clock)

    def copy_host_to_device_tensor(self, host_tensor: Tensor, device_tensor: Tensor, cq_id: int = 0) -> None:
        self._outside_a_capture("ttnn.copy_host_to_device_tensor")
        if host_tensor.on_device or not device_tensor.on_device:
            raise Refused("ttnn.copy_host_to_device_tensor: from the host to the device")
        self._alike(host_tensor, device_tensor)
        self.machine.op = "copy_host_to_device_tensor"
        device_tensor.write(host_tensor.read())
        self.command(cq_id, "ttnn.copy_host_to_device_tensor", [], [device_tensor])

    def copy(self, input_a: Tensor, input_b: Tensor) -> Tensor:
        self._alike(input_a, input_b)
        if input_a.memory != input_b.memory:
            raise Refused("ttnn.copy: between two memory configs")
        self.machine.op = "copy"

        def compute() -> Tensor:
            return input_b.write(input_a.read().copy())

        return self.called("copy", compute, {"input_a": input_a, "input_b": input_b})

    def _alike(self, one: Tensor, other: Tensor) -> None:
        if (one.shape, one.dtype, one.layout) != (other.shape, other.dtype, other.layout):
            raise Refused(f"a copy of {one.dtype} {one.shape} into {other.dtype} {other.shape}")

    # -- traces ------------------------------------------------------------------------------------------------
    def begin_trace_capture(self, device: Device, *, cq_id: int) -> int:
        self._commanded(device, "ttnn.begin_trace_capture")
        if cq_id != 0:
            raise Refused("a capture on a queue without programs")
        self.recording = Trace()
        self.traces.append(self.recording)
        return len(self.traces) - 1

    def end_trace_capture(self, device: Device, trace_id: int, *, cq_id: int) -> None:
        trace, self.recording = self.recording, None
        if trace is None or trace is not self.traces[trace_id] or cq_id != 0 or not device.open:
            raise Refused("no such capture")
        size = COMMAND_BYTES * len(trace.calls)
        if size > self.trace_region:
            raise RuntimeError(
                f"TT_FATAL @ mesh_trace.cpp:78\ninfo:\nCreating trace buffers of size {size}B on MeshDevice 1, but "
                f"only {self.trace_region}B is allocated for trace region."
            )
        for buffer in trace.made:  # nothing has been computed yet
            shape = buffer.values.shape
            buffer.values = np.full(shape, np.nan) if buffer.values.dtype.kind == "f" else np.zeros(shape, np.int64)
        trace.alive, trace.ended = self.machine.live(), True

    def execute_trace(self, device: Device, trace_id: int, *, cq_id: int = 0, blocking: bool = True) -> None:
        self._commanded(device, "ttnn.execute_trace")
        trace = self.traces[trace_id]
        if not trace.ended:
            raise Refused("a replay of a trace that is not captured")
        known = {id(buffer) for buffer in trace.alive}
        made = [buffer for buffer in self.machine.live() if id(buffer) not in known]
        if made:
            raise Refused(f"a replay may overwrite what ttnn.{made[0].made_by} allocated after the capture")
        freed = [buffer for buffer in trace.alive if buffer.freed_by is not None]
        if freed:
            raise Refused(f"a replay uses what ttnn.{freed[0].made_by} made and ttnn.{freed[0].freed_by} freed")
        self._compute(trace)
        inside = {id(buffer) for buffer in trace.made}
        reads = [t for _, _, given, _ in trace.calls for t in given if id(t.buffer.within or t.buffer) not in inside]
        writes = [t for _, _, _, results in trace.calls for t in results]
        self.command(cq_id, "a replay", reads, writes)
        if blocking:
            self.synchronize_device(device)

    def _compute(self, trace: Trace) -> None:
        """The calls again, into the buffers of the capture's results, whatever was freed meanwhile."""
        self.machine.replaying = True
        try:
            for name, compute, _, results in trace.calls:
                self.machine.op = name
                count = len(self.machine.buffers)
                with np.errstate(all="ignore"):
                    again = compute()
                del self.machine.buffers[count:]
                for old, new in zip(results, tensors_in(again), strict=True):
                    if old.buffer is not new.buffer:
                        old.buffer.values = new.buffer.values
        finally:
            self.machine.replaying = False

    def release_trace(self, device: Device, trace_id: int) -> None:
        self._commanded(device, "ttnn.release_trace")
        self.traces[trace_id] = Trace()

    # -- memory ------------------------------------------------------------------------------------------------
    def get_memory_view(self, device: Device, buffer_type: Any) -> Any:
        """Bytes allocated, as if there were one bank."""
        self._commanded(device, "ttnn.get_memory_view")
        if buffer_type.name == "TRACE":
            size = sum(COMMAND_BYTES * len(trace.calls) for trace in self.traces)
        else:
            live = [buffer for buffer in self.machine.live() if buffer.where == buffer_type.name.lower()]
            size = sum(4 * prod(buffer.values.shape) for buffer in live)
        return SimpleNamespace(total_bytes_allocated_per_bank=size, num_banks=1)

    def read(self, tensor: Tensor, blocking: bool, cq_id: int) -> Tensor:
        """`tensor.cpu`: a host tensor that is complete once the host has waited for the queue."""
        self._outside_a_capture("a read")
        made = tensor.fetched()
        clock = self.command(cq_id, "a read", [tensor], [])
        made.pending = None if blocking else (cq_id, clock[cq_id])
        if blocking:
            self.clocks[HOST] = joined(self.clocks[HOST], clock)
        return made

    def written(self, tensor: Tensor) -> None:
        """A tensor was made on the device from one of the host, on queue 0."""
        self._outside_a_capture(f"ttnn.{self.machine.op} of a host tensor")
        self.command(0, f"ttnn.{self.machine.op}", [], [tensor])

    def complete(self, tensor: Tensor) -> None:
        """Refused for a host tensor that the device may still be writing."""
        if tensor.pending is not None and self.clocks[HOST][tensor.pending[0]] < tensor.pending[1]:
            raise Refused(f"ttnn.{self.machine.op} reads a host tensor before its queue is done with it")


def _shown(value: Any) -> str:
    """What a program depends on: of a tensor what it is and where, not its elements."""
    if isinstance(value, Tensor):
        return f"{value.dtype} {value.shape} {value.layout} {value.memory!r}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    return repr(value) if isinstance(value, Value | int | float | str | bool | type(None)) else str(value)
