"""Passes over the kernel IR, one per file: a frozen dataclass with one `apply`."""

from __future__ import annotations

from typing import Protocol

from optimizer.kernels.tensix.ir import Op


class Pass(Protocol):
    """A rewrite of a program (`ttl.program`)."""

    @property
    def name(self) -> str:
        """As `--print-after` takes it."""
        ...

    def apply(self, program: Op) -> Op:
        """The rewritten program; the given one is not changed."""
        ...
