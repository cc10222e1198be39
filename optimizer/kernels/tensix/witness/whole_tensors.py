"""What a program makes of whole tensors, core after core: its meaning with error bounds, the DST interpreter's values,
those of its C++ under g++, and where they contradict each other.

Every core brings its blocks (`transfers`), computes, and takes its results. Elements that no core writes are not
compared. The capacity of a case is part of its program (`dst_capacity`), where it is not what the configuration leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments, named_arguments
from optimizer.kernels.tensix.buffers import backing, buffers_of
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX, NESTED
from optimizer.kernels.tensix.emit_cpp import KernelSource
from optimizer.kernels.tensix.emitted import read_short
from optimizer.kernels.tensix.executor.execute import Execution, compiled, has_compiler
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.launch import Launch, LaunchTensor, build
from optimizer.kernels.tensix.passes.convert_to_compute import inline_regions
from optimizer.kernels.tensix.pipeline import KernelOptions, lower, round_trips_saved
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.types import TILE, CircularBufferType
from optimizer.kernels.tensix.witness.error_bound import FLOAT64, Bounded, Numbers, bounds, exactly
from optimizer.kernels.tensix.witness.interpreter import run_blocks
from optimizer.kernels.tensix.witness.reference import evaluate, or_zero
from optimizer.kernels.tensix.witness.transfers import transfers

Core = tuple[int, int]
"""Coordinates (x, y)."""


@dataclass(frozen=True)
class WrittenTensor:
    """What a kernel should leave in a tensor."""

    exact: Numbers
    """Without rounding."""
    near: Numbers
    """How far from it a kernel that rounds to nearest may be."""
    interpreted: Array
    """With ideal units."""
    on_chip: Array
    """The interpreter's, with the units of the launch's architecture."""
    written: NDArray[np.bool_]
    """Elements that a core writes."""
    rounded: Array | None
    """Its meaning with every result rounded to DST's element type, or the interpreter's zeros beside the result of a
    reduction; None for programs with loops over blocks."""

    @staticmethod
    def nothing(shape: tuple[int, ...], loops: bool) -> WrittenTensor:
        """Before any core has written to it."""
        numbers = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        return WrittenTensor(*numbers, np.zeros(shape, np.bool_), None if loops else np.zeros(shape, np.float32))


def random_inputs(program: Op, tensors: Mapping[str, tuple[tuple[int, ...], DType]], seed: int) -> dict[str, Array]:
    """Values between 1/4 and 3/2 by argument: logarithms and roots are defined, products stay moderate.

    The scaler of a reduction is one number in all of its tile, as the hardware wants it, and 1 for maxima, which it
    takes with no other.
    """
    generator = np.random.default_rng(seed)
    found = {
        name: rounded(generator.uniform(0.25, 1.5, shape).astype(np.float32), dtype)
        for name, (shape, dtype) in tensors.items()
    }
    for name, of_maxima in _scalers(program).items():
        if name in found:
            found[name][...] = 1.0 if of_maxima else found[name][0, 0]
    return found


def _scalers(program: Op) -> dict[str, bool]:
    """Arguments that scale reductions, and whether one of these is a maximum."""
    inner = inline_regions(program)
    buffer = {block: cb.name for block, cb in buffers_of(inner).items()}
    copies = {buffer[op.operands[3].name]: op.operands[0].name for op in walk(inner) if op.name == "ttl.copy_in"}
    brought = copies | backing(inner)
    found: dict[str, bool] = {}
    for op in walk(inner):
        if op.name.startswith(f"{BLOCK_PREFIX}reduce_"):
            argument = brought.get(buffer.get(op.operands[1].name, ""))
            if argument is not None:
                found[argument] = found.get(argument, False) or op.name.startswith(f"{BLOCK_PREFIX}reduce_max")
    return found


def inputs_of(program: Op, launch: Launch, seed: int) -> dict[str, Array]:
    """Random elements of every tensor that the kernel reads, by the program's argument, in the program's order."""
    known = {tensor.argument: tensor for tensor in launch.inputs}
    shapes = {v.name: (known[v.name].shape, known[v.name].dtype) for v in program.body.args if v.name in known}
    return random_inputs(program, shapes, seed)


def expected(
    program: Op,
    launch: Launch,
    options: KernelOptions,
    inputs: Mapping[str, Array],
    sum_unit: float = TILE * FLOAT64,
    arguments: Arguments = NO_ARGUMENTS,
) -> dict[str, WrittenTensor]:
    """The program's meaning and the interpreter's values, by the argument that is written. VerificationError if the
    interpreter refuses the kernel, or a core moves a block beyond a tensor.

    `sum_unit`: what the product of two tiles loses, as in `error_bound.bounds`.
    """
    stages: dict[str, Op] = {}
    lower(program, options, stages.__setitem__)
    loops = any(op.name in NESTED for op in walk(program))
    made = {tensor.argument: WrittenTensor.nothing(tensor.shape, loops) for tensor in launch.outputs}
    tensors = {tensor.argument: tensor for tensor in launch.tensors}
    moved_by = transfers(program, tuple(cores(launch)), arguments)
    for core, moved in moved_by.items():
        own = named_arguments(program, arguments, core)
        given = {
            cb: [place.read(_part(inputs[place.tensor], tensors[place.tensor], core)) for place in places]
            for cb, places in moved.brought.items()
        }
        known = {cb: tuple(map(exactly, blocks)) for cb, blocks in given.items()}
        meant = known | bounds(stages["fold-grid"], given, sum_unit, core, own)
        rounded_blocks = {} if loops else _rounded(program, given)
        steps = stages["insert-inits"]
        computed: dict[str, Sequence[Array]] = {**given}
        computed |= run_blocks(steps, given, core, own)
        on_chip: dict[str, Sequence[Array]] = {**given}
        on_chip |= run_blocks(steps, given, core, own, launch.arch)
        for cb, places in moved.taken.items():
            for place, bounded, block, chips in zip(places, meant[cb], computed[cb], on_chip[cb], strict=True):
                if place.tensor in made:
                    to, tensor = made[place.tensor], tensors[place.tensor]
                    place.write(_part(to.exact, tensor, core), bounded.value)
                    place.write(_part(to.near, tensor, core), bounded.error)
                    place.write(_part(to.interpreted, tensor, core), block)
                    place.write(_part(to.on_chip, tensor, core), chips)
                    place.write(_part(to.written, tensor, core), np.ones(block.shape, np.bool_))
                    if to.rounded is not None:
                        place.write(_part(to.rounded, tensor, core), or_zero(program, cb, rounded_blocks[cb], block))
    return made


def _rounded(program: Op, given: Mapping[str, Sequence[Array]]) -> dict[str, Array]:
    """The block of every circular buffer, each result rounded as DST rounds it, of a program without loops."""
    dst = DType.F32 if program.attr("fp32_dest_acc_en", False) else DType.BF16
    blocks = {cb: found[0] for cb, found in given.items()}
    types = {
        op.result.name: op.result.typed(CircularBufferType).dtype for op in walk(program) if op.name == "ttl.bind_cb"
    }
    return blocks | {cb: rounded(values, types[cb]) for cb, values in evaluate(program, blocks, dst).items()}


def executed(
    launch: Launch,
    lowered: Op,
    sources: Sequence[KernelSource],
    inputs: Mapping[str, Array],
    arguments: Arguments = NO_ARGUMENTS,
) -> Execution:
    """What the C++ leaves in every tensor under g++, one core after the other, or all at once if they know of each
    other, and what the last core counted. VerificationError if it goes wrong."""
    whole = {t.argument: inputs.get(t.argument, np.zeros(t.shape, np.float32)).copy() for t in launch.tensors}
    with compiled(lowered, sources, launch.arch) as run:
        if launch.semaphores:
            return run(whole, tuple(cores(launch)), arguments)
        for core in cores(launch):
            parts = {t.argument: _part(whole[t.argument], t, core) for t in launch.tensors}
            found = run(parts, (core,), arguments)
            for name, part in parts.items():
                part[...] = found.tensors[name]
    return replace(found, tensors=whole)


def cores(launch: Launch) -> Iterator[Core]:
    """Row by row."""
    for x0, y0, x1, y1 in launch.cores:
        yield from ((x, y) for y in range(y0, y1 + 1) for x in range(x0, x1 + 1))


def _part[T: np.generic](values: NDArray[T], tensor: LaunchTensor, core: Core) -> NDArray[T]:
    """A view of what a core addresses of a tensor: its shard, or all of it."""
    spec = tensor.layout.shard_spec
    if spec is None:
        return values
    x, y = core
    rows, columns = spec.shape
    return values[y * rows : (y + 1) * rows, x * columns : (x + 1) * columns]


# -- witness ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Witnessed:
    """Elements in which the witnesses contradict each other, of `elements` compared."""

    elements: int
    interpreter: int | None
    """Elements of the numpy interpreter of DST slots that are not, bit for bit, the meaning with every result rounded
    to DST's element type. Values that go through L1 in a narrower type are rounded there as well: then some are. Beside
    the result of a reduction, zeros are not (`reference`). None for programs with loops over blocks."""
    beyond: int
    """Elements of the interpreter further from the meaning without rounding than roundings explain (`error_bound`)."""
    executed: int | None
    """Elements of the C++ that are not, bit for bit, the interpreter's, both with the units of the chip; None without a
    compiler."""
    execution: Execution | None
    round_trips_saved: int = 0
    """Blocks that fusion keeps in DST."""
    read_short: tuple[str, ...] = ()
    """Ops that read f32 at 19 bits on hardware, which no witness does."""

    @property
    def agrees(self) -> bool:
        return self.beyond == 0 and not self.executed

    def to_json(self) -> dict[str, Any]:
        run = self.execution
        return {
            "agrees": self.agrees,
            "elements": self.elements,
            "interpreter_differs": self.interpreter,
            "beyond_error_bound": self.beyond,
            "executed_differs": self.executed,
            "sections": None if run is None else run.sections,
            "inits": None if run is None else run.inits,
            "max_dst": None if run is None else run.max_dst,
            "round_trips_saved": self.round_trips_saved,
            "read_at_19_bits": list(self.read_short),
        }


def witness(
    program: Op,
    options: KernelOptions,
    seed: int = 0,
    execute_cpp: bool = True,
    arguments: Arguments = NO_ARGUMENTS,
) -> Witnessed:
    """Random inputs through all three, on all cores. VerificationError if a witness refuses the kernel.

    Every tensor that the kernel reads gets random values; every element that it writes is compared.
    """
    stages: dict[str, Op] = {}
    kernel = build(program, options, stages.__setitem__)
    inputs = inputs_of(program, kernel.launch, seed)
    made = expected(program, kernel.launch, options, inputs, arguments=arguments)
    meant = [w.rounded for w in made.values() if w.rounded is not None]
    execution = None
    if execute_cpp and has_compiler():
        execution = executed(kernel.launch, kernel.lowered, kernel.sources, inputs, arguments)
    return Witnessed(
        elements=sum(int(w.written.sum()) for w in made.values()),
        interpreter=sum(differing(w.rounded, w.interpreted) for w in made.values() if w.rounded is not None)
        if len(meant) == len(made)
        else None,
        beyond=sum(int((~Bounded(w.exact, w.near).allows(w.interpreted)).sum()) for w in made.values()),
        executed=None
        if execution is None
        else sum(differing(w.on_chip[w.written], execution.tensors[n][w.written]) for n, w in made.items()),
        execution=execution,
        round_trips_saved=round_trips_saved(stages),
        read_short=read_short(stages["insert-inits"]),
    )


def differing(wanted: Array, got: Array) -> int:
    """Elements whose bits differ; one NaN is as good as another."""
    bits = [np.ascontiguousarray(x, np.float32).view(np.uint32) for x in (wanted, got)]
    return int(((bits[0] != bits[1]) & ~(np.isnan(wanted) & np.isnan(got))).sum())
