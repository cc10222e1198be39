"""Where a plan copies values: one answer for what it takes, in time and L1, and for the graph that is written.

A result in L1 that is read from DRAM, or returned, is spilled once, right after the op that gives it. What an op reads
in a layout that nothing has yet is copied right before it, for it alone. Weights get their forms once, before the first
run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import TensorLayout
from optimizer.sharding.base import OpDecision


class Source(Enum):
    """What an op reads of an operand."""

    PRODUCED = auto()
    """The value as it came into being."""
    PREPARED = auto()
    """A form that is made once."""
    SPILLED = auto()
    """Its copy in DRAM."""
    COPIED = auto()
    """A copy for this op."""


def source_of(have: TensorLayout, wanted: TensorLayout, is_static: bool) -> Source:
    """What an op that wants an operand in one layout reads of a value that came into being in another."""
    if have == wanted:
        return Source.PRODUCED
    if is_static:
        return Source.PREPARED
    return Source.SPILLED if wanted.is_dram and have.is_l1 else Source.COPIED


def needed_in_dram(graph: Graph, schedule: Iterable[str], decisions: Mapping[str, OpDecision]) -> set[str]:
    """Values that the caller gets back or that an op does not read from L1: those made in L1 are spilled."""
    needed = set(graph.outputs)
    for op_id in schedule:
        for v, wanted in zip(graph.op(op_id).inputs, decisions[op_id].operands, strict=True):
            if not wanted.is_l1:
                needed.add(v)
    return needed
