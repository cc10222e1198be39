"""Kernels of regions executed on this machine, against the interpreter of the TTNN vocabulary on whole tensors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from interpreter import evaluate
from numpy.typing import NDArray

from optimizer.export.kernels.lowering import API, lowered, program_of
from optimizer.export.kernels.operations import MOVE
from optimizer.export.kernels.placement import Kind, Operand
from optimizer.export.kernels.regions import Region
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import execute
from optimizer.kernels.tensix.index_expr import const
from optimizer.kernels.tensix.interpreter import run as interpret
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import rounded
from optimizer.kernels.tensix.types import TILE

Array = NDArray[np.float32]
TOLERANCE = 2.0**-5
"""Relative to the larger of value and 1: four roundings to bf16 in a row."""


@dataclass(frozen=True)
class RegionRun:
    """One core's run."""

    elements: int
    mismatches: int
    difference: float
    """Largest, relative to the larger of value and 1."""


def interpret_region(region: Region, core: tuple[int, int] = (0, 0), seed: int = 0) -> RegionRun:
    """As `run_region`, but the compute thread only, on numpy; the shard must be one block."""
    values = _values(region, seed)
    stages: dict[str, Op] = {}
    lower(program_of(region), KernelOptions(api=API), stages.__setitem__)
    blocks = {f"x{k}_cb": _block(values[o.value], o, region, core) for k, o in enumerate(region.inputs)}
    made = interpret(stages["insert-inits"], blocks)
    pairs = []
    for k, o in enumerate(region.outputs):
        rows, columns = _part(region, core)
        part = values[o.value][rows, columns if o.kind is Kind.FULL else slice(0, 1)]
        pairs.append((part, made[f"y{k}_cb"][:, : part.shape[1]]))
    return _compared(pairs)


def run_region(region: Region, core: tuple[int, int], seed: int = 0) -> RegionRun:
    """The region's kernels on the core at (x, y): its results against the ops one by one on whole tensors.

    Elements that an operand does not have (the rest of the tiles of a row or a column) are NaN, which would show.
    What is written elsewhere than in the core's part counts as a mismatch.
    """
    values = _values(region, seed)
    given = {f"x{k}": _given(values[o.value], o, region, core) for k, o in enumerate(region.inputs)}
    program = lowered(program_of(region))
    run = execute(program, emit_program(program, API), given, core=core)
    pairs = [_pair(values[o.value], run.tensors[f"y{k}"], o, region, core) for k, o in enumerate(region.outputs)]
    return _compared(pairs)


def _values(region: Region, seed: int) -> dict[str, Array]:
    """Random operands, and what every op makes of them, rounded to the region's element type.

    Matrices on the right have mean 0 and small entries, as weights do, so that products are spread around 0: a norm of
    rows that are all alike would only show how their rounding errors grow.
    """
    generator = np.random.default_rng(seed)
    values: dict[str, Array] = {}
    for operand in region.inputs:
        shape = _elements(operand, region)
        made = generator.uniform(0.25, 1.5, shape)
        if operand.kind is Kind.RIGHT:
            made = generator.uniform(-1.0, 1.0, shape) / np.sqrt(shape[0])
        values[operand.value] = rounded(made.astype(np.float32), operand.dtype)
    for op in region.ops:
        alike = op.with_attrs(dim=-1) if "dim" in op.attrs else op  # operands have rank 2 here
        results = [values[op.inputs[0]]] if op.op == MOVE else evaluate(alike, [values[v] for v in op.inputs])
        values[op.outputs[0]] = rounded(np.asarray(results[0], np.float32), region.dtype)
    return values


def _compared(pairs: list[tuple[Array, Array]]) -> RegionRun:
    """(wanted, got) of every result."""
    gaps = []
    for wanted, got in pairs:
        with np.errstate(invalid="ignore"):
            gap = np.nan_to_num(np.abs(wanted - got) / np.maximum(np.abs(wanted), 1.0), nan=np.inf)
        gaps.append(np.where((wanted == got) | (np.isnan(wanted) & np.isnan(got)), 0.0, gap))
    return RegionRun(
        sum(gap.size for gap in gaps),
        sum(int((gap > TOLERANCE).sum()) for gap in gaps),
        max(float(gap.max()) for gap in gaps),
    )


def _elements(operand: Operand, region: Region) -> tuple[int, int]:
    """Rows and columns of a whole operand: of one tile, those that are not repeated."""
    rows, columns = (n * TILE for n in region.home.frame)
    depth = operand.depth * TILE
    return {
        Kind.FULL: (rows, columns), Kind.COLUMN: (rows, 1), Kind.ROW: (1, columns), Kind.SCALAR: (1, 1),
        Kind.LEFT: (rows, depth), Kind.RIGHT: (depth, columns),
    }[operand.kind]  # fmt: skip


def _part(region: Region, core: tuple[int, int]) -> tuple[slice, slice]:
    """Elements of the frame that are the core's."""
    home = region.home
    if home.core_map is None:
        return slice(0, home.shard[0] * TILE), slice(0, home.shard[1] * TILE)
    x, y = (const(n) for n in core)
    row, column = (e.evaluate(()) * TILE for e in home.core_map.first_tile(home.shard, x, y))
    return slice(row, row + home.shard[0] * TILE), slice(column, column + home.shard[1] * TILE)


def _of_core(value: Array, operand: Operand, region: Region, core: tuple[int, int]) -> Array:
    """The rows and columns of an operand that a core computes with."""
    rows, columns = _part(region, core)
    all_ = slice(None)
    return value[rows if operand.kind.has_rows else all_, columns if operand.kind.has_columns else all_]


def _block(value: Array, operand: Operand, region: Region, core: tuple[int, int]) -> Array:
    """The core's part of an operand in whole tiles."""
    part = _of_core(value, operand, region, core)
    whole = np.full(tuple(-(-n // TILE) * TILE for n in part.shape), np.nan, np.float32)
    whole[: part.shape[0], : part.shape[1]] = part
    return whole


def _given(value: Array, operand: Operand, region: Region, core: tuple[int, int]) -> Array:
    """A tensor as the kernel finds it: the core's shard, or all of it in whole tiles."""
    if operand.resident:
        return _of_core(value, operand, region, core)
    rows, columns = (n * TILE for n in operand.tiles)
    whole = np.full((rows, columns), np.nan, np.float32)
    whole[: value.shape[0], : value.shape[1]] = value
    return whole


def _pair(wanted: Array, got: Array, operand: Operand, region: Region, core: tuple[int, int]) -> tuple[Array, Array]:
    """What a result should be and what it is, as the kernel leaves it."""
    rows, columns = _part(region, core)
    if operand.resident:
        return wanted[rows, columns], got
    columns = columns if operand.kind is Kind.FULL else slice(0, 1)
    expected = np.zeros(wanted.shape, np.float32)
    expected[rows, columns] = wanted[rows, columns]
    return expected, got[:, : wanted.shape[1]]
