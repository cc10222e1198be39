"""Questions about the grid become numbers: sizes constants, coordinates index expressions of `ttl.core_coordinate`.

`ttl.grid_slice` gives row and column of the core's first tile: `block_factors` tiles per core and dimension, grid rows
(y) along the tensor's rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from optimizer.errors import OptionError
from optimizer.kernels.tensix.grid import DEFAULT_DIMS, core, core_linear, grid_size
from optimizer.kernels.tensix.index_expr import IndexExpr, IndexMap, dim
from optimizer.kernels.tensix.ir import Names, Op, Value, attributes, rewrite
from optimizer.kernels.tensix.placement_rules import block_factors
from optimizer.kernels.tensix.types import IndexType

HARDWARE_RANK = 2
"""Cores of a Tensix grid have two coordinates."""


def fold_grid(program: Op) -> Op:
    """All threads. OptionError if a coordinate of a grid with more than two dimensions is asked for."""
    grid = program.integers("grid")
    names = Names(program)

    def change(op: Op) -> tuple[Op, ...]:
        dims = op.integer("dims", DEFAULT_DIMS)
        match op.name:
            case "ttl.grid_size":
                sizes = zip(op.results, grid_size(grid, dims), strict=True)
                return tuple(Op("ttl.constant", (), (v,), attributes({"value": n})) for v, n in sizes)
            case "ttl.core":
                return _coordinates(op, grid, core(grid, _axes(grid), dims), names)
            case "ttl.core_linear":
                return _coordinates(op, grid, (core_linear(grid, _axes(grid)),), names)
            case "ttl.grid_slice":
                return _slice(op, grid, block_factors(op, program), names)
        return (op,)

    return rewrite(program, change)[0]


def _axes(grid: Sequence[int]) -> tuple[IndexExpr, ...]:
    return tuple(dim(axis) for axis in range(len(grid)))


def _coordinates(op: Op, grid: Sequence[int], exprs: Sequence[IndexExpr], names: Names) -> tuple[Op, ...]:
    if len(grid) > HARDWARE_RANK:
        raise OptionError(
            f"a core has {HARDWARE_RANK} coordinates, the grid {len(grid)} dimensions",
            node=op.name,
            limit=HARDWARE_RANK,
        )
    axes = [names.value(IndexType(), "core") for _ in grid]
    ops = [Op("ttl.core_coordinate", (), (v,), attributes({"axis": a})) for a, v in enumerate(axes)]
    return (*ops, *(_index(v, expr, axes) for v, expr in zip(op.results, exprs, strict=True)))


def _index(result: Value, expr: IndexExpr, axes: Sequence[Value]) -> Op:
    if expr.is_const:
        return Op("ttl.constant", (), (result,), attributes({"value": expr.value}))
    return Op("ttl.index", tuple(axes), (result,), attributes({"map": IndexMap(len(axes), (expr,))}))


def _slice(op: Op, grid: Sequence[int], factors: tuple[int, int], names: Names) -> tuple[Op, ...]:
    rows, columns = factors
    axes = _axes(grid)
    x, y = axes if len(axes) == HARDWARE_RANK else (axes[0], axes[0] * 0)
    return _coordinates(op, grid, (y * rows, x * columns), names)
