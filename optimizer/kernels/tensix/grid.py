"""Coordinates of a core in its grid, as `ttl.core`, `ttl.grid_size` and `ttl.core_linear` give them.

`dims` below the grid's rank joins the last dimensions row by row, above it pads: coordinates with 0, sizes with 1.

    grid (8, 8)      dims 1 -> 64 cores          dims 3 -> (8, 8, 1)
    grid (8, 8, 8)   dims 2 -> (8, 64)               dims 1 -> 512: every core has a number of its own (the design
                                                     document's 64 leaves out the first dimension)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from optimizer.errors import OptionError
from optimizer.kernels.tensix.index_expr import IndexExpr, const, linear

DEFAULT_DIMS = 2


def grid_size(grid: Sequence[int], dims: int = DEFAULT_DIMS) -> tuple[int, ...]:
    """Sizes of the grid seen with so many dimensions."""
    _check(dims)
    if dims < len(grid):
        return (*grid[: dims - 1], prod(grid[dims - 1 :]))
    return (*grid, *(1,) * (dims - len(grid)))


def core(grid: Sequence[int], coordinates: Sequence[IndexExpr], dims: int = DEFAULT_DIMS) -> tuple[IndexExpr, ...]:
    """A core's coordinates seen with so many dimensions; `coordinates` has one per dimension of the grid."""
    _check(dims)
    if dims < len(grid):
        joined = linear(coordinates[dims - 1 :], grid[dims - 1 :])
        return (*coordinates[: dims - 1], joined)
    return (*coordinates, *(const(0),) * (dims - len(grid)))


def core_linear(grid: Sequence[int], coordinates: Sequence[IndexExpr]) -> IndexExpr:
    """Number of a core: `core_y * grid_x + core_x` in a grid (x, y), row by row in others."""
    if len(grid) == 2:
        x, y = coordinates
        return y * grid[0] + x
    return linear(coordinates, grid)


def _check(dims: int) -> None:
    if dims < 1:
        raise OptionError(f"a grid is seen with at least one dimension, got {dims}", node="dims", limit=1)
