"""What a size of a tensor may be, in whatever document it stands: the one set of bounds that every reader keeps.

Work and memory of everything downstream follow from these sizes, so they are looked at before anything of that size is
made. Whole numbers of any other kind are bounded by `optimizer.process.json_document`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from optimizer.errors import LimitError, ShapeError

LARGEST_INDEX = (1 << 31) - 1
"""Of what TTNN holds in 32 bits: a size, index or step of a tensor, a stride or padding of a window."""
MAX_RANK = 8
"""Dimensions of any one tensor."""
MAX_ELEMENTS = 1 << 34
"""Elements of any one tensor, with padding that a window sees: in bf16 more than the DRAM of any board holds."""


def is_whole(value: object, low: int, high: int) -> bool:
    """Whether a value is a whole number within limits, both included; no float, no boolean."""
    return type(value) is int and low <= value <= high


def elements(shape: Iterable[int]) -> int:
    """Elements of a tensor; sizes that are negative count as none."""
    return prod(max(0, size) for size in shape)


def check_shape(
    name: str, shape: Sequence[int], max_elements: int = MAX_ELEMENTS, max_rank: int = MAX_RANK, *, empty: bool = False
) -> None:
    """ShapeError or LimitError unless a tensor may have this shape. `empty`: whether it may have no elements."""
    if any(size < (0 if empty else 1) for size in shape):
        raise ShapeError(f"'{name}' has the shape {list(shape)}, which is empty or negative", node=name)
    if len(shape) > max_rank:
        raise LimitError(f"'{name}' has rank {len(shape)}, the limit is {max_rank}", node=name, limit=max_rank)
    if prod(shape) > max_elements:
        message = f"'{name}' of shape {list(shape)} has {prod(shape)} elements, the limit is {max_elements}"
        raise LimitError(message, node=name, limit=max_elements)
