"""Passes over the kernel IR: one file each, whose function takes a program and gives the rewritten one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from optimizer.kernels.tensix.dialect import COMPUTE
from optimizer.kernels.tensix.ir import Op, rewrite


@dataclass(frozen=True)
class Pass:
    """A rewrite of a program (`ttl.program`)."""

    name: str
    """As `--print-after` takes it."""
    apply: Callable[[Op], Op]


def rewrite_bodies(program: Op, change: Callable[[tuple[Op, ...]], tuple[Op, ...]]) -> Op:
    """The program with the ops of every compute thread, loop and condition changed as a whole, inner ones first."""

    def changed(op: Op) -> tuple[Op, ...]:
        return (op.with_body(change(op.body.ops)),) if op.name in (COMPUTE, "ttl.for", "ttl.if") else (op,)

    return rewrite(program, changed)[0]
