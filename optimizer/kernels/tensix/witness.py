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
from optimizer.kernels.tensix.error_bound import bounds
from optimizer.kernels.tensix.executor.execute import Execution, execute, has_compiler
from optimizer.kernels.tensix.interpreter import run as interpret
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower, read_short, round_trips_saved
from optimizer.kernels.tensix.reduced_parts import beside_results
from optimizer.kernels.tensix.reference import evaluate
from optimizer.kernels.tensix.rounding import Array, rounded
from optimizer.kernels.tensix.types import TILE, CircularBufferType, TensorType
from optimizer.kernels.tensix.whole_tensors import random_inputs


@dataclass(frozen=True)
class Witnessed:
    """Elements in which the witnesses contradict each other, of `elements` compared."""

    elements: int
    interpreter: int
    """Elements of the numpy interpreter of DST slots that are not, bit for bit, the meaning with every result rounded
    to DST's element type. Values that go through L1 in a narrower type are rounded there as well: then some are.
    Beside the result of a reduction, zeros are not (`reduced_parts`)."""
    beyond: int
    """Elements of the interpreter further from the meaning without rounding than roundings explain (`error_bound`)."""
    executed: int | None
    """Elements of the C++ that are not, bit for bit, the interpreter's; None without a compiler."""
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


def witness(program: Op, options: KernelOptions, seed: int = 0, execute_cpp: bool = True) -> Witnessed:
    """Random inputs through all three. VerificationError if a witness refuses the kernel.

    Every argument of the program that the reader brings to a circular buffer gets random values; every one that the
    writer fills is compared.
    """
    stages: dict[str, Op] = {}
    lowered = lower(program, options, stages.__setitem__)
    dst = DType.F32 if program.attr("fp32_dest_acc_en", False) else DType.BF16
    brought, taken = _transfers(program)
    tensors = _inputs(program, brought, seed)
    given = {cb: tensors[t] for t, cb in brought.items()}
    binds = [op.result for op in program.body.ops if op.name == "ttl.bind_cb"]
    packed = {cb.name: cb.type.dtype for cb in binds if isinstance(cb.type, CircularBufferType)}
    wanted = {cb: rounded(values, packed[cb]) for cb, values in evaluate(program, given, dst).items()}
    interpreted = interpret(stages["insert-inits"], given, options.capacity)
    near = bounds(program, {cb: (values,) for cb, values in given.items()})
    execution = executed = None
    if execute_cpp and has_compiler():
        execution = execute(lowered, emit_program(lowered), tensors, options.capacity)
        executed = sum(differing(interpreted[cb], execution.tensors[t]) for t, cb in taken.items())
    return Witnessed(
        elements=sum(interpreted[cb].size for cb in taken.values()),
        interpreter=sum(
            differing(_or_zero(program, cb, wanted[cb], interpreted[cb]), interpreted[cb]) for cb in taken.values()
        ),
        beyond=sum(int((~near[cb][0].allows(interpreted[cb])).sum()) for cb in taken.values()),
        executed=executed,
        execution=execution,
        round_trips_saved=round_trips_saved(program, options),
        read_short=read_short(program),
    )


def _or_zero(program: Op, cb: str, wanted: Array, got: Array) -> Array:
    """What is wanted, or the zeros that the packer may write beside the result of a reduction."""
    beside = beside_results(program).get(cb)
    if beside is None:
        return wanted
    tiles = (wanted.shape[0] // TILE, wanted.shape[1] // TILE)
    return np.where(np.tile(beside, tiles) & (got == 0), got, wanted)


def differing(wanted: Array, got: Array) -> int:
    """Elements whose bits differ; one NaN is as good as another."""
    bits = [np.ascontiguousarray(x, np.float32).view(np.uint32) for x in (wanted, got)]
    return int(((bits[0] != bits[1]) & ~(np.isnan(wanted) & np.isnan(got))).sum())


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
    types = {v.name: v.typed(TensorType) for v in program.body.args if v.name in brought}
    shapes = {name: ((t.shape[0] * TILE, t.shape[1] * TILE), t.dtype) for name, t in types.items()}
    return random_inputs(program, shapes, seed)
