"""The device programs that an op of a result runs, by the names that tt-metal's profiler gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from optimizer.export.facts import tensor_spec
from optimizer.export.perf_csv.device_ops import op_code
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR
from optimizer.opmodel.base import TensorSpec
from optimizer.result import OptimizedGraph, Role

LAUNCHES_NOTHING = ("view", "transfer")
"""Families of programs that are none."""


Ends = tuple[TensorSpec | None, TensorSpec | None]
"""Operand 0 and the first result."""


@dataclass(frozen=True)
class Program:
    """A device program of an op."""

    family: str
    """As the cost model calls it."""
    name: str
    """The profiler's OP CODE."""
    time_ns: int


def programs(result: OptimizedGraph, op: Op) -> Iterator[Program]:
    """In the order in which they run; none of a view, of an op on the host and of one that nothing is predicted of."""
    record = result.records[op.id]
    if record.predicted is None or record.role is Role.HOST:
        return
    parts = [(part.name, round(part.time_ns)) for part in record.predicted.parts]
    if not parts and record.role not in (Role.VIEW, Role.TRANSFER):
        parts = [(opdef(op.op).cost_class.value, record.predicted.time_ns)]
    source = tensor_spec(result, op.inputs[0]) if op.inputs else None
    target = tensor_spec(result, op.outputs[0]) if op.outputs else None
    before = ""
    for family, time_ns in parts:
        ends = _by_rows(before, source, target) if family == "tilize" and len(parts) > 1 else (source, target)
        if family not in LAUNCHES_NOTHING:
            yield Program(family, op_code(op, family, *ends), time_ns)
        before = family


def _by_rows(before: str, source: TensorSpec | None, target: TensorSpec | None) -> Ends:
    """What is retiled in an op that goes by way of rows: the result once it has moved, before that an operand."""
    if before == "movement":
        return (None if target is None else replace(target, layout=DRAM_ROW_MAJOR), target)
    return (source, None if source is None else replace(source, layout=DRAM_ROW_MAJOR))
