"""Kernels run block by block: by the interpreter of DST, or as C++ under g++, on one core or on the whole grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments, Place, cores_of
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.executor.execute import Execution, compiled
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import Array
from optimizer.kernels.tensix.witness.interpreter import run_blocks

_BY_DEFAULT = KernelOptions()


def compile_program(program: Op, options: KernelOptions = _BY_DEFAULT) -> tuple[KernelSource, ...]:
    """C++ of every thread."""
    return emit_program(lower(program, options))


def run(program: Op, blocks: Mapping[str, Array], chip: str | None = None) -> dict[str, Array]:
    """The first block pushed to each circular buffer that nobody in the thread reads; see `run_blocks`."""
    given = {name: (block,) for name, block in blocks.items()}
    return {name: made[0] for name, made in run_blocks(program, given, chip=chip).items()}


def execute(
    program: Op,
    kernels: Sequence[KernelSource],
    tensors: Mapping[str, Array],
    core: Place = (0, 0),
    chip: str | None = None,
) -> Execution:
    """Run the kernels of a lowered program once on the core at (x, y)."""
    with compiled(program, kernels, chip) as run:
        return run(tensors, (core,), NO_ARGUMENTS)


def execute_grid(
    program: Op, kernels: Sequence[KernelSource], tensors: Mapping[str, Array], arguments: Arguments = NO_ARGUMENTS
) -> Execution:
    """The same on all cores of the program's grid at once; shards of a tensor are one below the other, core by core."""
    with compiled(program, kernels) as run:
        return run(tensors, cores_of(program), arguments)
