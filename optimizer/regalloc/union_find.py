"""Values that must share a register, as disjoint sets."""

from __future__ import annotations


class UnionFind:
    """Sets of numbers; the smallest member represents its set."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}

    def find(self, x: int) -> int:
        """Representative of the set of `x`, which is added if it is new."""
        root = x
        while (parent := self._parent.setdefault(root, root)) != root:
            root = parent
        while self._parent[x] != root:
            self._parent[x], x = root, self._parent[x]
        return root

    def union(self, a: int, b: int) -> int:
        """Join two sets; returns the representative."""
        low, high = sorted((self.find(a), self.find(b)))
        self._parent[high] = low
        return low

    def members(self, x: int) -> tuple[int, ...]:
        """Everything in the set of `x`, ascending."""
        root = self.find(x)
        return tuple(sorted(y for y in self._parent if self.find(y) == root))
