"""Tensors of kernels in Python, and places in them: `x[row, column]`, `x[0:2, :]`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from optimizer.errors import GraphError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.ir import Value


@dataclass(frozen=True)
class Tensor:
    """An argument of a kernel: tiles per dimension and element type."""

    shape: tuple[int, int]
    dtype: DType = DType.BF16
    value: Value | None = None

    def __getitem__(self, index: tuple[Any, Any]) -> TensorSlice:
        """The place of a block: row and column of its first tile, or slices of whole numbers that it fills."""
        places, sizes = zip(*map(_place, index, self.shape), strict=True)
        return TensorSlice(self, places[0], places[1], sizes)


def _place(part: Any, size: int) -> tuple[Any, int | None]:
    """First tile of a slice or a number, and how many tiles are meant, if that is said."""
    if not isinstance(part, slice):
        return part, None
    whole = range(size)[part]
    if part.step not in (None, 1) or not whole or (part.stop or 0) > size:
        raise GraphError(f"tiles {part.start} to {part.stop} in steps of {part.step} are no part of {size}")
    return whole.start, len(whole)


@dataclass(frozen=True)
class TensorSlice:
    """A place in a tensor, for `copy`; `sizes` are the tiles that its block has, where they are said."""

    tensor: Tensor
    row: Any
    column: Any
    sizes: tuple[int | None, ...] = (None, None)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.row, self.column))

    def check(self, shape: tuple[int, int]) -> None:
        """GraphError if a block of this shape has other tiles."""
        if any(size not in (None, tiles) for size, tiles in zip(self.sizes, shape, strict=True)):
            said = " x ".join("any" if size is None else str(size) for size in self.sizes)
            raise GraphError(f"a place of {said} tiles and a block of {shape[0]} x {shape[1]}", node="copy")
