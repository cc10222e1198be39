"""Questions about the grid become numbers: sizes constants, coordinates index expressions of `ttl.core_coordinate`.

A grid of more than two dimensions is folded onto the columns and rows of cores (`grid.fold`), and `origin` is the core
of the chip at which the grid begins: the program's grid then is that of the cores, and pipes and rectangles of cores
name cores of the chip. `ttl.grid_slice` gives row and column of the core's first tile: `block_factors` tiles per core
and dimension, grid rows (y) along the tensor's rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.errors import OptionError
from optimizer.kernels.tensix.dialect import PIPE
from optimizer.kernels.tensix.grid import (
    DEFAULT_DIMS,
    HARDWARE_RANK,
    core,
    core_linear,
    grid_size,
    hardware_grid,
    place,
    unfold,
)
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, dim
from optimizer.kernels.tensix.ir import Names, Op, Value, attributes, rewrite
from optimizer.kernels.tensix.pipes import Pipe, pipe_of, ranges_of
from optimizer.kernels.tensix.source.placement_rules import block_factors
from optimizer.kernels.tensix.types import IndexType


def fold_grid(program: Op) -> Op:
    """All threads. OptionError if the cores of a pipe's range are no rectangle, or a slice is asked for in a grid of
    more than two dimensions."""
    grid, origin = program.integers("grid"), program.integers("origin", (0, 0))
    names = Names(program)
    folding = _Folding(grid, origin, names)

    def change(op: Op) -> tuple[Op, ...]:
        dims = op.integer("dims", DEFAULT_DIMS)
        match op.name:
            case "ttl.grid_size":
                sizes = zip(op.results, grid_size(grid, dims), strict=True)
                return tuple(Op("ttl.constant", (), (v,), attributes({"value": n})) for v, n in sizes)
            case "ttl.core":
                return folding.coordinates(op, core(grid, unfold(grid), dims))
            case "ttl.core_linear":
                return folding.coordinates(op, (core_linear(grid, unfold(grid)),))
            case "ttl.grid_slice":
                return folding.slice(op, block_factors(op, program))
            case "ttl.semaphore_set_multicast":
                ranges = folding.rectangle(Pipe((), ranges_of(op, "core_range")), op.name)
                return (op.with_attrs(core_range=ranges),)
        return (folding.pipe(op),) if op.name == PIPE else (op,)

    folded = rewrite(program, change)[0]
    return folded.with_attrs(grid=hardware_grid(grid)) if len(grid) > HARDWARE_RANK else folded


class _Folding:
    def __init__(self, grid: Sequence[int], origin: Sequence[int], names: Names) -> None:
        self._grid, self._origin, self._names = tuple(grid), tuple(origin), names

    def coordinates(self, op: Op, exprs: Sequence[IndexExpr]) -> tuple[Op, ...]:
        """Results as expressions of the core's column and row."""
        rank = min(len(self._grid), HARDWARE_RANK)
        axes = [self._names.value(IndexType(), "core") for _ in range(rank)]
        ops = [Op("ttl.core_coordinate", (), (v,), attributes({"axis": a})) for a, v in enumerate(axes)]
        from_origin = [dim(axis) + -self._origin[axis] for axis in range(rank)]
        moved = [expr.substitute(from_origin) for expr in exprs]
        return (*ops, *(_index(v, expr, axes) for v, expr in zip(op.results, moved, strict=True)))

    def slice(self, op: Op, factors: tuple[int, int]) -> tuple[Op, ...]:
        """Row and column of the core's first tile."""
        if len(self._grid) > HARDWARE_RANK:
            raise OptionError(
                f"slices have rows and columns, the grid {len(self._grid)} dimensions: ttl.core gives its coordinates",
                node=op.name,
                limit=HARDWARE_RANK,
            )
        rows, columns = factors
        axes = unfold(self._grid)
        x, y = axes if len(axes) == HARDWARE_RANK else (axes[0], axes[0] * 0)
        return self.coordinates(op, (y * rows, x * columns))

    def pipe(self, op: Op) -> Op:
        """A pipe between cores of the chip."""
        given = pipe_of(op)
        (left, _), (top, _) = self.rectangle(Pipe((), tuple((n, n + 1) for n in given.source)), op.name)
        ranges = self.rectangle(given, op.name)
        return op.without_attrs("dst_core").with_attrs(src_core=(left, top), dst_core_range=ranges)

    def rectangle(self, pipe: Pipe, name: str) -> tuple[tuple[int, int], tuple[int, int]]:
        """Columns and rows of cores, ends excluded, that a range of the grid takes."""
        cores = [place(self._grid, core) for core in pipe.cores]
        (left, right), (top, bottom) = ((min(axis), max(axis) + 1) for axis in zip(*cores, strict=True))
        if (right - left) * (bottom - top) != len(cores):
            columns, rows = hardware_grid(self._grid)
            raise OptionError(
                f"the {len(cores)} cores of {list(map(list, pipe.ranges))} are no rectangle among the {columns} x "
                f"{rows} onto which the grid {list(self._grid)} is folded: a NoC reaches rectangles, so take several",
                node=name,
            )
        x, y = self._origin
        return (left + x, right + x), (top + y, bottom + y)


def _index(result: Value, expr: IndexExpr, axes: Sequence[Value]) -> Op:
    if expr.is_const:
        return Op("ttl.constant", (), (result,), attributes({"value": expr.value}))
    return Op("ttl.index", tuple(axes), (result,), attributes({"map": IndexMap(len(axes), (expr,))}))
