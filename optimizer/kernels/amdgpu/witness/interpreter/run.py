"""Runs a kernel: every workgroup of the grid, its waves as coroutines that meet at barriers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from optimizer.errors import LimitError, OptionError, UnknownNameError

from ..errors import ExecutionError
from .descriptor import Descriptor
from .hazards import Traits
from .memory import DeviceMemory, SharedBytes
from .metadata import Passed, check_launch, check_metadata
from .operands import EXEC, VCC, VGPR
from .parse import Program, parse_program
from .state import ALL_LANES, Wave, Workgroup
from .step_table import decode_program

Scalar = np.generic
Argument = npt.NDArray[Any] | Scalar
Observer = Callable[[int, int], None]
"""Takes the number of a wave, counted over the grid, and the line of an instruction."""
DEFAULT_STEPS = 2_000_000
MAX_WAVES = 1 << 16
"""Of a launch: each takes a millisecond."""


@dataclass
class Statistics:
    """What the run did, over all waves. `hazards` counts instructions that some s_nop kept from a hazard."""

    instructions: int = 0
    waits: int = 0
    nops: int = 0
    nop_states: int = 0
    hazards: int = 0
    waves: int = 0
    by_mnemonic: Counter[str] = field(default_factory=Counter)
    executed_lines: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Run:
    """`buffers`: the arrays of the arguments after the run, by name, in order."""

    buffers: Mapping[str, npt.NDArray[Any]]
    statistics: Statistics


def run_kernel(
    text: str,
    kernel_name: str,
    grid: Sequence[int],
    workgroup_size: Sequence[int],
    arguments: Mapping[str, Argument],
    *,
    max_steps: int = DEFAULT_STEPS,
    observe: Observer | None = None,
) -> Run:
    """Execute the kernel `kernel_name` of an assembly text.

    `grid` and `workgroup_size` have one to three dimensions, x first; `grid` counts workgroups. `arguments` are
    the kernel's arguments in order: an array is placed in device memory and its 64-bit address passed, a numpy
    scalar is passed by value; each is aligned to its own size. An array marked read-only (`flags.writeable` false)
    may not be stored to. `observe` is told of every instruction as it is executed.

    Errors: `TextError` for text that cannot be read, `ExecutionError` for anything the hardware leaves undefined,
    `UnknownNameError` for a kernel that is not there.
    """
    program = parse_program(text)
    descriptor = program.descriptors.get(kernel_name)
    if descriptor is None or kernel_name not in program.labels:
        raise UnknownNameError("kernel", kernel_name, [name for name in program.descriptors if name in program.labels])
    size = _dimensions(workgroup_size)
    memory, names = DeviceMemory(), list(arguments)
    kernarg, passed = _place_arguments(memory, descriptor, arguments)
    if (metadata := program.metadata.get(kernel_name)) is not None:
        check_metadata(metadata, descriptor)
        check_launch(metadata, size, passed)
    launch = _Launch(program, descriptor, _dimensions(grid), size, max_steps, observe)
    # Non-finite numbers and wrapping integers are ordinary values of a kernel.
    with np.errstate(all="ignore"):
        statistics = launch.run(memory, kernarg)
    regions = {region.name: region for region in memory.regions}
    arrays = {name: arguments[name] for name in names if isinstance(arguments[name], np.ndarray)}
    buffers = {
        name: np.frombuffer(regions[name].shared.data.tobytes(), array.dtype).reshape(array.shape).copy()
        for name, array in arrays.items()
    }
    return Run(buffers, statistics)


def _dimensions(sizes: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(sizes) <= 3 or min(sizes) < 1:
        raise OptionError(f"{tuple(sizes)} is not one to three sizes of at least 1")
    padded = [*sizes, 1, 1]
    return padded[0], padded[1], padded[2]


def _place_arguments(
    memory: DeviceMemory, descriptor: Descriptor, arguments: Mapping[str, Argument]
) -> tuple[int, list[Passed]]:
    """Put the arrays and the kernarg segment in memory; the segment's address and what lies where in it."""
    passed = []
    segment, padding = bytearray(), list[int]()
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            region = memory.add(name, value, writable=bool(value.flags.writeable))
            content = region.address.to_bytes(8, "little")
        else:
            content = value.tobytes()
        gap = -len(segment) % len(content)
        padding += range(len(segment), len(segment) + gap)
        segment += bytes(gap)
        passed.append(Passed(name, len(segment), len(content), isinstance(value, np.ndarray)))
        segment += content
    if descriptor["kernarg_size"] < len(segment):
        reason = f".amdhsa_kernarg_size {descriptor['kernarg_size']}: the arguments need {len(segment)} bytes"
        raise ExecutionError("descriptor", reason, descriptor.line)
    padded = bytes(segment).ljust(descriptor["kernarg_size"], b"\xa5")
    region = memory.add("kernarg segment", np.frombuffer(padded, np.uint8), writable=False)
    region.shared.initialised[padding] = False
    region.shared.initialised[len(segment) :] = False
    return region.address, passed


@dataclass
class _Launch:
    program: Program
    descriptor: Descriptor
    grid: tuple[int, int, int]
    size: tuple[int, int, int]
    max_steps: int
    observe: Observer | None
    statistics: Statistics = field(default_factory=Statistics)

    def run(self, memory: DeviceMemory, kernarg: int) -> Statistics:
        x, y, z = self.size
        if x * y * z > 1024:
            raise OptionError(f"a workgroup of {x * y * z} threads: at most 1024", limit=1024)
        self.steps = decode_program(self.program, self.descriptor)
        self.waves_per_group = -(-x * y * z // 64)
        groups = prod(self.grid)
        if groups * self.waves_per_group > MAX_WAVES:
            raise LimitError(f"a grid of {groups} workgroups, {self.waves_per_group} waves each", limit=MAX_WAVES)
        for number in range(groups):
            place = np.unravel_index(number, self.grid[::-1])[::-1]
            identifier = int(place[0]), int(place[1]), int(place[2])
            lds_bytes = self.descriptor["group_segment_fixed_size"]
            lds = SharedBytes(np.zeros(lds_bytes, np.uint8), np.zeros(lds_bytes, np.bool_))
            group = Workgroup(identifier, number, lds, self.descriptor, memory)
            self._run_group(group, [self._wave(group, index, kernarg) for index in range(self.waves_per_group)])
        return self.statistics

    def _wave(self, group: Workgroup, index: int, kernarg: int) -> Wave:
        """The state at entry: only what the descriptor enables is defined."""
        wave = Wave(group, index, group.number * self.waves_per_group + index)
        wave.hazards.replays = ":xnack-" not in self.program.target
        wave.hazards.xdl_delay = self.program.processor.xdl_delay
        x, y, z = self.size
        thread = np.arange(64) + 64 * index
        active = int(np.count_nonzero(thread < x * y * z))
        wave.set_scalar(EXEC, 2, ALL_LANES >> 64 - active)
        packed = thread % x
        for dimension, (coordinate, shift) in enumerate(((thread // x % y, 10), (thread // (x * y), 20)), start=1):
            if self.descriptor["system_vgpr_workitem_id"] >= dimension:
                packed = packed | coordinate << shift
        wave.set_vector(VGPR, packed.astype(np.uint32), ALL_LANES)
        if self.descriptor.kernarg_sgpr is not None:
            wave.set_scalar(self.descriptor.kernarg_sgpr, 2, kernarg)
        for dimension, register in self.descriptor.workgroup_id_sgprs.items():
            wave.set_scalar(register, 1, group.identifier[dimension])
        self.statistics.waves += 1
        return wave

    def _run_group(self, group: Workgroup, waves: list[Wave]) -> None:
        running = [(wave, self._execute(wave)) for wave in waves]
        while running:
            arrived = [(wave, body) for wave, body in running if next(body, None) is not None]
            if arrived and len(arrived) != len(waves):
                wave = arrived[0][0]
                raise wave.error("barrier", "waits for waves that have ended or never come here")
            lines = {wave.line for wave, _ in arrived}
            if len(lines) > 1:
                raise arrived[0][0].error("barrier", f"waves wait at different barriers, lines {sorted(lines)}")
            group.epoch += 1
            running = arrived

    def _execute(self, wave: Wave) -> Generator[int]:
        """Run until s_endpgm; yields the line of each barrier."""
        statistics = self.statistics
        while not wave.finished:
            if not 0 <= wave.pc < len(self.steps):
                raise wave.error("no-end", "execution runs past the last instruction: s_endpgm is missing")
            step = self.steps[wave.pc]
            wave.line, wave.text = step.instruction.line, step.instruction.text
            if statistics.instructions >= self.max_steps:
                raise wave.error("no-end", f"still running after {self.max_steps} instructions")
            statistics.instructions += 1
            statistics.by_mnemonic[step.instruction.mnemonic] += 1
            statistics.executed_lines.add(wave.line)
            if self.observe is not None:
                self.observe(wave.agent, wave.line)
            traits = step.traits
            wave.waits.check(traits.reads, traits.writes, step.issuing, wave.line, wave.text, wave.where)
            if step.lanes != "own":
                wave.require_known(traits.reads, wave.exec_mask if step.lanes == "exec" else ALL_LANES)
            self._check_hazards(wave, step.traits)
            wave.hazards.record(traits, wave.line)
            if halves := {VCC, VCC + 1}.intersection(traits.writes):
                wave.vccz_is_stale = len(halves) == 1
            step.execute(wave)
            self._count(wave, step.instruction.mnemonic)
            wave.pc += 1
            if step.instruction.mnemonic == "s_barrier":
                yield wave.line

    def _check_hazards(self, wave: Wave, traits: Traits) -> None:
        tracker = wave.hazards
        avoided = False
        for need in tracker.needs(traits):
            since = tracker.since(need)
            if since < need.states:
                missing = need.states - since
                reason = (
                    f"{need.reason}: {need.states} wait states are needed after line {need.line}, {since} are there; "
                    f"missing: s_nop {missing - 1}"
                )
                raise wave.error("hazard", reason)
            avoided |= tracker.since_without_nops(need) < need.states
        self.statistics.hazards += avoided

    def _count(self, wave: Wave, mnemonic: str) -> None:
        states = 1
        if mnemonic == "s_nop":
            states = wave.nop_states
            self.statistics.nops += 1
            self.statistics.nop_states += states
        elif mnemonic == "s_waitcnt":
            self.statistics.waits += 1
        wave.hazards.advance(states, is_nop=mnemonic == "s_nop")
