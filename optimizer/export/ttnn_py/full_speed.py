"""model_ttnn.py at full speed: captured once as a trace and replayed, inputs written on a queue of their own.

`run_model.py` and `ttopt run` use it. It needs ttnn, which is handed over, and the standard library.

The protocol is that of tt-metal's technical report AdvancedPerformanceOptimizationsForModels (3.3.1: trace, operations
and reading on queue 0, writing on queue 1). Before the capture the program runs once, which compiles its kernels; its
weights are prepared and its inputs lie in DRAM, where they stay. Then, for every run:

    queue 1   wait for `free`, write the staging tensors, record `written`
    queue 0   wait for `written`, copy staging tensors to inputs, record `free`, replay, read outputs, record `done`

A run's inputs are written while the run before it computes. Outputs are complete once the host has waited for `done`.
A trace holds addresses: nothing may be allocated on the device after the capture, which is watched (`Runner.unmoved`).

Tried with ttnn 0.81.1 on Tenstorrent's simulator (ttsim) with fast dispatch: captures, replays, events and both queues,
on Wormhole and Blackhole, with outputs bit for bit those of plain runs. Not tried on a board: neither its times, nor
writes that truly overlap with a replay. A mock device ends its process where it is asked to wait for an event or to run
an op during a capture: there `Runner` leaves both out, runs plainly and in order, and says so (`Settings.remarks`).
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

OPS, WRITES = 0, 1
"""Queues: of programs, traces and reads; of writes."""
IN_FLIGHT = 2
"""Runs that the host has handed over and not yet waited for, while throughput is measured."""
CHECKED_RUNS = 8
"""Runs that a check compares: more than are in flight, so that every tensor is written again while others are read."""
_REGION = re.compile(r"trace buffers of size (\d+)B.*?only (\d+)B")
"""What tt-metal says of a trace that its region does not hold (tt_metal/distributed/mesh_trace.cpp)."""


class SpeedError(ValueError):
    """Why a program cannot be captured or replayed, in one sentence."""


def is_mock() -> bool:
    """Whether tt-metal opens a mock device in this process: this variable is what makes it do so."""
    return bool(os.environ.get("TT_METAL_MOCK_CLUSTER_DESC_PATH"))


def is_simulator() -> bool:
    """Whether tt-metal opens a simulator in this process."""
    return bool(os.environ.get("TT_METAL_SIMULATOR"))


@dataclass(frozen=True)
class Settings:
    """How a program is run."""

    trace: bool = True
    queues: int = 2
    mock: bool = False
    """The device waits for no event and captures nothing."""

    def __post_init__(self) -> None:
        if self.queues not in (1, 2):
            raise SpeedError(f"tt-metal has 1 or 2 command queues, not {self.queues}")
        if os.environ.get("TT_METAL_SLOW_DISPATCH_MODE"):
            raise SpeedError("TT_METAL_SLOW_DISPATCH_MODE is set: slow dispatch has neither traces nor a second queue")

    @property
    def remarks(self) -> tuple[str, ...]:
        """What is other than asked for."""
        if not self.mock:
            return ()
        return ("a mock device captures no trace and waits for no event: plain runs in order, and no times",)


def refuse_host_ops(program: Any) -> None:
    """SpeedError for a program with ops on the host, which no trace can hold."""
    if hasattr(program, "HOST_OPS"):
        raise SpeedError(
            "ops of this program run on the host (it was made with --allow-host-ops), which neither a trace holds nor "
            "a second queue serves: run it without --trace and --queues"
        )


@dataclass(frozen=True)
class Run:
    """A run that was handed over."""

    outputs: tuple[Any, ...]
    """Host tensors that the device is still writing until `done`."""
    done: Any
    """The event after the last of them."""


class Runner:
    """A program on an open device; `parameters` are those of `make_parameters`.

    The order of calls: `plain` at least once, then `capture` (where `settings.trace`), then `submit` and `finish`.
    """

    def __init__(self, ttnn: Any, device: Any, program: Any, parameters: Mapping[str, Any], settings: Settings) -> None:
        self._ttnn, self._device, self.program, self._parameters = ttnn, device, program, parameters
        self.settings = settings
        if settings.trace:
            self._refuse()
        self._names = [entry["name"] for entry in program.INPUTS]
        self._inputs: dict[str, Any] = {}
        self._staging: dict[str, Any] = {}
        self._outputs: list[Any] = []
        self._free: Any = None
        self._trace: Any = None
        self._warm = False
        self._held: Any = None

    # -- before the capture ----------------------------------------------------------------------------------
    def _refuse(self) -> None:
        refuse_host_ops(self.program)
        host = self._ttnn.StorageType.HOST
        named = [entry["name"] for entry in self.program.INPUTS if entry["memory_config"] is None]
        named += [name for name, tensor in self._parameters.items() if tensor.storage_type() == host]
        if named:
            raise SpeedError(
                f"{len(named)} tensors of this program are on the host and go to the device in every run, which no "
                f"trace holds: {', '.join(named[:5])}: run it without --trace"
            )

    def place(self, host_inputs: Mapping[str, Any]) -> None:
        """Give the inputs, and with two queues the tensors they are copied from, their places in DRAM."""
        for entry in self.program.INPUTS:
            name, memory = entry["name"], entry["memory_config"]
            if memory is None:  # refused with a trace
                raise SpeedError(f"input {name} stays on the host: queues are for inputs of the device")
            self._inputs[name] = host_inputs[name].to(self._device, memory)
            if self.settings.queues == 2:
                self._staging[name] = host_inputs[name].to(self._device, memory)
        self._free = self._ttnn.record_event(self._device, OPS)

    def plain(self, host_inputs: Mapping[str, Any], read: Callable[[Any], Any]) -> list[Any]:
        """What `read` makes of the outputs of a run without a trace; the first one compiles the kernels."""
        if not self._inputs:
            self.place(host_inputs)
        self._write(host_inputs)
        self._run()
        found = [read(tensor) for tensor in self._outputs]
        self._outputs = []  # its tensors go, so that every run finds the same room
        self._ttnn.synchronize_device(self._device)
        self._warm = True
        return found

    def capture(self) -> None:
        """Record the run. SpeedError says what does not fit a trace."""
        if not self._warm:
            raise SpeedError("a program is captured after a run, which compiles its kernels")
        if self.settings.trace and not self.settings.mock:
            self._record()
            self._ttnn.synchronize_device(self._device)
        self._held = self._places()

    def _record(self) -> None:
        ttnn, device = self._ttnn, self._device
        compiled = device.num_program_cache_entries()
        self._trace = ttnn.begin_trace_capture(device, cq_id=OPS)
        try:
            self._run_program()
        except RuntimeError as error:
            with contextlib.suppress(RuntimeError):  # what is abandoned has nothing more to say
                ttnn.end_trace_capture(device, self._trace, cq_id=OPS)
            raise SpeedError(f"the program runs, but not into a trace: {_first_line(error)}") from error
        try:
            ttnn.end_trace_capture(device, self._trace, cq_id=OPS)
        except RuntimeError as error:
            raise SpeedError(_refused(error)) from error
        if device.num_program_cache_entries() != compiled:
            raise SpeedError("kernels were compiled during the capture: its run was not that of the run before it")

    # -- runs ------------------------------------------------------------------------------------------------
    def submit(self, host_inputs: Mapping[str, Any]) -> Run:
        """Hand a run over: the host goes on at once, nothing is complete before `finish`."""
        self._write(host_inputs)
        self._run()
        read = tuple(tensor.cpu(blocking=False, cq_id=OPS) for tensor in self._outputs)
        return Run(read, self._ttnn.record_event(self._device, OPS))

    def finish(self, run: Run) -> tuple[Any, ...]:
        """Wait for a run; its outputs as host tensors, in the order of OUTPUTS."""
        self._ttnn.event_synchronize(run.done)
        return run.outputs

    def _write(self, host_inputs: Mapping[str, Any]) -> None:
        ttnn, device = self._ttnn, self._device
        if self.settings.queues == 1:
            for name in self._names:
                ttnn.copy_host_to_device_tensor(host_inputs[name], self._inputs[name], OPS)
            return
        self._wait(WRITES, self._free)
        for name in self._names:
            ttnn.copy_host_to_device_tensor(host_inputs[name], self._staging[name], WRITES)
        self._wait(OPS, ttnn.record_event(device, WRITES))
        for name in self._names:
            ttnn.copy(self._staging[name], self._inputs[name])
        self._free = ttnn.record_event(device, OPS)

    def _wait(self, queue: int, event: Any) -> None:
        if not self.settings.mock:
            self._ttnn.wait_for_event(queue, event)

    def _run(self) -> None:
        if self._trace is None:
            self._run_program()
        else:
            self._ttnn.execute_trace(self._device, self._trace, cq_id=OPS, blocking=False)

    def _run_program(self) -> None:
        self._outputs = []  # those of the last run go first
        self._outputs = self.program.run(self._device, self._inputs, self._parameters)

    # -- what a trace relies on -----------------------------------------------------------------------------------
    def _places(self) -> Any:
        """What is allocated, by kind of memory, and where the trace's tensors lie."""
        kinds = self._ttnn.BufferType
        views = [self._ttnn.get_memory_view(self._device, kind) for kind in (kinds.DRAM, kinds.L1, kinds.L1_SMALL)]
        held = [*self._inputs.values(), *self._staging.values(), *(self._outputs if self._trace is not None else ())]
        return [view.total_bytes_allocated_per_bank for view in views], [tensor.buffer_address() for tensor in held]

    def unmoved(self) -> None:
        """SpeedError where something was allocated, freed or moved since the capture: a replay may overwrite it."""
        if self._trace is not None and self._places() != self._held:
            raise SpeedError("tensors were allocated or freed after the capture: a replay may have overwritten them")

    def trace_bytes(self) -> int | None:
        """Bytes of the trace region in use, over all banks; None without a trace, and without a region for it."""
        if self._trace is None:
            return None
        view = self._ttnn.get_memory_view(self._device, self._ttnn.BufferType.TRACE)
        return int(view.total_bytes_allocated_per_bank * view.num_banks) or None

    def release(self) -> None:
        """Give the trace back; outputs are gone with it."""
        if self._trace is not None:
            self._ttnn.release_trace(self._device, self._trace)
            self._trace, self._outputs = None, []


def _first_line(error: BaseException) -> str:
    """What tt-metal says itself, without the place in its source."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = lines.index("info:") + 1 if "info:" in lines else 0
    return lines[told] if told < len(lines) else repr(error)


def _refused(error: BaseException) -> str:
    found = _REGION.search(str(error))
    if found is None:
        return f"the trace cannot be stored: {_first_line(error)}"
    needed, given = found.groups()
    return f"the trace takes {needed} bytes, its region has {given}: open the device with --trace-region-size {needed}"


# -- measuring ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Times:
    """Seconds of runs: of all of them with several in flight, and of each by itself, input to output."""

    total: float
    each: tuple[float, ...]

    @property
    def runs_per_second(self) -> float:
        return len(self.each) / self.total

    def percentile(self, share: float) -> float:
        """The least time that this share of the runs does not exceed (nearest rank)."""
        ranked = sorted(self.each)
        return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def measured(runner: Runner, feeds: Sequence[Mapping[str, Any]], runs: int) -> Times:
    """Times of this many runs, the inputs by turns. What turns arrays into host tensors is not part of them."""
    each = []
    for k in range(runs):
        start = time.perf_counter()
        runner.finish(runner.submit(feeds[k % len(feeds)]))
        each.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in in_flight(runner, feeds, runs):
        pass
    total = time.perf_counter() - start
    runner.unmoved()
    return Times(total, tuple(each))


def in_flight(runner: Runner, feeds: Sequence[Mapping[str, Any]], runs: int) -> Any:
    """Outputs of this many runs, the inputs by turns, each yielded once it is complete, others being in flight."""
    waiting: deque[Run] = deque()
    for k in range(runs):
        waiting.append(runner.submit(feeds[k % len(feeds)]))
        if len(waiting) > IN_FLIGHT:
            yield runner.finish(waiting.popleft())
    while waiting:
        yield runner.finish(waiting.popleft())


@dataclass(frozen=True)
class Outcome:
    """What runs at full speed gave."""

    outputs: list[Any]
    """Of the first input, in the order of OUTPUTS."""
    remarks: tuple[str, ...]
    """What is other than asked for, and what was checked."""
    times: Times | None
    """None where none were asked for, and of a device that has none."""
    trace_bytes: int | None
    """Of DRAM, over all banks; None without a trace."""


def executed(
    runner: Runner, inputs: Sequence[Mapping[str, Any]], read: Callable[[Any], Any], iterations: int, check: bool
) -> Outcome:
    """Run a program from its first run to the last; `read` makes an array of a tensor.

    With `check`, runs with all the inputs by turns have to give what plain runs gave, bit for bit, else SpeedError.
    """
    feeds = [runner.program.make_host_inputs(arrays) for arrays in inputs]
    plain = [runner.plain(feed, read) for feed in feeds]
    runner.capture()
    outputs = [read(tensor) for tensor in runner.finish(runner.submit(feeds[0]))]
    remarks = list(runner.settings.remarks)
    if check:
        remarks.append(checked(runner, feeds, plain, read))
    times = measured(runner, feeds, iterations) if iterations else None
    made = Outcome(outputs, tuple(remarks), None if runner.settings.mock else times, runner.trace_bytes())
    runner.release()
    return made


def checked(
    runner: Runner, feeds: Sequence[Mapping[str, Any]], plain: Sequence[Sequence[Any]], read: Callable[[Any], Any]
) -> str:
    """That runs with the inputs by turns give the outputs of `plain` runs; SpeedError names the first that does not."""
    wrong = [
        f"{name} of run {k + 1}"
        for k, outputs in enumerate(in_flight(runner, feeds, CHECKED_RUNS))
        for name, tensor, wanted in zip(runner.program.OUTPUTS, outputs, plain[k % len(feeds)], strict=True)
        if read(tensor).tobytes() != wanted.tobytes()
    ]
    runner.unmoved()
    if runner.settings.mock:
        return f"not checked: a mock device computes no values for {CHECKED_RUNS} runs to be compared by"
    if wrong:
        raise SpeedError(f"{len(wrong)} outputs of {CHECKED_RUNS} runs are not those of plain runs: first {wrong[0]}")
    turns = f"{CHECKED_RUNS} runs, {len(feeds)} inputs by turns"
    return f"checked: the outputs of {turns}, are those of plain runs, bit for bit"


def told(outcome: Outcome, settings: Settings, predicted_ns: Mapping[str, int]) -> list[str]:
    """What there is to say, in sentences, measured times beside predicted ones."""
    lines, times = list(outcome.remarks), outcome.times
    if outcome.trace_bytes is not None:
        lines.append(f"the trace takes {outcome.trace_bytes} bytes of DRAM")
    if times is None:
        return lines
    how = ("from a trace" if settings.trace else "without a trace") + f", {settings.queues} command queue(s)"
    each = ", ".join(f"p{share} {times.percentile(share / 100) * 1e3:.3f} ms" for share in (50, 90, 99))
    per_run = times.total / len(times.each)
    lines += [
        f"{how}: {times.runs_per_second:.1f} runs a second ({per_run * 1e3:.3f} ms a run, {IN_FLIGHT + 1} in flight)",
        f"latency of {len(times.each)} runs one by one, inputs written to outputs read: {each}",
    ]
    predicted = predicted_ns.get("traced" if settings.trace else "untraced")
    if predicted:
        share = f"measured {per_run * 1e9 / predicted:.2f} times that"
        lines.append(f"predicted: {predicted / 1e6:.3f} ms a run, without its transfers; {share}")
    if is_simulator():
        lines.append("these are times of a simulator on this computer, not of a board")
    return lines
