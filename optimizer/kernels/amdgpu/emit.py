"""A program on physical registers as a complete source file: code, kernel descriptor, metadata.

LLVM assembles the file for amdgcn-amd-amdhsa and the ROCm runtime loads the object. Sources: LLVM's "User Guide for
AMDGPU Backend", sections "Code Object V5 Metadata" and "AMDHSA Kernel Directives".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from optimizer.kernels.amdgpu.errors import ControlFlowError, OperandError
from optimizer.kernels.amdgpu.ir import Argument, Instruction, Item, Label, Launch, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import FILE_SIZES, VirtualReg
from optimizer.kernels.amdgpu.targets import LDS_BYTES, check_opcodes, check_target
from optimizer.kernels.amdgpu.text import LABEL, instruction_text
from optimizer.kernels.amdgpu.validate import check_operands
from optimizer.process.identifiers import printable

WAVE = 64
WORKGROUP_THREADS = 1024
SIMDS = 4
VGPRS_PER_SIMD = 512
VGPR_GRANULE = 8
KERNARG_ALIGNMENT = 8
_ARGUMENT = re.compile(r"[\w.$-]{1,200}", re.ASCII)
_NO_LABEL = re.compile(
    r"(?:v|s|a|acc|ttmp)\d+|(?:vcc|exec|xnack_mask|flat_scratch|tba|tma)(?:_lo|_hi)?|m0|null"
    r"|(?:src_)?(?:vccz|execz|scc|lds_direct|shared_base|private_base|shared_limit|private_limit|pops_exiting_wave_id)"
)
"""What the assembler takes for a register where a branch names it."""
ABI_SGPRS = 2
"""s[0:1]: address of the arguments."""


@dataclass(frozen=True)
class Footprint:
    """Registers that a kernel needs: one more than the highest it names or finds set at entry."""

    vgprs: int
    sgprs: int
    agprs: int

    @property
    def accum_offset(self) -> int:
        """Where accumulation VGPRs begin in the unified file: a multiple of 4, at least 4."""
        return max(4, -(-self.vgprs // 4) * 4)

    @property
    def next_free_vgpr(self) -> int:
        return self.accum_offset + self.agprs if self.agprs else max(1, self.vgprs)


def footprint(program: Program) -> Footprint:
    """OperandError for a virtual register, or a physical one that the hardware lacks."""
    highest = {"v": 0, "s": ABI_SGPRS + program.launch.workgroup_ids - 1, "a": -1}
    for place, item in program.instructions:
        for register in (*item.defined, *item.used):
            where = f"instruction {place} ({item.name})"
            if isinstance(register, VirtualReg):
                raise OperandError(f"{register} is virtual: allocate registers first", node=where)
            if register.number >= FILE_SIZES[register.file]:
                limit = FILE_SIZES[register.file]
                raise OperandError(f"gfx942 has no {register}: {limit} registers of that file", node=where, limit=limit)
            highest[register.file] = max(highest[register.file], register.number)
    return Footprint(highest["v"] + 1, highest["s"] + 1, highest["a"] + 1)


def item_lines(item: Item, place: int) -> Iterator[str]:
    """A label or an instruction as the assembler reads it, not indented; operands are range-checked."""
    if isinstance(item, Label):
        yield f"{item.name}:"
    elif item.name == "_comment":
        yield from (f"; {printable(line)}" for line in item.comment.splitlines())
    else:
        yield instruction_line(item, f"instruction {place} ({item.name})")


def instruction_line(instruction: Instruction, where: str = "instruction") -> str:
    """One line. OperandError for what the assembler would refuse, or would encode wrongly without a word."""
    known = opcode(instruction.name)
    if known.is_pseudo:
        raise OperandError(f"{known.name} is no instruction: expand pseudo-instructions first", node=where)
    check_operands(instruction, where)
    if any(isinstance(r, VirtualReg) for r in (*instruction.defined, *instruction.used)):
        raise OperandError("virtual registers have no place in assembly: allocate registers first", node=where)
    tied = {use for use, _ in known.tied}
    for use, definition in known.tied:
        if instruction.uses[use] != instruction.defs[definition]:
            raise OperandError(
                f"{instruction.uses[use]} must be {instruction.defs[definition]}, which {known.name} updates",
                node=where,
            )
    modifiers = instruction.modifiers
    if known.name.endswith("_lds") and "lds" not in modifiers:
        modifiers = (*modifiers, "lds")
    uses = tuple(o for n, o in enumerate(instruction.uses) if n not in tied)
    comment = printable(instruction.comment)
    text = instruction_text(replace(instruction, uses=uses, modifiers=modifiers, comment=comment))
    return text.replace(known.name, known.mnemonic, 1)


def kernel_text(program: Program, mcpu: str = "gfx942") -> str:
    """The source file of one kernel. OperandError, ControlFlowError; UnknownNameError for another processor."""
    check_target(mcpu)
    check_opcodes(program, mcpu)
    name, launch = program.name, program.launch
    taken = footprint(program)
    _check_names(program)
    _check_launch(launch, name, taken, LDS_BYTES[mcpu])
    items = [(item, line) for place, item in enumerate(program.body) for line in item_lines(item, place)]
    code = [line if isinstance(item, Label) else f"    {line}" for item, line in items]
    lines = [
        f'.amdgcn_target "amdgcn-amd-amdhsa--{mcpu}"',
        ".text",
        f".protected {name}",
        f".globl {name}",
        ".p2align 8",
        f".type {name},@function",
        f"{name}:",
        *code,
        f".L{name}_end:",
        f"    .size {name}, .L{name}_end-{name}",
        "",
        '.section .rodata,"a",@progbits',
        ".p2align 6, 0x0",
        f".amdhsa_kernel {name}",
        *(f"    .amdhsa_{key} {value}" for key, value in descriptor(launch, taken).items()),
        ".end_amdhsa_kernel",
        ".text",
        "",
        ".amdgpu_metadata",
        "---",
        *_metadata(program, taken, mcpu),
        "...",
        ".end_amdgpu_metadata",
    ]
    return "\n".join(lines) + "\n"


def descriptor(launch: Launch, taken: Footprint) -> dict[str, int]:
    """Directives of the kernel descriptor that differ from LLVM's defaults or depend on the kernel."""
    return {
        "group_segment_fixed_size": launch.lds_bytes,
        "private_segment_fixed_size": launch.scratch_bytes,
        "enable_private_segment": int(launch.scratch_bytes > 0),
        "kernarg_size": kernarg_bytes(launch.arguments),
        "user_sgpr_kernarg_segment_ptr": 1,
        **{f"system_sgpr_workgroup_id_{axis}": int(n < launch.workgroup_ids) for n, axis in enumerate("xyz")},
        "system_vgpr_workitem_id": max((n for n, size in enumerate(launch.workgroup) if size > 1), default=0),
        "next_free_vgpr": taken.next_free_vgpr,
        "next_free_sgpr": taken.sgprs,
        "accum_offset": taken.accum_offset,
        "float_denorm_mode_32": 3,
        "float_denorm_mode_16_64": 3,
    }


def argument_offsets(arguments: tuple[Argument, ...]) -> tuple[int, ...]:
    """Byte of each argument in the kernarg segment: each lies at a multiple of its own size."""
    found, end = [], 0
    for argument in arguments:
        start = -(-end // argument.size) * argument.size
        found.append(start)
        end = start + argument.size
    return tuple(found)


def kernarg_bytes(arguments: tuple[Argument, ...]) -> int:
    """Size of the kernarg segment, whole 8-byte words."""
    if not arguments:
        return 0
    end = argument_offsets(arguments)[-1] + arguments[-1].size
    return -(-end // KERNARG_ALIGNMENT) * KERNARG_ALIGNMENT


def _check_launch(launch: Launch, name: str, taken: Footprint, lds_bytes: int) -> None:
    threads = launch.workgroup[0] * launch.workgroup[1] * launch.workgroup[2]
    if min(launch.workgroup) < 1 or threads > WORKGROUP_THREADS:
        shape = " x ".join(map(str, launch.workgroup))
        raise OperandError(f"a workgroup of {shape} = {threads} threads", node=name, limit=WORKGROUP_THREADS)
    # A workgroup runs as a whole: its waves share four SIMDs.
    resident = -(-threads // (WAVE * SIMDS))
    room = VGPRS_PER_SIMD // resident // VGPR_GRANULE * VGPR_GRANULE
    if taken.next_free_vgpr > room:
        raise OperandError(f"{taken.next_free_vgpr} VGPRs in a workgroup of {threads} threads", node=name, limit=room)
    if not 0 <= launch.lds_bytes <= lds_bytes:
        raise OperandError(f"{launch.lds_bytes} bytes of LDS", node=name, limit=lds_bytes)
    if launch.scratch_bytes < 0:
        raise OperandError(f"{launch.scratch_bytes} bytes of scratch", node=name)
    if not 0 <= launch.workgroup_ids <= 3:
        raise OperandError(f"{launch.workgroup_ids} workgroup ids", node=name, limit=3)
    for argument in launch.arguments:
        if argument.size not in (1, 2, 4, 8) or (argument.pointer and argument.size != 8):
            found = f"argument '{argument.name}' has {argument.size} bytes"
            raise OperandError(found, node=name, alternatives=("1", "2", "4", "8, which pointers have"))
        if not _ARGUMENT.fullmatch(argument.name):
            raise OperandError(
                f"{ascii(argument.name)[:80]} cannot be an argument's name: letters, digits, '_', '.', '-' and '$'",
                node=name,
            )
    names = sorted(a.name for a in launch.arguments)
    for one, other in pairwise(names):
        if one == other:
            raise OperandError(f"two arguments are called '{one}'", node=name)


def _check_names(program: Program) -> None:
    """OperandError for a kernel's name, ControlFlowError for a label, that the assembler would not take as one."""
    name = program.name
    if not LABEL.fullmatch(name):
        raise OperandError(
            f"{ascii(name)[:80]} cannot be a kernel's name: letters, digits, '_', '.' and '$'", node="kernel"
        )
    for place, item in enumerate(program.body):
        if not isinstance(item, Label):
            continue
        if not LABEL.fullmatch(item.name) or _NO_LABEL.fullmatch(item.name):
            raise ControlFlowError(f"{ascii(item.name)[:80]} cannot be a label", node=program.where(place))
        if item.name in (name, f".L{name}_end"):
            raise ControlFlowError(f"label '{item.name}' is a name of the kernel itself", node=program.where(place))


def _metadata(program: Program, taken: Footprint, mcpu: str) -> Iterator[str]:
    launch = program.launch
    yield "amdhsa.version: [ 1, 2 ]"
    yield f"amdhsa.target: amdgcn-amd-amdhsa--{mcpu}"
    yield "amdhsa.kernels:"
    yield f"  - .name: !str {json.dumps(program.name)}"
    yield f"    .symbol: {program.name}.kd"
    yield f"    .kernarg_segment_size: {kernarg_bytes(launch.arguments)}"
    yield f"    .kernarg_segment_align: {KERNARG_ALIGNMENT}"
    yield f"    .group_segment_fixed_size: {launch.lds_bytes}"
    yield f"    .private_segment_fixed_size: {launch.scratch_bytes}"
    yield f"    .wavefront_size: {WAVE}"
    yield f"    .sgpr_count: {taken.sgprs}"
    yield f"    .vgpr_count: {taken.next_free_vgpr}"
    yield f"    .agpr_count: {taken.agprs}"
    yield f"    .max_flat_workgroup_size: {launch.workgroup[0] * launch.workgroup[1] * launch.workgroup[2]}"
    yield f"    .reqd_workgroup_size: [ {', '.join(map(str, launch.workgroup))} ]"
    yield "    .args:" if launch.arguments else "    .args: []"
    for argument, offset in zip(launch.arguments, argument_offsets(launch.arguments), strict=True):
        # Without the tag LLVM takes a name like `n` or `12` for a boolean or a number, quoted or not.
        yield f"      - .name: !str {json.dumps(argument.name)}"
        yield f"        .offset: {offset}"
        yield f"        .size: {argument.size}"
        if argument.pointer:
            yield "        .value_kind: global_buffer"
            yield "        .address_space: global"
        else:
            yield "        .value_kind: by_value"
