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
from optimizer.kernels.tensix.index_expr import IndexExpr, const, dim, linear

DEFAULT_DIMS = 2
HARDWARE_RANK = 2
"""Cores of a Tensix grid have two coordinates."""


def grid_size(grid: Sequence[int], dims: int = DEFAULT_DIMS) -> tuple[int, ...]:
    """Sizes of the grid seen with so many dimensions."""
    _check(dims)
    if dims < len(grid):
        return (*grid[: dims - 1], prod(grid[dims - 1 :]))
    return (*grid, *(1,) * (dims - len(grid)))


def fold(grid: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes of the dimensions that are along the columns of cores, and of those that are along the rows.

    Grids of more than two dimensions are cut where the cores come nearest to a square, of equal cuts at the first.
    """
    if len(grid) <= HARDWARE_RANK:
        return tuple(grid[:1]), tuple(grid[1:])
    cuts = range(1, len(grid))
    at = min(cuts, key=lambda n: max(prod(grid[:n]), prod(grid[n:])))
    return tuple(grid[:at]), tuple(grid[at:])


def hardware_grid(grid: Sequence[int]) -> tuple[int, int]:
    """Columns and rows of cores that a grid takes."""
    columns, rows = fold(grid)
    return prod(columns), prod(rows)


def place(grid: Sequence[int], coordinates: Sequence[int]) -> tuple[int, int]:
    """Column and row of the core at these coordinates of a grid."""
    columns, rows = fold(grid)
    x = linear([const(n) for n in coordinates[: len(columns)]], columns)
    y = linear([const(n) for n in coordinates[len(columns) :]], rows)
    return x.evaluate(()), y.evaluate(())


def unfold(grid: Sequence[int]) -> tuple[IndexExpr, ...]:
    """A core's coordinates in a grid, from its column (d0) and row (d1)."""
    columns, rows = fold(grid)
    return (*_digits(dim(0), columns), *_digits(dim(1), rows))


def _digits(number: IndexExpr, sizes: Sequence[int]) -> tuple[IndexExpr, ...]:
    """Digits of a number, each below its size, the last one first to change."""
    found: list[IndexExpr] = []
    for n, size in enumerate(sizes):
        digit = number // prod(sizes[n + 1 :])
        found.append(digit % size if n else digit)
    return tuple(found)


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
