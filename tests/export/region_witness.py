"""Kernels of regions executed on this machine, against the interpreter of the TTNN vocabulary on whole tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from interpreter import evaluate
from numpy.typing import NDArray

from optimizer.export.kernels.lowering import API, blocks_of, lowered, program_of
from optimizer.export.kernels.operations import MOVE
from optimizer.export.kernels.placement import Kind, Operand
from optimizer.export.kernels.regions import Region
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import execute
from optimizer.kernels.tensix.index_expr import const
from optimizer.kernels.tensix.interpreter import run_blocks
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
    """As `run_region`, but the compute thread only, on numpy."""
    given, wanted = _values(region, seed)
    stages: dict[str, Op] = {}
    lower(program_of(region), KernelOptions(api=API), stages.__setitem__)
    blocks = {f"x{k}_cb": _blocks(given[o.value], o, region, core) for k, o in enumerate(region.inputs)}
    made = run_blocks(stages["insert-inits"], blocks)
    triples = []
    for k, o in enumerate(region.outputs):
        rows, columns = _part(region, core)
        part = rows, columns if o.kind is Kind.FULL else slice(0, 1)
        got = _assembled(made[f"y{k}_cb"], region)[:, : len(range(*part[1].indices(wanted[o.value].shape[1])))]
        triples.append((given[o.value][part], wanted[o.value][part], got))
    return _compared(triples)


def run_region(region: Region, core: tuple[int, int], seed: int = 0) -> RegionRun:
    """The region's kernels on the core at (x, y): its results against the ops one by one on whole tensors.

    Elements that an operand does not have (the rest of the tiles of a row or a column) are NaN, which would show.
    What is written elsewhere than in the core's part counts as a mismatch.
    """
    stepwise, exact = _values(region, seed)
    given = {f"x{k}": _given(stepwise[o.value], o, region, core) for k, o in enumerate(region.inputs)}
    program = lowered(program_of(region))
    run = execute(program, emit_program(program, API), given, core=core)
    return _compared(
        [
            _triple(stepwise[o.value], exact[o.value], run.tensors[f"y{k}"], o, region, core)
            for k, o in enumerate(region.outputs)
        ]
    )


def _values(region: Region, seed: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """Random operands, and what every op makes of them: rounded to the region's element type after each op, and exact.

    Matrices on the right have mean 0 and small entries, as weights do, so that products are spread around 0: a norm of
    rows that are all alike would only show how their rounding errors grow.
    """
    generator = np.random.default_rng(seed)
    stepwise: dict[str, Array] = {}
    for operand in region.inputs:
        shape = _elements(operand, region)
        made = generator.uniform(0.25, 1.5, shape)
        if operand.kind is Kind.RIGHT:
            made = generator.uniform(-1.0, 1.0, shape) / np.sqrt(shape[0])
        stepwise[operand.value] = rounded(made.astype(np.float32), operand.dtype)
    exact = dict(stepwise)
    for op in region.ops:
        alike = op.with_attrs(dim=-1) if "dim" in op.attrs else op  # operands have rank 2 here
        for values, dtype in ((stepwise, region.dtype), (exact, DType.F32)):
            operands = [values[v] for v in op.inputs]
            results = operands[:1] if op.op == MOVE else evaluate(alike, operands)
            values[op.outputs[0]] = rounded(np.asarray(results[0], np.float32), dtype)
    return stepwise, exact


def _compared(triples: list[tuple[Array, Array, Array]]) -> RegionRun:
    """(op by op, exact, got) of every result. A fused kernel may round after any op or not: both and what is between
    them are right."""
    gaps = []
    for stepwise, exact, got in triples:
        low, high = np.minimum(stepwise, exact), np.maximum(stepwise, exact)
        with np.errstate(invalid="ignore"):
            gap = np.maximum(np.maximum(low - got, got - high), 0.0) / np.maximum(np.abs(exact), 1.0)
        gap = np.nan_to_num(gap, nan=np.inf)
        gaps.append(np.where((stepwise == got) | (np.isnan(stepwise) & np.isnan(got)), 0.0, gap))
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


def _blocks(value: Array, operand: Operand, region: Region, core: tuple[int, int]) -> list[Array]:
    """The core's part of an operand in whole tiles, block by block as the reader brings it."""
    part = _of_core(value, operand, region, core)
    whole = np.full(tuple(-(-n // TILE) * TILE for n in part.shape), np.nan, np.float32)
    whole[: part.shape[0], : part.shape[1]] = part
    blocks = blocks_of(region)
    rows, columns = (n * TILE for n in blocks.of(operand.kind, operand.depth))
    found = []
    for n in range(1 if blocks.once(operand.kind) else blocks.count):
        down = n // blocks.across * rows if operand.kind.has_rows else 0
        right = n % blocks.across * columns if operand.kind.has_columns else 0
        found.append(whole[down : down + rows, right : right + columns])
    return found


def _assembled(made: Sequence[Array], region: Region) -> Array:
    """A result from its blocks."""
    across = blocks_of(region).across
    return np.vstack([np.hstack(made[n : n + across]) for n in range(0, len(made), across)])


def _given(value: Array, operand: Operand, region: Region, core: tuple[int, int]) -> Array:
    """A tensor as the kernel finds it: the core's shard, or all of it in whole tiles."""
    if operand.resident:
        return _of_core(value, operand, region, core)
    rows, columns = (n * TILE for n in operand.tiles)
    whole = np.full((rows, columns), np.nan, np.float32)
    whole[: value.shape[0], : value.shape[1]] = value
    return whole


def _triple(
    stepwise: Array, exact: Array, got: Array, operand: Operand, region: Region, core: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """What a result should be, op by op and exactly, and what it is, as the kernel leaves it."""
    rows, columns = _part(region, core)
    if operand.resident:
        return stepwise[rows, columns], exact[rows, columns], got
    columns = columns if operand.kind is Kind.FULL else slice(0, 1)
    expected = [np.zeros(exact.shape, np.float32) for _ in range(2)]
    for whole, part in zip(expected, (stepwise, exact), strict=True):
        whole[rows, columns] = part[rows, columns]
    return expected[0], expected[1], got[:, : exact.shape[1]]
