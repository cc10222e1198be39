"""Literal constants as first operands, where the short encodings of vector instructions have room for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.validate import constant_problem

_REVERSED: Mapping[str, str] = MappingProxyType({
    "v_sub_u32": "v_subrev_u32", "v_subrev_u32": "v_sub_u32", "v_sub_f32": "v_subrev_f32",
    "v_subrev_f32": "v_sub_f32", "v_sub_f16": "v_subrev_f16", "v_subrev_f16": "v_sub_f16",
})  # fmt: skip
"""The same instruction with its operands the other way round."""


def commute_literals(program: Program) -> Program:
    """Only what cannot be encoded otherwise, and can be once the first two operands are swapped."""
    return program.with_body(tuple(_commuted(item) for item in program.body))


def _commuted(item: Item) -> Item:
    if not isinstance(item, Instruction) or not item.name.startswith("v_") or len(item.uses) < 2 or item.modifiers:
        return item
    known = opcode(item.name)
    name = item.name if known.commutative else _REVERSED.get(item.name)
    if name is None or not known.literal_uses or constant_problem(known, item) is None:
        return item
    first, second, *rest = item.uses
    swapped = replace(item, name=name, uses=(second, first, *rest))
    return swapped if constant_problem(opcode(name), swapped) is None else item
