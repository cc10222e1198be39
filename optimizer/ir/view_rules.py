"""When the result of an op shares its operand's buffer: rules of the vocabulary on attributes and shapes.

A view rule is asked about tiles, `(attributes, operand's shape, result's shape)`. A rule of `returns_operand` is asked
where the shape stays, `(attributes, shape, whether in tiles)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Shape = tuple[int, ...]
Attrs = Mapping[str, Any]


def reshape_is_view(attrs: Attrs, x: Shape, y: Shape) -> bool:
    """tt-mlir #9054: last dim equal and, tiled, second-last equal or both multiples of 32; a number is a row of one."""
    x, y = x or (1,), y or (1,)
    if x[-1] != y[-1]:
        return False
    a, b = (x[-2] if len(x) > 1 else 1), (y[-2] if len(y) > 1 else 1)
    return a == b or (a % 32 == 0 and b % 32 == 0)


def permute_is_view(attrs: Attrs, x: Shape, y: Shape) -> bool:
    """Only size-1 dims move, not the last two, and the shape stays: TTNN 0.81.1 copies into any other shape."""
    dims = [d % len(x) for d in attrs["dims"]]
    if x != y or dims[-2:] != list(range(len(x)))[-2:]:
        return False
    kept = [d for d in dims if x[d] != 1]
    return kept == sorted(kept)


def stays(attrs: Attrs, x: Shape, y: Shape) -> bool:
    """The op works on its operand's buffer."""
    return True


def repeat_is_view(attrs: Attrs, x: Shape, y: Shape) -> bool:
    return x == y


def pad_is_view(attrs: Attrs, x: Shape, y: Shape) -> bool:
    """Padding that stays inside the tiles moves nothing (tt-metal 0.81.1 returns the operand's own buffer)."""
    return x[:-2] == y[:-2] and all(-(-a // 32) == -(-b // 32) for a, b in zip(x[-2:], y[-2:], strict=True))


def whenever_alike(attrs: Attrs, shape: Shape, tiled: bool) -> bool:
    """TTNN hands back the operand wherever there is nothing to do (measured on mock devices)."""
    return True


def permute_keeps_order(attrs: Attrs, shape: Shape, tiled: bool) -> bool:
    """TTNN hands back the operand where only dims of size 1 change places (measured on mock devices)."""
    return _keeps_order([d % len(shape) for d in attrs["dims"]], shape, tiled)


def transpose_keeps_order(attrs: Attrs, shape: Shape, tiled: bool) -> bool:
    """As `permute_keeps_order`, for the two dims that a transpose swaps."""
    order = list(range(len(shape)))
    one, other = (attrs[name] % len(shape) for name in ("dim0", "dim1"))
    order[one], order[other] = order[other], order[one]
    return _keeps_order(order, shape, tiled)


def _keeps_order(order: list[int], shape: Shape, tiled: bool) -> bool:
    """Whether the dims larger than 1 stay in their order, and those of tiles in place: else elements move."""
    kept = [d for d in order if shape[d] != 1]
    return kept == sorted(kept) and not (tiled and order[-2:] != list(range(len(shape)))[-2:])
