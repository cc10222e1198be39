"""Words behind the operands of an instruction: which ones it may have, and what they mean to the passes.

    sc0, sc1, nt                    memory: which caches keep the line ("sc0" of an atomic would return the old value)
    lds                             loads into LDS, whose opcodes here end in `_lds`
    row_shr:1, quad_perm:[0,0,2,2]  VOP1 and VOP2: the first source comes from another lane (DPP); with row_mask,
                                    bank_mask and bound_ctrl:0
    clamp                           results of floating-point instructions to 0..1, of VOP2 also to the integer's range;
                                    takes the long encoding

Everything else (op_sel, SDWA, ...) is refused: what it does to registers, literals and wait states is not known
here. Source: "AMD Instinct MI300 Instruction Set Architecture", sections on DPP and on memory scopes; llvm-mc.
"""

from __future__ import annotations

import re

from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.opcodes import Category, Opcode
from optimizer.kernels.amdgpu.operands import VCC, registers

_CACHE = ("sc0", "sc1", "nt")
_MOVEMENT = re.compile(
    r"quad_perm:\[[0-3],[0-3],[0-3],[0-3]\]|row_(?:shl|shr|ror):(?:[1-9]|1[0-5])|row_newbcast:(?:\d|1[0-5])"
    r"|row_bcast:(?:15|31)|row_mirror|row_half_mirror",
    re.ASCII,
)
_MASK = re.compile(r"(?:row|bank)_mask:(?:0x[0-9a-f]|\d|1[0-5])", re.ASCII)
_BOUND = re.compile(r"bound_ctrl:[01]")
_FULL = re.compile(r"(?:row|bank)_mask:(?:0xf|15)")
_DPP_NAMES = frozenset((
    "quad_perm", "row_shl", "row_shr", "row_ror", "row_newbcast", "row_bcast", "row_mirror", "row_half_mirror",
    "row_mask", "bank_mask", "bound_ctrl",
))  # fmt: skip
_EXAMPLES = ("row_shr:1", "quad_perm:[0,1,2,3]", "row_mask:0xf", "bank_mask:0xf", "bound_ctrl:0")
CLAMP = "clamp"
_NO_DPP = ("v_readfirstlane_b32", "v_accvgpr_mov_b32")


def check_modifiers(known: Opcode, instruction: Instruction, place: str) -> None:
    """OperandError for a modifier that the instruction cannot have."""
    words = instruction.modifiers
    if not words:
        return
    names = [word.partition(":")[0] for word in words]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise OperandError(f"modifier '{twice[0]}' of {known.name} is given twice", node=place)
    if known.format in ("VOP1", "VOP2") and any(name in names for name in _DPP_NAMES):
        _check_dpp(known, instruction, place)
        return
    allowed = _allowed(known)
    if wrong := [word for word in words if word not in allowed]:
        raise OperandError(f"{known.name} cannot have '{wrong[0]}'", node=place, alternatives=allowed)


def _allowed(known: Opcode) -> tuple[str, ...]:
    """Modifiers other than those of DPP."""
    if known.category is Category.VMEM:
        cache = _CACHE[1:] if "atomic" in known.name else _CACHE
        return (*cache, "lds") if known.name.endswith("_lds") else cache
    clamps = known.format == "VOP2" or known.name.endswith(("_f32", "_f16"))
    return (CLAMP,) if clamps and known.format in ("VOP1", "VOP2", "VOP3", "VOP3P") else ()


def _check_dpp(known: Opcode, instruction: Instruction, place: str) -> None:
    wrong = [w for w in instruction.modifiers if not any(p.fullmatch(w) for p in (_MOVEMENT, _MASK, _BOUND))]
    if wrong or len([w for w in instruction.modifiers if _MOVEMENT.fullmatch(w)]) != 1:
        said = f"'{wrong[0]}' is no part of reading other lanes" if wrong else "one movement between lanes is due"
        raise OperandError(f"{known.name}: {said}", node=place, alternatives=_EXAMPLES)
    operands = (*instruction.defs, *instruction.uses)
    vectors = all(o == VCC or [r.file for r in registers(o)] == ["v"] for o in operands)
    if not vectors or known.name in _NO_DPP:
        raise OperandError(f"{known.name} between lanes takes single VGPRs (masks: vcc) only", node=place)


def is_dpp(instruction: Instruction) -> bool:
    """Whether the first source comes from other lanes."""
    return any(map(_MOVEMENT.fullmatch, instruction.modifiers))


def keeps_lanes(instruction: Instruction) -> bool:
    """Whether active lanes may keep what the destination held: their source is out of bounds or masked."""
    masked = any(_MASK.fullmatch(w) and not _FULL.fullmatch(w) for w in instruction.modifiers)
    bounded = any(map(_BOUND.fullmatch, instruction.modifiers))
    return is_dpp(instruction) and (masked or not bounded)
