"""A kernel put to its witnesses: what the program means, what its slots compute, what its C++ does.

The capacity of a case is part of its program (`dst_capacity`), where it is not what the configuration leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Arguments
from optimizer.kernels.tensix.build import build
from optimizer.kernels.tensix.emitted import read_short
from optimizer.kernels.tensix.error_bound import Bounded
from optimizer.kernels.tensix.executor.execute import Execution, has_compiler
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, round_trips_saved
from optimizer.kernels.tensix.rounding import Array
from optimizer.kernels.tensix.whole_tensors import executed, expected, inputs_of


@dataclass(frozen=True)
class Witnessed:
    """Elements in which the witnesses contradict each other, of `elements` compared."""

    elements: int
    interpreter: int | None
    """Elements of the numpy interpreter of DST slots that are not, bit for bit, the meaning with every result rounded
    to DST's element type. Values that go through L1 in a narrower type are rounded there as well: then some are. Beside
    the result of a reduction, zeros are not (`reduced_parts`). None for programs with loops over blocks."""
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
        execution = executed(kernel.launch, kernel.lowered, kernel.sources, options, inputs, arguments)
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
        round_trips_saved=round_trips_saved(program, options),
        read_short=read_short(stages["insert-inits"]),
    )


def differing(wanted: Array, got: Array) -> int:
    """Elements whose bits differ; one NaN is as good as another."""
    bits = [np.ascontiguousarray(x, np.float32).view(np.uint32) for x in (wanted, got)]
    return int(((bits[0] != bits[1]) & ~(np.isnan(wanted) & np.isnan(got))).sum())
