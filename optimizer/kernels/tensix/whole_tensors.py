"""What a program makes of whole tensors, core after core: its meaning with error bounds, the DST interpreter's values,
and those of its C++ under g++.

Every core brings its blocks (`transfers`), computes, and takes its results. Elements that no core writes are not
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments, named_arguments
from optimizer.kernels.tensix.dialect import BLOCK_PREFIX
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.error_bound import FPU_SUM, Bounded, Numbers, bounds, exactly
from optimizer.kernels.tensix.executor.execute import compiled, has_compiler
from optimizer.kernels.tensix.interpreter import run_blocks
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.launch import Launch, LaunchTensor, launch_of
from optimizer.kernels.tensix.passes.inline_regions import inline_regions
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.transfers import transfers

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
    written: NDArray[np.bool_]
    """Elements that a core writes."""

    @staticmethod
    def nothing(shape: tuple[int, ...]) -> WrittenTensor:
        """Before any core has written to it."""
        numbers = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.float32)
        return WrittenTensor(*numbers, np.zeros(shape, np.bool_))


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
    buffer = {op.result.name: op.operands[0].name for op in walk(inner) if op.name in ("ttl.cb_wait", "ttl.cb_reserve")}
    brought = {buffer[op.operands[3].name]: op.operands[0].name for op in walk(inner) if op.name == "ttl.copy_in"} | {
        op.result.name: op.string("tensor") for op in walk(inner) if op.name == "ttl.bind_cb" and op.has_attr("tensor")
    }
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
    arguments: Arguments = NO_ARGUMENTS,
) -> dict[str, WrittenTensor]:
    """The program's meaning and the interpreter's values, by the argument that is written. VerificationError if the
    interpreter refuses the kernel, or a core moves a block beyond a tensor."""
    stages: dict[str, Op] = {}
    lower(program, options, stages.__setitem__)
    made = {tensor.argument: WrittenTensor.nothing(tensor.shape) for tensor in launch.outputs}
    tensors = {tensor.argument: tensor for tensor in launch.tensors}
    moved_by = transfers(program, tuple(cores(launch)), arguments)
    for core, moved in moved_by.items():
        own = named_arguments(program, arguments, core)
        given = {
            cb: [place.read(_part(inputs[place.tensor], tensors[place.tensor], core)) for place in places]
            for cb, places in moved.brought.items()
        }
        known = {cb: tuple(map(exactly, blocks)) for cb, blocks in given.items()}
        meant = known | bounds(stages["fold-grid"], given, FPU_SUM, core, own)
        computed: dict[str, Sequence[Array]] = {**given}
        computed |= run_blocks(stages["insert-inits"], given, options.capacity, core, own)
        for cb, places in moved.taken.items():
            for place, bounded, block in zip(places, meant[cb], computed[cb], strict=True):
                if place.tensor in made:
                    to, tensor = made[place.tensor], tensors[place.tensor]
                    wholes: tuple[NDArray[Any], ...] = (to.exact, to.near, to.interpreted, to.written)
                    parts: tuple[NDArray[Any], ...] = (
                        bounded.value,
                        bounded.error,
                        block,
                        np.ones(block.shape, np.bool_),
                    )
                    for whole, part in zip(wholes, parts, strict=True):
                        place.write(_part(whole, tensor, core), part)
    return made


def executed(
    launch: Launch,
    lowered: Op,
    sources: Sequence[KernelSource],
    options: KernelOptions,
    inputs: Mapping[str, Array],
    arguments: Arguments = NO_ARGUMENTS,
) -> dict[str, Array]:
    """What the C++ leaves in every tensor under g++, one core after the other, or all at once if they know of each
    other. VerificationError if it goes wrong."""
    whole = {t.argument: inputs.get(t.argument, np.zeros(t.shape, np.float32)).copy() for t in launch.tensors}
    with compiled(lowered, sources, options.capacity) as run:
        if launch.semaphores:
            return dict(run(whole, tuple(cores(launch)), arguments).tensors)
        for core in cores(launch):
            parts = {t.argument: _part(whole[t.argument], t, core) for t in launch.tensors}
            found = run(parts, (core,), arguments).tensors
            for name, part in parts.items():
                part[...] = found[name]
    return whole


@dataclass(frozen=True)
class Compared:
    """A program on all of its cores, here: see `witness.Witnessed` for what is counted."""

    elements: int
    beyond: int
    executed: int | None

    @property
    def agrees(self) -> bool:
        return self.elements > 0 and self.beyond == 0 and not self.executed

    def to_json(self) -> dict[str, Any]:
        return {
            "agrees": self.agrees,
            "elements": self.elements,
            "beyond_error_bound": self.beyond,
            "executed_differs": self.executed,
        }


def compared(program: Op, options: KernelOptions, seed: int, arguments: Arguments = NO_ARGUMENTS) -> Compared:
    """Random inputs through the meaning, the interpreter and the C++ on every core. VerificationError if a witness
    refuses the kernel."""
    lowered = lower(program, options)
    sources = emit_program(lowered)
    launch = launch_of(program, lowered, sources, options.board)
    inputs = inputs_of(program, launch, seed)
    wanted = expected(program, launch, options, inputs, arguments)
    beyond = differs = 0
    here = executed(launch, lowered, sources, options, inputs, arguments) if has_compiler() else None
    for name, tensor in wanted.items():
        allowed = Bounded(tensor.exact, tensor.near).allows(tensor.interpreted)
        beyond += int((~allowed & tensor.written).sum())
        if here is not None:
            differs += differing(tensor.interpreted[tensor.written], here[name][tensor.written])
    elements = sum(int(tensor.written.sum()) for tensor in wanted.values())
    return Compared(elements, beyond, differs if here is not None else None)


def differing(wanted: Array, got: Array) -> int:
    """Elements whose bits differ; one NaN is as good as another."""
    bits = [np.ascontiguousarray(x, np.float32).view(np.uint32) for x in (wanted, got)]
    return int(((bits[0] != bits[1]) & ~(np.isnan(wanted) & np.isnan(got))).sum())


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
