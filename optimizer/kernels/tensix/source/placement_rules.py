"""Where a program's tensors and circular buffers lie on its grid: tiles per core, pages, cores of a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.errors import StateError
from optimizer.kernels.tensix.ir import Attr, Op, Value, walk
from optimizer.kernels.tensix.types import CircularBufferType, TensorType

_CORNERS = 4
"""Numbers of a rectangle of cores: first column and row, last column and row."""


def block_factors(op: Op, program: Op) -> tuple[int, int]:
    """Rows and columns of tiles per core that a `ttl.grid_slice` is about: its own, or the program's for its tensor.

    StateError if neither says them.
    """
    if op.has_attr("block_factors"):
        rows, columns = op.integers("block_factors")
        return rows, columns
    names = [v.name for v in program.body.args]
    given = program.attr("block_factors", ())
    if not isinstance(given, tuple) or not given:
        raise StateError("ttl.grid_slice lacks attribute 'block_factors', and so does the program")
    rows, columns = _pair(given[names.index(op.operands[0].name)])
    return rows, columns


def placement_errors(program: Op) -> Iterator[str]:
    """What contradicts the grid or the tiles."""
    grid = dict(program.attrs).get("grid")
    given = dict(program.attrs).get("block_factors")
    if given is not None:
        yield from _factor_errors(given, program.body.args)
    for op in walk(program):
        if op.name == "ttl.grid_slice":
            yield from _slice_errors(op, program, grid)
        elif op.name == "ttl.bind_cb" and op.results and isinstance(op.result.type, CircularBufferType):
            yield from _buffer_errors(op.result, op.result.type, dict(op.attrs), grid)


def _factor_errors(given: Attr, tensors: Sequence[Value]) -> Iterator[str]:
    pairs = given if isinstance(given, tuple) else ()
    if not pairs or not all(len(_pair(p)) == 2 for p in pairs):
        yield "attribute 'block_factors' is rows and columns of tiles for each tensor: [[1, 2], [1, 2]]"
    elif len(pairs) != len(tensors):
        yield f"attribute 'block_factors' is of {len(pairs)} tensors, the program has {len(tensors)}"


def _pair(value: Attr) -> tuple[int, ...]:
    """Two whole numbers of at least 1; nothing for anything else."""
    items = value if isinstance(value, tuple) else ()
    found = tuple(n for n in items if isinstance(n, int) and not isinstance(n, bool) and n >= 1)
    return found if len(found) == len(items) == 2 else ()


def _slice_errors(op: Op, program: Op, grid: Attr | None) -> Iterator[str]:
    """Tiles that a core would take beyond the tensor."""
    own = op.attr("block_factors", ()) if op.has_attr("block_factors") else None
    if own is not None and not _pair(own):
        yield "attribute 'block_factors' is rows and columns of tiles"
        return
    if own is None and not program.has_attr("block_factors"):
        yield "a ttl.grid_slice lacks attribute 'block_factors', and so does the program"
        return
    tensor = op.operands[0].type if op.operands else None
    if not isinstance(tensor, TensorType) or not isinstance(grid, tuple) or len(grid) > 2:
        return
    across, down = (*(n for n in grid if isinstance(n, int)), 1)[:2]
    rows, columns = block_factors(op, program)
    if rows * down > tensor.shape[0] or columns * across > tensor.shape[1]:
        yield (
            f"{op.operands[0]} has {tensor.shape[0]} x {tensor.shape[1]} tiles, a grid of {across} x {down} cores with "
            f"{rows} x {columns} tiles each takes {rows * down} x {columns * across}"
        )


def _buffer_errors(cb: Value, type_: CircularBufferType, attrs: dict[str, Attr], grid: Attr | None) -> Iterator[str]:
    page = attrs.get("page_size", type_.dtype.tile_bytes)
    if page != type_.dtype.tile_bytes:
        yield (
            f"pages of {cb} have {page} bytes, a tile of {type_.dtype.value} has {type_.dtype.tile_bytes}: unpacker "
            "and packer find tile n at n pages, so a page is a tile"
        )
    ranges = attrs.get("core_ranges")
    if ranges is None or not isinstance(grid, tuple):
        return
    rectangles = [r for r in ranges if isinstance(r, tuple) and len(r) == _CORNERS] if isinstance(ranges, tuple) else []
    if not rectangles or len(rectangles) != len(ranges if isinstance(ranges, tuple) else ()):
        yield f"core_ranges of {cb} are rectangles of cores, [first x, first y, last x, last y] each"
        return
    across, down = (*(n for n in grid if isinstance(n, int)), 1)[:2]
    missing = [(x, y) for y in range(down) for x in range(across) if not any(_holds(r, x, y) for r in rectangles)]
    if missing:
        yield (
            f"core_ranges of {cb} leave out core {missing[0]}: the threads of all {across} x {down} cores are the same "
            "and use it; a smaller grid leaves cores out"
        )


def _holds(rectangle: tuple[Attr, ...], x: int, y: int) -> bool:
    numbers = [n for n in rectangle if isinstance(n, int)]
    if len(numbers) != _CORNERS:
        return False
    x0, y0, x1, y1 = numbers
    return x0 <= x <= x1 and y0 <= y <= y1
