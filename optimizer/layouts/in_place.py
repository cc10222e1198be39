"""Ops that can write their result into an operand, and the configs that make them do so."""

from __future__ import annotations

from dataclasses import replace

from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.op_config import InPlaceConfig, LayerNormShardedMultiCoreProgramConfig, OpConfig


def writable_operands(op: Op) -> tuple[int, ...]:
    """Positions of the operands that the op can write its result into, provided that they are laid out like it.

    An operand that is read twice is none: what is read later may have been written over.
    """
    row = opdef(op.op)
    positions = range(len(op.inputs)) if row.in_place else (0,) if row.config is ConfigFamily.NORM else ()
    return tuple(k for k in positions if op.inputs.count(op.inputs[k]) == 1)


def in_place_config(op: Op, config: OpConfig | None, position: int) -> OpConfig | None:
    """The config for the same run of the op, but into an operand; None if there is none."""
    row = opdef(op.op)
    if isinstance(config, LayerNormShardedMultiCoreProgramConfig):
        return replace(config, inplace=True) if row.config is ConfigFamily.NORM and position == 0 else None
    return InPlaceConfig(position) if row.in_place and config is None else None
