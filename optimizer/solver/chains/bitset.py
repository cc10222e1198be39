"""Sets of config indices as Python integers: bit i stands for config i.

Python integers have no fixed width, so no config is ever cut off. (tt-mlir's ShardSolver uses
`std::bitset<512>` and ignores every config beyond the 512th.)
"""

from __future__ import annotations

from collections.abc import Iterator

ALL = -1
"""Every config of whatever op: in two's complement `ALL & mask == mask`."""


def full_mask(size: int) -> int:
    """The set {0, ..., size - 1}."""
    return (1 << size) - 1


def indices_of(mask: int) -> Iterator[int]:
    """Members of a finite set in ascending order; ValueError for an infinite (negative) one."""
    if mask < 0:
        raise ValueError("an unbounded set cannot be listed")
    # Rendering the bits once is linear in the width; clearing the lowest bit repeatedly is quadratic.
    position = 0
    bits = format(mask, "b")[::-1]
    while (position := bits.find("1", position)) >= 0:
        yield position
        position += 1


def contains(mask: int, index: int) -> bool:
    return (mask >> index) & 1 == 1
