"""A kernel put to its witnesses: what the program means, what its slots compute, what its C++ does.

The capacity of a case is part of its program (`dst_capacity`), where it is not what the configuration leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import Execution, execute, has_compiler
from optimizer.kernels.tensix.interpreter import run as interpret
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower, round_trips_saved
from optimizer.kernels.tensix.reference import evaluate
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.types import TILE, CircularBufferType, TensorType


@dataclass(frozen=True)
class Witnessed:
    """Largest differences from the meaning, relative to the larger of value and 1."""

    interpreter: float
    """Of the numpy interpreter of DST slots."""
    executed: float | None
    """Of the C++; None without a compiler."""
    tolerance: float
    execution: Execution | None
    round_trips_saved: int = 0
    """Blocks that fusion keeps in DST."""

    @property
    def agrees(self) -> bool:
        return self.interpreter <= self.tolerance and (self.executed is None or self.executed <= self.tolerance)

    def to_json(self) -> dict[str, Any]:
        run = self.execution
        return {
            "agrees": self.agrees,
            "interpreter_difference": self.interpreter,
            "executed_difference": self.executed,
            "tolerance": self.tolerance,
            "sections": None if run is None else run.sections,
            "inits": None if run is None else run.inits,
            "max_dst": None if run is None else run.max_dst,
            "round_trips_saved": self.round_trips_saved,
        }


def witness(program: Op, options: KernelOptions, seed: int = 0, execute_cpp: bool = True) -> Witnessed:
    """Random inputs through all three. VerificationError if a witness refuses the kernel.

    Every argument of the program that the reader brings to a circular buffer gets random values; every one that the
    writer fills is compared.
    """
    stages: dict[str, Op] = {}
    lowered = lower(program, options, stages.__setitem__)
    wide = bool(program.attr("fp32_dest_acc_en", False))
    dst = DType.F32 if wide else DType.BF16
    brought, taken = _transfers(program)
    tensors = _inputs(program, brought, seed)
    binds = [op.result for op in program.body.ops if op.name == "ttl.bind_cb"]
    packed = {cb.name: cb.type.dtype for cb in binds if isinstance(cb.type, CircularBufferType)}
    wanted = {
        cb: rounded(values, packed[cb])
        for cb, values in evaluate(program, {cb: tensors[t] for t, cb in brought.items()}, dst).items()
    }
    given = {cb: tensors[t] for t, cb in brought.items()}
    interpreted = interpret(stages["insert-inits"], given, options.capacity)
    seen = max((difference(wanted[cb], interpreted[cb]) for cb in taken.values()), default=0.0)
    saved = round_trips_saved(program, options)
    execution = executed = None
    if execute_cpp and has_compiler():
        execution = execute(lowered, emit_program(lowered, options.api), tensors, options.api, options.capacity)
        pairs = [(wanted[cb], execution.tensors[t]) for t, cb in taken.items()]
        executed = max((difference(a, b) for a, b in pairs), default=0.0)
    exact = wide and all(dtype is DType.F32 for dtype in packed.values())
    return Witnessed(seen, executed, 2.0**-12 if exact else 2.0**-5, execution, saved)


def difference(wanted: Array, got: Array) -> float:
    """Largest difference relative to the larger of value and 1; where the meaning is undefined (NaN) none is taken."""
    defined = ~np.isnan(wanted)
    with np.errstate(all="ignore"):
        gap = np.abs(wanted - got) / np.maximum(np.abs(wanted), 1.0)
    gap = np.where(wanted == got, 0.0, gap)
    return float(np.max(np.nan_to_num(gap, nan=np.inf)[defined], initial=0.0))


def _transfers(program: Op) -> tuple[dict[str, str], dict[str, str]]:
    """Program argument -> circular buffer, of what is brought and of what is taken."""
    brought: dict[str, str] = {}
    taken: dict[str, str] = {}
    for thread in program.body.ops:
        if thread.name != "ttl.datamovement_thread":
            continue
        buffer = {
            op.result.name: op.operands[0].name
            for op in thread.body.ops
            if op.name.startswith("ttl.cb_") and op.results
        }
        for op in thread.body.ops:
            if op.name == "ttl.copy_in":
                brought[op.operands[0].name] = buffer[op.operands[3].name]
            elif op.name == "ttl.copy_out":
                taken[op.operands[1].name] = buffer[op.operands[0].name]
            elif op.name == "ttl.for":
                raise StateError("witnesses run programs of one block per circular buffer, without loops over blocks")
    return brought, taken


def _inputs(program: Op, brought: Mapping[str, str], seed: int) -> dict[str, Array]:
    """Values between 1/4 and 3/2: logarithms and roots are defined, products stay moderate."""
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for v in program.body.args:
        if v.name in brought:
            assert isinstance(v.type, TensorType)
            shape = (v.type.shape[0] * TILE, v.type.shape[1] * TILE)
            found[v.name] = rounded(generator.uniform(0.25, 1.5, shape).astype(np.float32), v.type.dtype)
    return found
