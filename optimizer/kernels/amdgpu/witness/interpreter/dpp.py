"""Data-parallel primitives: which lane each lane reads, which lanes are written (CDNA3 ISA, section "DPP")."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ..errors import TextError
from .decode import Decoder
from .parse import Instruction
from .state import Array, Wave, lanes_of, mask_of

_LANE = np.arange(64)
_ROW, _IN_ROW = _LANE & ~15, _LANE & 15
CONTROLS = ("quad_perm", "row_shl", "row_shr", "row_ror", "row_mirror", "row_half_mirror", "row_bcast", "row_newbcast")
MODIFIERS = (*CONTROLS, "row_mask", "bank_mask", "bound_ctrl")


def source_lanes(instruction: Instruction) -> Array:
    """For every lane the lane it reads, -1 where that is outside the row."""
    given = [name for name in CONTROLS if name in instruction.modifiers]
    if len(given) != 1:
        raise TextError("a DPP instruction names exactly one movement", instruction.line, CONTROLS)
    name, text = given[0], instruction.modifiers[given[0]]
    if name == "quad_perm":
        order = [int(word) for word in re.findall(r"\d+", text)]
        if len(order) != 4 or max(order) > 3:
            raise TextError(f"quad_perm:{text} is not four lanes 0..3", instruction.line)
        lanes: Array = (_LANE & ~3) + np.array(order)[_LANE & 3]
        return lanes
    if name in ("row_mirror", "row_half_mirror"):
        return _LANE ^ (15 if name == "row_mirror" else 7)
    amount = int(text)
    if name == "row_bcast":
        if amount == 15:
            return np.where(_LANE >= 16, _ROW - 1, -1)
        return np.where(_LANE >= 32, np.full(64, 31), -1)
    if name == "row_newbcast":
        return _ROW + amount
    if name == "row_ror":
        return _ROW + ((_IN_ROW - amount) & 15)
    moved = _IN_ROW + amount if name == "row_shl" else _IN_ROW - amount
    return np.where((moved >= 0) & (moved < 16), _ROW + moved, -1)


def keeps_lanes(instruction: Instruction, decoder: Decoder) -> bool:
    """Whether the destination may keep what it held in lanes that are on."""
    masks = (
        decoder.integer(instruction, instruction.modifiers.get(n), 15, 0, 15, n) for n in ("row_mask", "bank_mask")
    )
    return "bound_ctrl" not in instruction.modifiers or any(mask != 15 for mask in masks)


def write_lanes(instruction: Instruction, decoder: Decoder) -> Callable[[Wave], int]:
    """The lanes that a DPP instruction writes: exec, row and bank masks, and without bound_ctrl only those whose
    source lane exists and is on."""
    rows = decoder.integer(instruction, instruction.modifiers.get("row_mask"), 15, 0, 15, "row_mask")
    banks = decoder.integer(instruction, instruction.modifiers.get("bank_mask"), 15, 0, 15, "bank_mask")
    enabled = (rows >> (_LANE >> 4) & 1 & (banks >> (_LANE >> 2 & 3))).astype(np.bool_)
    lanes = source_lanes(instruction)
    bounded = "bound_ctrl" in instruction.modifiers

    def mask(wave: Wave) -> int:
        active = lanes_of(wave.exec_mask)
        usable = (lanes >= 0) & active[np.maximum(lanes, 0)]
        return mask_of(active & enabled & (usable | bounded))

    return mask
