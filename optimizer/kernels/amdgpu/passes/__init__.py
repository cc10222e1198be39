"""Passes over kernel programs, one per file: a frozen dataclass with one `apply`."""

from __future__ import annotations

from typing import Protocol

from optimizer.kernels.amdgpu.ir import Program


class Pass(Protocol):
    """A rewrite of a program."""

    @property
    def name(self) -> str:
        """As logs and observers call it."""
        ...

    def apply(self, program: Program) -> Program:
        """The rewritten program; the given one is not changed."""
        ...
