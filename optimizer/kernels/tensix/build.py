"""A program compiled: its C++, and what the host hands over with it."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import Launch, launch_of
from optimizer.kernels.tensix.pipeline import KernelOptions, Observer, lower


@dataclass(frozen=True)
class BuiltKernel:
    """One program and everything that was made of it."""

    program: Op
    """As given."""
    options: KernelOptions
    lowered: Op
    """As calls of the kernel API."""
    sources: tuple[KernelSource, ...]
    launch: Launch


def build(program: Op, options: KernelOptions, observe: Observer | None = None) -> BuiltKernel:
    """Compile a program. GraphError, LimitError or InfeasibleError if that cannot be, or the board has no such grid."""
    lowered = lower(program, options, observe)
    sources = emit_program(lowered)
    launch = launch_of(program, lowered, sources, options.board)
    return BuiltKernel(program, options, lowered, sources, launch)
