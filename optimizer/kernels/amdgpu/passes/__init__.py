"""Passes over kernel programs: one file each, whose function takes a program and gives the rewritten one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.kernels.amdgpu.ir import Program


@dataclass(frozen=True)
class Pass:
    """A rewrite of a program."""

    name: str
    """As logs and observers call it."""
    apply: Callable[[Program], Program]
