"""Kernels of regions executed on this machine, against the interpreter of the TTNN vocabulary on whole tensors.

The C++ is the DST interpreter bit for bit; the interpreter is as near to the ops one by one in float64 as roundings
after any of the kernel's ops leave it (`kernels.tensix.error_bound`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from interpreter import evaluate
from numpy.typing import NDArray

from optimizer.device import DeviceSpec
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.placement import Home, Kind, Operand
from optimizer.fusion.regions import Region, blocks_of
from optimizer.ir.vocabulary import COPY
from optimizer.kernels.tensix.arguments import NO_ARGUMENTS, Place, cores_of
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.executor.execute import Execution, compiled
from optimizer.kernels.tensix.index_expr import const
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.rounding import rounded
from optimizer.kernels.tensix.types import TILE
from optimizer.kernels.tensix.witness.error_bound import EVALUATION, FLOAT64, Bounded, bounds
from optimizer.kernels.tensix.witness.interpreter import run_blocks
from optimizer.kernels.tensix.witness.whole_tensors import differing
from optimizer.layouts.memory_config import TensorMemoryLayout

Array = NDArray[np.float32]
Exact = NDArray[np.float64]


BOARD = DeviceSpec.preset("n150")


@dataclass(frozen=True)
class RegionRun:
    """One core's run."""

    elements: int
    mismatches: int
    """Elements further from the exact value than roundings explain, and of `run_region` also those in which the C++
    is not, bit for bit, the interpreter."""
    unlimited: int
    """Elements that roundings may throw anywhere: next to a pole or a jump."""
    sharpness: float
    """Median of the error bound, relative to the value."""
    difference: float
    """Largest difference from the exact value, relative to the larger of value and 1."""


POSITIVE, SIGNED = (0.25, 1.5), (-1.5, 1.5)
"""Ranges of operands: the first gives logarithms and roots, the second takes functions through all their branches."""


def interpret_region(
    region: Region, core: tuple[int, int] = (0, 0), seed: int = 0, between: tuple[float, float] = POSITIVE
) -> RegionRun:
    """The region's compute thread on numpy: its results against the ops one by one, in float64 on whole tensors."""
    given, exact = _values(region, seed, between)
    return _compared(_interpreted(region, core, given), _near(region, core, given), _parts(region, core, exact))


def shrunk(region: Region, grid: tuple[int, int], shard: tuple[int, int]) -> Region:
    """The same computation on a smaller frame: `grid` shards of `shard` tiles; layouts keep their places.

    For execution on this machine. Both are cut down to what the region has; rows stay whole where ops need them. A
    small grid has two cores to a row where the layout leaves that open.
    """
    home, spec = region.home, region.home.layout.shard_spec
    assert spec is not None
    shard = (min(shard[0], home.shard[0]), min(shard[1], home.shard[1]))
    grid = (min(grid[0], home.grid[0]), min(grid[1], home.grid[1]))
    frame = (grid[0] * shard[0], grid[1] * shard[1])
    small = replace(spec, grid_yx=grid, shape=(shard[0] * TILE, shard[1] * TILE))
    core_map = home.core_map
    if core_map is not None:
        block = core_map.memory_layout is TensorMemoryLayout.BLOCK_SHARDED
        core_map = replace(core_map, width=grid[1] if block else min(2, max(grid)))
    layout = replace(home.layout, memory=replace(home.layout.memory, shard_spec=small))
    return replace(
        region,
        shape=(frame[0] * TILE, frame[1] * TILE),
        home=Home(layout, frame, shard, core_map),
        inputs=tuple(replace(o, tiles=o.kind.tiles(*frame, o.depth)) for o in region.inputs),
        outputs=tuple(replace(o, tiles=o.kind.tiles(*frame, o.depth)) for o in region.outputs),
    )


def executed(program: Op, tensors: Mapping[str, Array], cores: Sequence[Place]) -> Execution:
    """The C++ of a lowered program under g++, on these cores at once."""
    with compiled(program, emit_program(program)) as run:
        return run(tensors, cores, NO_ARGUMENTS)


def run_region(
    region: Region, core: tuple[int, int], seed: int = 0, between: tuple[float, float] = POSITIVE
) -> RegionRun:
    """The region's kernels on the core at (x, y): as `interpret_region`, and the C++ is the interpreter bit for bit.

    Elements that an operand does not have (the rest of the tiles of a row or a column) are NaN, which would show.
    What is written elsewhere than in the core's part counts as a mismatch.
    """
    given, exact = _values(region, seed, between)
    program = lowered(program_of(region), BOARD)
    cores = cores_of(program) if region.scheme.multicast else (core,)
    tensors = {f"x{k}": _on(cores, given[o.value], o, region) for k, o in enumerate(region.inputs)}
    run = executed(program, tensors, cores)
    interpreted = _interpreted(region, core, given)
    found = _compared(interpreted, _near(region, core, given), _parts(region, core, exact))
    differ = 0
    for k, (operand, made) in enumerate(zip(region.outputs, interpreted, strict=True)):
        whole, found_there = _placed(made, operand, region, core), run.tensors[f"y{k}"]
        if operand.resident:
            rows = len(found_there) // len(cores)
            found_there = found_there[cores.index(core) * rows :][:rows]
        elif len(cores) > 1:  # the other cores wrote theirs
            down, right = _part(region, core)
            there = (down, right if operand.kind is Kind.FULL else slice(0, 1))
            whole, found_there = whole[there], found_there[there]
        differ += differing(whole, found_there[:, : whole.shape[1]])
    return replace(found, mismatches=found.mismatches + differ)


def _values(region: Region, seed: int, between: tuple[float, float]) -> tuple[dict[str, Array], dict[str, Exact]]:
    """Random operands as the region's tensors hold them, and what the ops make of them without rounding.

    Matrices on the right have entries around 0, as weights do. Positive ones would make rows whose elements are nearly
    equal, and their norm is ill-conditioned: the variance is then within its own error, and the bound is infinite. They
    are small, so that products are about as large as other operands.
    """
    generator = np.random.default_rng(seed)
    given: dict[str, Array] = {}
    for operand in region.inputs:
        shape = _elements(operand, region)
        made = generator.uniform(*between, shape)
        if operand.kind is Kind.RIGHT:
            made = generator.uniform(-1.0, 1.0, shape) / np.sqrt(shape[0])
        given[operand.value] = rounded(made.astype(np.float32), operand.dtype)
    exact: dict[str, Exact] = {name: values.astype(np.float64) for name, values in given.items()}
    for op in region.ops:
        alike = op.with_attrs(dim=-1) if "dim" in op.attrs else op  # operands have rank 2 here
        operands = [exact[v] for v in op.inputs]
        results = operands[:1] if op.op == COPY else evaluate(alike, operands)
        exact[op.outputs[0]] = np.asarray(results[0], np.float64)
    return given, exact


def _interpreted(region: Region, core: tuple[int, int], given: Mapping[str, Array]) -> list[Array]:
    """The core's part of every result, from the interpreter of DST slots."""
    stages: dict[str, Op] = {}
    lower(program_of(region), KernelOptions(), stages.__setitem__)
    made = run_blocks(stages["insert-inits"], _given_blocks(region, core, given))
    return [_assembled(made[f"y{k}_cb"], region)[:, : _width(o, region)] for k, o in enumerate(region.outputs)]


def _near(
    region: Region, core: tuple[int, int], given: Mapping[str, Array], sum_unit: float = TILE * FLOAT64
) -> list[Exact]:
    """How far from its exact value every element of the core's part of every result may be."""
    made = bounds(program_of(region), _given_blocks(region, core, given), sum_unit)
    return [
        _assembled([block.error for block in made[f"y{k}_cb"]], region)[:, : _width(o, region)]
        for k, o in enumerate(region.outputs)
    ]


def _given_blocks(region: Region, core: tuple[int, int], given: Mapping[str, Array]) -> dict[str, list[Array]]:
    return {f"x{k}_cb": _blocks(given[o.value], o, region, core) for k, o in enumerate(region.inputs)}


def _parts(region: Region, core: tuple[int, int], exact: Mapping[str, Exact]) -> list[Exact]:
    rows, columns = _part(region, core)
    return [exact[o.value][rows, columns if o.kind is Kind.FULL else slice(0, 1)] for o in region.outputs]


def _width(operand: Operand, region: Region) -> int:
    """Columns of the core's part of a result that are elements of it."""
    return region.home.shard[1] * TILE if operand.kind is Kind.FULL else 1


def _compared(got: list[Array], errors: list[Exact], exact: list[Exact]) -> RegionRun:
    """What a fused kernel may hold after any roundings, of the results of one core."""
    found, allowed, wanted = (np.concatenate([x.reshape(-1) for x in each]) for each in (got, errors, exact))
    largest = np.maximum(np.abs(wanted), 1.0)
    near = Bounded(wanted, allowed + EVALUATION * largest).allows(found)
    limited = np.isfinite(allowed) & np.isfinite(wanted) & (wanted != 0)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(found - wanted) / largest
    return RegionRun(
        elements=found.size,
        mismatches=int((~near).sum()),
        unlimited=int((np.isinf(allowed) & np.isfinite(wanted)).sum()),
        sharpness=float(np.median(allowed[limited] / np.abs(wanted[limited]))) if limited.any() else 0.0,
        difference=float(np.max(gaps[np.isfinite(gaps)], initial=0.0)),
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
    k_block = region.scheme.k_block if operand.depth else 0
    rows, columns = (n * TILE for n in blocks.of(operand.kind, k_block or operand.depth))
    found = []
    if k_block:
        step = k_block * TILE
        at = range(0, operand.depth * TILE, step)
        return [whole[:, n : n + step] if operand.kind is Kind.LEFT else whole[n : n + step] for n in at]
    for n in range(1 if blocks.once(operand.kind) else blocks.count):
        down = n // blocks.across * rows if operand.kind.has_rows else 0
        right = n % blocks.across * columns if operand.kind.has_columns else 0
        found.append(whole[down : down + rows, right : right + columns])
    return found


def _assembled(made: Sequence[NDArray[Any]], region: Region) -> NDArray[Any]:
    """A result from its blocks."""
    across = blocks_of(region).across
    return np.vstack([np.hstack(made[n : n + across]) for n in range(0, len(made), across)])


def _on(cores: Sequence[tuple[int, int]], value: Array, operand: Operand, region: Region) -> Array:
    """A tensor as the kernel finds it on these cores: their shards one below the other, or all of it."""
    found = [_given(value, operand, region, core) for core in (cores if operand.resident else cores[:1])]
    return np.vstack(found)


def _given(value: Array, operand: Operand, region: Region, core: tuple[int, int]) -> Array:
    """A tensor as the kernel finds it: the core's shard, or all of it in whole tiles."""
    if operand.resident:
        return _of_core(value, operand, region, core)
    rows, columns = (n * TILE for n in operand.tiles)
    whole = np.full((rows, columns), np.nan, np.float32)
    whole[: value.shape[0], : value.shape[1]] = value
    return whole


def _placed(made: Array, operand: Operand, region: Region, core: tuple[int, int]) -> Array:
    """The core's part of a result as the kernel leaves it: the shard, or within a tensor of zeros."""
    if operand.resident:
        return made
    rows, columns = _part(region, core)
    whole = np.zeros((operand.tiles[0] * TILE, operand.tiles[1] * TILE), np.float32)
    whole[rows, columns if operand.kind is Kind.FULL else slice(0, 1)] = made
    return whole[:, : whole.shape[1] if operand.kind is Kind.FULL else 1]
