"""Index arithmetic of a given program stays within what C++ computes: division, remainder and order know no sign there.

What an index may be follows from the grid, loops and constants; run-time arguments may be any number of 32 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from optimizer.kernels.tensix.arguments import LARGEST
from optimizer.kernels.tensix.grid import DEFAULT_DIMS, grid_size
from optimizer.kernels.tensix.index_expr import IndexExpr
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.types import IndexType

Range = tuple[int, int]
"""Least and greatest value."""
_ANY: Range = (0, LARGEST)


def index_errors(program: Op) -> Iterator[tuple[str, str]]:
    """Place and reason of every division, remainder and comparison of what may be negative."""
    yield from _errors(program, program.name, program.integers("grid"), {})


def _errors(op: Op, place: str, grid: tuple[int, ...], known: dict[str, Range]) -> Iterator[tuple[str, str]]:
    for n, inner in enumerate(op.body.ops):
        here = f"{place} / {inner.name} #{n}"
        ranges = [known.get(v.name, _ANY) for v in inner.operands]
        if inner.name == "ttl.index":
            (expr,) = inner.index_map("map").results
            yield from ((here, told) for told in _negative(expr, ranges))
        elif inner.name == "ttl.if":
            pairs = zip(ranges[::2], ranges[1::2], inner.strings("tests"), strict=True)
            for a, b, test in pairs:
                if test != "==" and min(a[0], b[0]) < 0:
                    yield here, f"compares what may be {min(a[0], b[0])}: add it on the other side instead"
        for v, found in zip(inner.results, _made(inner, grid, ranges), strict=True):
            known[v.name] = found
        for region in inner.regions:
            if inner.name == "ttl.for" and region.args:
                lower = inner.integer("lower")
                known[region.args[0].name] = lower, max(lower, inner.integer("upper", LARGEST) - 1)
            yield from _errors(inner, here, grid, known)


def _made(op: Op, grid: tuple[int, ...], ranges: Sequence[Range]) -> Iterator[Range]:
    """What each result of an op may be."""
    sizes = grid_size(grid, op.integer("dims", DEFAULT_DIMS)) if op.name in ("ttl.core", "ttl.grid_size") else ()
    for k, v in enumerate(op.results):
        if not isinstance(v.type, IndexType):
            yield _ANY
        elif op.name == "ttl.constant":
            yield op.integer("value"), op.integer("value")
        elif op.name == "ttl.index":
            yield _range(op.index_map("map").results[0], ranges)
        elif op.name == "ttl.core":
            yield 0, sizes[k] - 1
        elif op.name == "ttl.grid_size":
            yield sizes[k], sizes[k]
        else:
            yield _ANY


def _range(expr: IndexExpr, dims: Sequence[Range]) -> Range:
    match expr.kind:
        case "dim":
            return dims[expr.value]
        case "const":
            return expr.value, expr.value
    a, b = (_range(arg, dims) for arg in expr.args)
    match expr.kind:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "mul":
            ends = a[0] * b[0], a[1] * b[0]
            return min(ends), max(ends)
        case "floordiv":
            return a[0] // b[0], a[1] // b[0]
        case _:
            return 0, min(b[0] - 1, a[1]) if a[0] >= 0 else b[0] - 1


def _negative(expr: IndexExpr, dims: Sequence[Range]) -> Iterator[str]:
    """Divisions and remainders in an expression whose left side may be negative."""
    for arg in expr.args:
        yield from _negative(arg, dims)
    if expr.kind in ("floordiv", "mod"):
        least, by = _range(expr.args[0], dims)[0], expr.args[1].value
        if least < 0:
            what = "divides" if expr.kind == "floordiv" else "takes the remainder of"
            yield f"{what} what may be {least} by {by}: add a multiple of {by} first"
