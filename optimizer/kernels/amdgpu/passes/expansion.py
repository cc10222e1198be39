"""Loops, raw text and pseudo-instructions as what they stand for; s_endpgm where control could run off the end.

Loops and raw text come first, because they change the control flow graph:

    _loop_begin counter, bound      loop_header:  s_cmp_lt_u32 counter, bound
      with target `loop`                          s_cbranch_scc1 loop_body
                                                  s_branch loop_exit
                                    loop_body:
    _loop_end counter, step         loop_latch:   s_add_u32 counter, counter, step
      with target `loop`                          s_branch loop_header
                                    loop_exit:
    _raw_asm                        the lines of its comment, read as this IR's text, so that liveness, waits and
                                    hazards see them like everything else

Then, on virtual and on physical registers alike:

    _init_acc_quad d4 = #c            v_mov_b32 of c into each of the four registers
    _mfma_acc acc = a, b [, acc]      v_mfma_f32_16x16x16_f16 acc, a, b, acc; modifier `bf16` for the other input type
    _srd_define d4 = base, #size [, #flags]       a whole buffer descriptor from its base address (two SGPRs)
    _srd_load_base d4 = kernarg, #offset          base address from the kernel's arguments, rest by default
    _srd_copy_base d4 = base                      base address from two SGPRs, rest by default
    _srd_fill_size d4 = #size                     bytes that the buffer has
    _srd_fill_stride d4 = #flags                  last word of the descriptor
    _g2s_srd_copy d4 = s4 [, #swizzle]            descriptor of the same base, without bounds, for copies to LDS
    _loop_inc counter = step                      s_add_u32 counter, counter, step

The descriptor's words (CDNA3 ISA, "Buffer Resource Descriptor"): address bits 31:0; address bits 47:32, stride and
swizzle; bytes; format and type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice

from optimizer.errors import InputError
from optimizer.kernels.amdgpu.cfg import build_cfg
from optimizer.kernels.amdgpu.errors import ControlFlowError, OpcodeError, OperandError
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import Immediate, Operand, Register, RegRange, VirtualReg, registers, width
from optimizer.kernels.amdgpu.text import parse
from optimizer.process.work_limit import spend


# -- control ---------------------------------------------------------------------------------------------
def expand_control(program: Program) -> Program:
    """ControlFlowError for loops that are not closed in the order of nesting; FormatError for unreadable raw text."""
    body: list[Item] = []
    open_loops: list[str] = []
    counters: set[VirtualReg] = set()
    for place, item in enumerate(program.body):
        where = program.where(place)
        if not isinstance(item, Instruction):
            body.append(item)
        elif item.name == "_raw_asm":
            body += _of_line(item, _raw(item, where))
        elif item.name == "_preload_branch":
            raise OpcodeError(
                "kernel arguments are not preloaded, so that there is nothing for _preload_branch to skip",
                node=where,
                alternatives=("s_load_dwordx2 from s[0:1]",),
            )
        elif item.name == "_loop_begin":
            body += _of_line(item, _begin(item, open_loops, where))
        elif item.name == "_loop_end":
            body += _of_line(item, _end(item, open_loops, where))
            counters.update(r for r in item.used[:1] if isinstance(r, VirtualReg))
        else:
            body.append(item)
    if open_loops:
        raise ControlFlowError(f"loop '{open_loops[-1]}' has no _loop_end", node=program.name)
    return replace(program, body=tuple(body), redefinable=program.redefinable | counters)


def _of_line(item: Instruction, made: Iterable[Item]) -> Iterable[Item]:
    """What stands for an item, with the item's line."""
    return (replace(i, line=item.line) for i in made)


def _stem(item: Instruction, where: str) -> str:
    if not item.target or len(item.uses) != 2:
        raise OperandError(f"{item.name} has two operands and, as target, the name of its loop", node=where)
    return item.target


def _begin(item: Instruction, open_loops: list[str], where: str) -> list[Item]:
    stem = _stem(item, where)
    open_loops.append(stem)
    return [
        Label(f"{stem}_header"),
        Instruction("s_cmp_lt_u32", (), item.uses, comment=item.comment),
        Instruction("s_cbranch_scc1", target=f"{stem}_body"),
        Instruction("s_branch", target=f"{stem}_exit"),
        Label(f"{stem}_body"),
    ]


def _end(item: Instruction, open_loops: list[str], where: str) -> list[Item]:
    stem = _stem(item, where)
    if not open_loops or open_loops.pop() != stem:
        raise ControlFlowError(f"_loop_end of '{stem}' does not close the innermost loop", node=where)
    counter, step = item.uses
    return [
        Label(f"{stem}_latch"),
        Instruction("s_add_u32", (counter,), (counter, step), comment=item.comment),
        Instruction("s_branch", target=f"{stem}_header"),
        Label(f"{stem}_exit"),
    ]


def _raw(item: Instruction, where: str) -> tuple[Item, ...]:
    try:
        spend(item.comment.count("\n") + 1)
        return parse(item.comment).body
    except InputError as error:
        found = f"raw text, {error}" if error.node else f"raw text: {error}"
        raise type(error)(found, node=where, limit=error.limit) from None


# -- the end ---------------------------------------------------------------------------------------------
def end_program(program: Program) -> Program:
    """Nothing is added to a program that ends by itself."""
    closed = program.with_body((*program.body, Instruction("s_endpgm")))
    cfg = build_cfg(closed)
    return closed if cfg.block_of[-1] in cfg.flow.reachable else program


# -- pseudo-instructions ---------------------------------------------------------------------------------
UNBOUNDED_BYTES = Immediate(0x7FFFFFFD)
"""Size of a buffer that is not to be checked against its bounds."""
DEFAULT_FLAGS = Immediate(0x27000)
"""Last word of a raw buffer: 32-bit data format, type buffer."""
ADDRESS_HIGH_MASK = Immediate(0xFFFF)
"""What of word 1 belongs to the address."""
_FILLS = {"_srd_fill_size": 2, "_srd_fill_stride": 3}

_Expansion = Callable[[Instruction], list[Instruction]]


def expand_pseudos(program: Program) -> Program:
    """OperandError for operands that a pseudo-instruction cannot take; OpcodeError for one with no expansion."""
    filled = _filled_words(program)
    body: list[Item] = []
    redefinable = set(program.redefinable)
    for place, item in enumerate(program.body):
        if not isinstance(item, Instruction) or not opcode(item.name).is_pseudo or item.name == "_comment":
            body.append(item)
            continue
        where = program.where(place)
        expand = _EXPANSIONS.get(item.name)
        if expand is None:
            raise OpcodeError(f"{item.name} cannot be expanded here", node=where, alternatives=sorted(_EXPANSIONS))
        try:
            made = expand(item)
        except OperandError as error:
            raise OperandError(error.message, node=where, alternatives=error.alternatives) from None
        made = [i for i in made if not (i.name == "s_mov_b32" and i.defs[0] in filled.get(place, ()))]
        if item.name in ("_mfma_acc", "_loop_inc"):
            redefinable.update(r for i in made for r in i.defined if isinstance(r, VirtualReg))
        if item.name == "_g2s_srd_copy":
            redefinable.update(r for r in registers(item.defs[0])[1:2] if isinstance(r, VirtualReg))
        if item.comment and made:
            made[0] = replace(made[0], comment=item.comment)
        body += (replace(i, line=item.line) for i in made)
    return replace(program, body=tuple(body), redefinable=frozenset(redefinable))


def _filled_words(program: Program) -> dict[int, set[Register]]:
    """Place of a pseudo-instruction that makes a descriptor -> words which the next ones fill otherwise."""
    found: dict[int, set[Register]] = {}
    for place, item in program.instructions:
        if not item.name.startswith("_srd_") or item.name in _FILLS:
            continue
        for later in islice(program.body, place + 1, None):
            spend(1)
            if not isinstance(later, Instruction) or set(later.used) & set(item.defined):
                break
            if later.name in _FILLS and later.defs[0] == item.defs[0]:
                found.setdefault(place, set()).add(registers(later.defs[0])[_FILLS[later.name]])
            elif set(later.defined) & set(item.defined):
                break
    return found


def _move(to: Operand, value: Operand) -> Instruction:
    return Instruction("s_mov_b32", (to,), (value,))


def _words(instruction: Instruction, operand: Operand, count: int) -> tuple[Register, ...]:
    if width(operand) != count or registers(operand)[0].file != "s":
        raise OperandError(f"{operand} of {instruction.name} is not {count} SGPRs")
    return registers(operand)


def _take(instruction: Instruction, least: int, most: int) -> None:
    if len(instruction.defs) != 1 or not least <= len(instruction.uses) <= most:
        wanted = f"{least} to {most}" if most > least else str(least)
        raise OperandError(f"{instruction.name} has one definition and {wanted} uses")


def _init_acc_quad(instruction: Instruction) -> list[Instruction]:
    _take(instruction, 1, 1)
    value = instruction.uses[0]
    if not isinstance(value, Immediate) or width(instruction.defs[0]) != 4:
        raise OperandError("_init_acc_quad puts a constant into four VGPRs")
    name = "v_mov_b32" if registers(instruction.defs[0])[0].file == "v" else "v_accvgpr_write_b32"
    return [Instruction(name, (r,), (value,)) for r in registers(instruction.defs[0])]


def mfma_of(instruction: Instruction) -> Instruction:
    """What `_mfma_acc` stands for."""
    result = instruction.defs[0] if instruction.defs else None
    inputs = [use for use in instruction.uses if use != result]
    if result is None or len(inputs) != 2 or [width(i) for i in inputs] != [2, 2]:
        raise OperandError("_mfma_acc has an accumulator of four registers and two inputs of two")
    kind = "bf16" if "bf16" in instruction.modifiers else "f16"
    return Instruction(f"v_mfma_f32_16x16x16_{kind}", (result,), (*inputs, result), comment=instruction.comment)


def _srd_define(instruction: Instruction) -> list[Instruction]:
    _take(instruction, 2, 3)
    words = _words(instruction, instruction.defs[0], 4)
    base = _words(instruction, instruction.uses[0], 2)
    rest = (*instruction.uses[1:], DEFAULT_FLAGS)[:2]
    return [_move(to, value) for to, value in zip(words, (*base, *rest), strict=True)]


def _srd_load_base(instruction: Instruction) -> list[Instruction]:
    _take(instruction, 2, 2)
    words = _words(instruction, instruction.defs[0], 4)
    pair = RegRange(words[0], 2, 2 if isinstance(words[0], VirtualReg) else 1)
    load = Instruction("s_load_dwordx2", (pair,), instruction.uses)
    return [load, _move(words[2], UNBOUNDED_BYTES), _move(words[3], DEFAULT_FLAGS)]


def _srd_copy_base(instruction: Instruction) -> list[Instruction]:
    _take(instruction, 1, 1)
    words = _words(instruction, instruction.defs[0], 4)
    base = _words(instruction, instruction.uses[0], 2)
    values = (*base, UNBOUNDED_BYTES, DEFAULT_FLAGS)
    return [_move(to, value) for to, value in zip(words, values, strict=True) if to != value]


def _srd_fill(instruction: Instruction) -> list[Instruction]:
    values = [use for use in instruction.uses if use != instruction.defs[0]]
    if len(values) != 1:
        raise OperandError(f"{instruction.name} has one value")
    return [_move(_words(instruction, instruction.defs[0], 4)[_FILLS[instruction.name]], values[0])]


def _g2s_srd_copy(instruction: Instruction) -> list[Instruction]:
    _take(instruction, 1, 2)
    to = _words(instruction, instruction.defs[0], 4)
    source = _words(instruction, instruction.uses[0], 4)
    made = [
        _move(to[0], source[0]),
        Instruction("s_and_b32", (to[1],), (source[1], ADDRESS_HIGH_MASK)),
    ]
    if len(instruction.uses) == 2 and instruction.uses[1] != Immediate(0):
        made.append(Instruction("s_or_b32", (to[1],), (to[1], instruction.uses[1])))
    return [*made, _move(to[2], UNBOUNDED_BYTES), _move(to[3], DEFAULT_FLAGS)]


def _loop_inc(instruction: Instruction) -> list[Instruction]:
    counter = instruction.defs[0] if instruction.defs else None
    steps = [use for use in instruction.uses if use != counter]
    if counter is None or len(steps) != 1:
        raise OperandError("_loop_inc has a counter and a step")
    return [Instruction("s_add_u32", (counter,), (counter, steps[0]))]


_EXPANSIONS: Mapping[str, _Expansion] = {
    "_init_acc_quad": _init_acc_quad,
    "_mfma_acc": lambda instruction: [mfma_of(instruction)],
    "_srd_define": _srd_define,
    "_srd_load_base": _srd_load_base,
    "_srd_copy_base": _srd_copy_base,
    "_srd_fill_size": _srd_fill,
    "_srd_fill_stride": _srd_fill,
    "_g2s_srd_copy": _g2s_srd_copy,
    "_loop_inc": _loop_inc,
}
