"""Checks of a program: each register defined once, where its definition dominates every use; legal operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.errors import OperandError, SsaError
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.modifiers import CLAMP, check_modifiers
from optimizer.kernels.amdgpu.opcodes import REDEFINING_PSEUDOS, Category, Opcode, OperandSpec, opcode
from optimizer.kernels.amdgpu.operands import (
    FILE_SIZES,
    Immediate,
    MemOffset,
    Operand,
    PhysicalReg,
    Register,
    RegRange,
    Special,
    VirtualReg,
    WaitCount,
    registers,
    width,
)
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources
from optimizer.regalloc.flow import defined_on_every_way

WAIT_LIMITS = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}
"""Largest values that s_waitcnt encodes."""


def validate(program: Program) -> Program:
    """The program, whose opcodes, operands, control flow, SSA and special registers are right.

    Raises the first thing wrong, by place: OpcodeError, OperandError, ControlFlowError, SsaError.
    """
    for place, instruction in program.instructions:
        check_operands(instruction, program.where(place))
    _check_special_registers(program, validate_ssa(program))
    return program


# -- SSA --------------------------------------------------------------------------------------------------------
def _overwrites_an_operand(instruction: Instruction, register: Register) -> bool:
    """Whether a result written before all is read takes a register of an operand other than the very same one."""
    if not opcode(instruction.name).early_clobber:
        return False
    return any(register in registers(use) for use in instruction.uses if use not in instruction.defs)


def validate_ssa(program: Program) -> ControlFlowGraph:
    """One definition per virtual register, and it dominates every use (in what control can reach).

    Registers of `redefinable`, and those that an instruction updates (tied operands, some pseudo-instructions), may be
    defined again; on no way to a use may all definitions be missing. Precoloured registers without any definition are
    live at entry. Returns the control flow graph. SsaError, ControlFlowError, OpcodeError.
    """
    cfg = build_cfg(program)
    defs: dict[VirtualReg, list[int]] = {}
    for place, instruction in program.instructions:
        for register in dict.fromkeys(instruction.defined):
            if isinstance(register, VirtualReg):
                if register in defs and not may_redefine(program, instruction, register):
                    first = program.body[defs[register][0]]
                    assert isinstance(first, Instruction)
                    raise SsaError(
                        f"{register} is defined by {first.name} at {program.spot(defs[register][0])} and again by "
                        f"{instruction.name}",
                        node=program.where(place),
                        alternatives=("a new register", "naming it in `redefinable`"),
                    )
                if _overwrites_an_operand(instruction, register):
                    raise SsaError(
                        f"{instruction.name} reads {register}, which it defines before it has read everything",
                        node=program.where(place),
                        alternatives=("a new register",),
                    )
                defs.setdefault(register, []).append(place)
    _check_uses(program, cfg, defs)
    return cfg


def may_redefine(program: Program, instruction: Instruction, register: VirtualReg) -> bool:
    """Whether an instruction may define a register that has a definition already."""
    if register in program.redefinable or instruction.name in REDEFINING_PSEUDOS:
        return True
    known = opcode(instruction.name)
    updates = [instruction.uses[n] for n, _ in known.tied if n < len(instruction.uses)]
    if known.category is Category.MFMA and len(instruction.uses) > 2:
        updates.append(instruction.uses[2])
    return any(register in registers(use) for use in updates)


def _check_uses(program: Program, cfg: ControlFlowGraph, defs: dict[VirtualReg, list[int]]) -> None:
    given = {register for register, _ in program.precolored}
    never = {r for _, item in program.instructions for r in _virtual(item.used)} - defs.keys() - given
    bit: dict[Resource, int] = {r: 1 << n for n, r in enumerate((*sorted(defs), *sorted(never)))}
    for place, item, missing in _undefined(program, cfg, bit, lambda i: i.used, lambda i: i.defined):
        register = next(r for r in _virtual(item.used) if bit.get(r, 0) & missing)
        if register in never:
            raise SsaError(f"{register} is used, but nothing defines it", node=program.where(place))
        where = ", ".join(map(program.spot, defs[register]))
        raise SsaError(
            f"{register} is used where its definition (at {where}) does not dominate", node=program.where(place)
        )


_SPECIAL = {
    "scc": ("s_cmp_lg_u32", "s_and_b64", "another scalar instruction that sets it"),
    "vcc_lo": ("v_cmp_lt_u32 vcc", "s_mov_b64 vcc"),
    "vcc_hi": ("v_cmp_lt_u32 vcc", "s_mov_b64 vcc"),
    "m0": ("s_mov_b32 m0",),
}
"""Special registers that hold nothing at entry, and what may define them; exec is defined: the lanes that the wave has.
Source: LLVM's AMDGPU usage guide, "Initial Kernel Execution State", which names exec, flat_scratch and the registers
that the descriptor asks for, and nothing else."""


def _check_special_registers(program: Program, cfg: ControlFlowGraph) -> None:
    """SsaError names the first instruction that, on some way, reads a special register before any definition."""
    bit: dict[Resource, int] = {name: 1 << n for n, name in enumerate(_SPECIAL)}
    for place, _, missing in _undefined(program, cfg, bit, read_resources, written_resources):
        name = next(name for name in _SPECIAL if missing & bit[name])
        somewhere = any(name in written_resources(item) for _, item in program.instructions)
        said = "there is a way to it without any definition" if somewhere else "nothing defines it"
        raise SsaError(
            f"{name} is used, but {said}; it holds nothing at entry",
            node=program.where(place),
            alternatives=_SPECIAL[name],
        )


_Resources = Callable[[Instruction], Iterable[Resource]]


def _undefined(
    program: Program, cfg: ControlFlowGraph, bit: Mapping[Resource, int], read: _Resources, written: _Resources
) -> Iterator[tuple[int, Instruction, int]]:
    """Instructions that, on some way to them, read what nothing has defined, and the bits of what that is."""

    def word(found: Iterable[Resource]) -> int:
        bits = 0
        for resource in found:
            bits |= bit.get(resource, 0)
        return bits

    made = [word(r for _, item in program.at(block) for r in written(item)) for block in cfg.blocks]
    ready = defined_on_every_way(cfg.flow, made)
    for b in cfg.flow.order:
        bits = ready[b]
        for place, item in program.at(cfg.blocks[b]):
            if missing := word(read(item)) & ~bits:
                yield place, item, missing
            bits |= word(written(item))


def _virtual(found: Iterable[Register]) -> Iterator[VirtualReg]:
    return (r for r in found if isinstance(r, VirtualReg))


# -- operands -----------------------------------------------------------------------------------------------------
def check_operands(instruction: Instruction, place: str, constants: bool = True) -> None:
    """Kinds, widths, alignments, ranges and positions of an instruction's operands. OperandError, OpcodeError.

    Without `constants` a vector instruction may have its literal in a place from which `commute_literals` moves it.
    """
    known = opcode(instruction.name, place)
    if known.is_pseudo:
        return
    if len(instruction.defs) != len(known.defs):
        raise OperandError(f"{known.name} defines {len(known.defs)} operands, not {len(instruction.defs)}", node=place)
    if known.is_branch and instruction.target is None:
        raise OperandError(f"{known.name} needs a label", node=place)
    for operand, spec in zip(instruction.defs, known.defs, strict=True):
        _check_operand(known, operand, spec, place, written=True)
    _check_uses_of(known, instruction, place)
    if known.category in (Category.VALU, Category.MFMA):
        if constants:
            _check_constants(known, instruction, place)
    elif known.literal_uses:
        literals = {o.value for o in instruction.uses if isinstance(o, Immediate) and not o.is_inline()}
        if len(literals) > 1:
            raise OperandError(f"{known.name} takes one literal constant, not {len(literals)}", node=place)
    _check_matrix_classes(known, instruction, place)
    check_modifiers(known, instruction, place)


def _check_uses_of(known: Opcode, instruction: Instruction, place: str) -> None:
    uses = list(instruction.uses)
    for n, spec in enumerate(known.uses):
        if spec.kind == "w":
            _check_waits(known, uses, place)
            return
        if spec.kind == "o":
            if not (n < len(uses) and isinstance(uses[n], MemOffset)):
                uses.insert(n, MemOffset(0))
            _check_offset(known, uses[n], place)
        elif n >= len(uses):
            raise OperandError(f"{known.name} lacks operand {n} ({_KINDS[spec.kind]})", node=place)
        else:
            _check_operand(known, uses[n], spec, place)
            if spec.tied is not None and width(uses[n]) != width(instruction.defs[spec.tied]):
                raise OperandError(f"{uses[n]} is tied to {instruction.defs[spec.tied]}", node=place)
    if len(uses) > len(known.uses):
        raise OperandError(f"{known.name} takes {len(known.uses)} operands, not {len(uses)}", node=place)
    if known.format == "SMEM" and len(uses) > 1 and isinstance(uses[1], Immediate):
        _check_offset(known, MemOffset(uses[1].value), place)
    if known.format == "GLOBAL":
        base = uses[next(n for n, spec in enumerate(known.uses) if spec.kind == "b")]
        wanted = 2 if base == Special("off") else 1
        if width(uses[0]) != wanted:
            raise OperandError(f"the address of {known.name} with base {base} is {wanted} VGPRs wide", node=place)


_KINDS = {
    "v": "VGPR", "a": "AGPR", "d": "VGPR or AGPR", "s": "SGPR", "m": "vcc or an SGPR pair", "S": "SGPR or constant",
    "x": "VGPR, SGPR or constant", "c": "VGPR, AGPR or inline constant", "i": "number", "n": "VGPR or inline constant",
    "r": "SGPR or inline constant", "A": "VGPR or off", "G": "VGPR address", "b": "SGPR or off",
    "l": "SGPR or inline constant",
}  # fmt: skip
_CLASSES = {
    "v": "v", "a": "a", "d": "va", "s": "s", "m": "s", "S": "s", "x": "vs", "c": "va", "i": "", "n": "v", "r": "s",
    "A": "v", "G": "v", "b": "s", "l": "s",
}  # fmt: skip


def _check_operand(known: Opcode, operand: Operand, spec: OperandSpec, place: str, written: bool = False) -> None:
    wanted = 2 if spec.kind == "m" else spec.width
    if isinstance(operand, VirtualReg | PhysicalReg | RegRange):
        good = operand.file in _CLASSES[spec.kind]
        if spec.kind == "G":
            good = good and width(operand) in (1, 2)
        elif good and width(operand) != wanted:
            raise OperandError(f"{operand} of {known.name} is {width(operand)} registers, not {wanted}", node=place)
        if good:
            _check_alignment(operand, place)
    elif isinstance(operand, Special):
        good = operand.name == "off" if operand.width == 0 else operand.name != "scc"
        good = good and (spec.kind in "Ab" if operand.width == 0 else spec.kind in "sSxmrl" and operand.width == wanted)
    elif isinstance(operand, Immediate):
        good = not written and _immediate_fits(known, operand, spec)
    else:
        good = False
    if not good and spec.kind == "i" and isinstance(operand, Immediate):
        limit = f"{known.immediate_range[0]}..{known.immediate_range[-1]}"
        raise OperandError(f"{operand} of {known.name} is not in {limit}", node=place, limit=limit)
    if not good:
        raise OperandError(f"{operand} of {known.name} is no {_KINDS[spec.kind]}", node=place)


def _immediate_fits(known: Opcode, operand: Immediate, spec: OperandSpec) -> bool:
    if spec.kind == "i":
        return operand.value in known.immediate_range
    return spec.kind in "Sx" or (spec.kind in "cnrl" and operand.is_inline())


def _check_alignment(operand: VirtualReg | PhysicalReg | RegRange, place: str) -> None:
    """Tuples of VGPRs and AGPRs begin at even registers, of SGPRs at even ones (pairs) or multiples of four."""
    last = registers(operand)[-1]
    if isinstance(last, PhysicalReg) and last.number >= FILE_SIZES[last.file]:
        limit = FILE_SIZES[last.file]
        raise OperandError(f"gfx942 has no {last}: {limit} registers of that file", node=place, limit=limit)
    if not isinstance(operand, RegRange) or operand.count == 1:
        return
    needed = required_alignment(operand.file, operand.count)
    if isinstance(operand.base, PhysicalReg):
        if operand.base.number % needed:
            raise OperandError(f"{operand} does not begin at a multiple of {needed}", node=place, limit=needed)
    elif operand.alignment % needed:
        raise OperandError(f"{operand} needs alignment {needed}", node=place, limit=needed)


def required_alignment(file: str, count: int) -> int:
    """What gfx942 asks of the first register of a range."""
    if count == 1:
        return 1
    return 4 if file == "s" and count > 2 else 2


def _check_offset(known: Opcode, operand: Operand, place: str) -> None:
    """The assembler takes a buffer offset of 4096 without a word and encodes 0."""
    if isinstance(operand, MemOffset) and operand.value not in known.offset_range:
        low, high = known.offset_range[0], known.offset_range[-1]
        raise OperandError(
            f"offset {operand.value} of {known.name} is not in {low}..{high}", node=place, limit=f"{low}..{high}"
        )


def _check_waits(known: Opcode, uses: list[Operand], place: str) -> None:
    for operand in uses:
        if not isinstance(operand, WaitCount):
            raise OperandError(f"{operand} of {known.name} is no counter", node=place, alternatives=WAIT_LIMITS)
        if not 0 <= operand.value <= WAIT_LIMITS[operand.counter]:
            limit = WAIT_LIMITS[operand.counter]
            raise OperandError(f"{operand} is more than {limit}", node=place, limit=limit)
    if not uses:
        raise OperandError(f"{known.name} names no counter", node=place)


def _check_constants(known: Opcode, instruction: Instruction, place: str) -> None:
    """One scalar register per vector instruction; a literal only as the first operand of a short encoding."""
    problem = constant_problem(known, instruction)
    if problem is not None:
        raise OperandError(f"{known.name}: {problem}", node=place)


def constant_problem(known: Opcode, instruction: Instruction) -> str | None:
    """Why a vector instruction cannot be encoded with these constants and scalar registers; None if it can."""
    if len(instruction.uses) < len(known.uses):
        return None  # which is refused for what it lacks
    sources = [(n, o) for n, o in enumerate(instruction.uses[: len(known.uses)]) if known.uses[n].tied is None]
    scalars = {str(o) for _, o in sources if _is_scalar(o)}
    literals = [(n, o) for n, o in sources if isinstance(o, Immediate) and not o.is_inline(_bits(known, n))]
    if len(scalars) > 1:
        return f"reads {len(scalars)} scalar registers ({', '.join(sorted(scalars))}); one is the limit"
    if not literals:
        return None
    if not _has_short_encoding(known, instruction):
        return f"literal {literals[0][1]} needs the short encoding, which these operands do not have"
    if len(literals) > 1 or literals[0][0] not in known.literal_uses:
        return f"literal {literals[0][1]} may only be the first operand"
    return "a literal and a scalar register are one too many" if scalars else None


def _is_scalar(operand: Operand) -> bool:
    if isinstance(operand, Special):
        return operand.width > 0
    return bool(registers(operand)) and _first(operand).file == "s"


def _first(operand: Operand) -> Register:
    return registers(operand)[0]


def _has_short_encoding(known: Opcode, instruction: Instruction) -> bool:
    """VOP1, VOP2 or VOPC: the second source is a VGPR, masks are vcc."""
    if known.format not in ("VOP1", "VOP2", "VOPC") or CLAMP in instruction.modifiers:
        return False
    masks = [o for o, s in zip((*instruction.defs, *instruction.uses), (*known.defs, *known.uses), strict=False)
             if s.kind == "m"]  # fmt: skip
    second = instruction.uses[1] if known.format != "VOP1" else None
    in_vgpr = second is None or (bool(registers(second)) and _first(second).file == "v")
    return in_vgpr and all(mask == Special("vcc") for mask in masks)


def _bits(known: Opcode, use: int) -> int:
    if known.uses[use].width == 2 and not known.name.startswith("v_pk_"):
        return 64
    if known.category is Category.MFMA:
        return 32  # Its constant is the addend, an f32 whatever the name ends in.
    return 16 if known.name.endswith(("f16", "u16", "i16", "b16")) and "cvt_pk" not in known.name else 32


def _check_matrix_classes(known: Opcode, instruction: Instruction, place: str) -> None:
    """MFMA: result and addend are both VGPRs or both AGPRs; large ones may not overlap partly."""
    if known.category is not Category.MFMA or isinstance(instruction.uses[2], Immediate):
        return
    result, addend = registers(instruction.defs[0]), registers(instruction.uses[2])
    if result[0].file != addend[0].file:
        raise OperandError(f"{known.name}: result and addend are in different register files", node=place)
    if known.early_clobber and result != addend and set(result) & set(addend):
        raise OperandError(f"{known.name}: result and addend overlap without being the same", node=place)
