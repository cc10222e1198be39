"""The textual form of programs, which parses back: one line per instruction, as the assembler writes them.

    .kernel scale
    .reserved_sgprs 0 1
    loop:
        buffer_load_dwordx4 kv4..+4@2, kv1, ks4..+4@4, 0 offen offset:16
        v_lshl_add_u32 kv9, kv1, 8, kv2 ; comment
        s_cbranch_scc1 loop

Definitions come first; how many there are follows from the opcode. Tied operands, which assembly leaves out, are
written.
"""

from __future__ import annotations

import re
from dataclasses import replace

from optimizer.errors import FormatError, InputError, LimitError
from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Argument, Instruction, Item, Label, Launch, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import (
    SPECIAL_WIDTHS,
    Immediate,
    MemOffset,
    Operand,
    PhysicalReg,
    RegRange,
    Special,
    VirtualReg,
    WaitCount,
)
from optimizer.kernels.amdgpu.validate import check_operands
from optimizer.process.json_document import FLOAT32_MAX

MAX_REGISTERS = 1024
"""Of a file, and of one range: as many as no hardware has."""
MAX_ITEMS = 30_000
"""Instructions and labels of a program."""
MAX_ARGUMENTS = 256
"""Of a kernel."""
MAX_LINE = 2_000
"""Characters of an instruction without its comment."""
MAX_NUMBER = (1 << 31) - 1
"""Of virtual registers, bytes, threads."""
_VIRTUAL = re.compile(r"k([vsa])([0-9]{1,10})(?:\.\.\+([0-9]{1,10})(?:@([0-9]{1,10}))?)?")
_PHYSICAL = re.compile(r"([vsa])(?:([0-9]{1,10})|\[([0-9]{1,10}):([0-9]{1,10})\])")
_NUMBER = re.compile(r"#?(-?)(?:0x([0-9a-fA-F]{1,20})|([0-9]{1,20}))")
_FLOAT = re.compile(r"#?(-?[0-9]{1,40}\.[0-9]{0,40}(?:e-?[0-9]{1,4})?)")
_OFFSET = re.compile(r"offset:(-?[0-9]{1,20})")
_WAIT = re.compile(r"(vmcnt|lgkmcnt|expcnt)\(([0-9]{1,10})\)")
_MODIFIER = re.compile(r"[\w:,\[\]-]+", re.ASCII)
LABEL = re.compile(r"[A-Za-z_.$][\w.$]{0,199}", re.ASCII)
"""Labels and names of kernels."""
LOOPS = ("_loop_begin", "_loop_end")
"""Their last word is the name of the loop."""
_HEADER = ("max_vgprs", "max_sgprs", "max_agprs")


def parse_operand(text: str) -> Operand:
    """One operand; a number may have `#` in front. FormatError quotes what it is not."""
    if match := _VIRTUAL.fullmatch(text):
        file, number, count, alignment = match.groups()
        base = VirtualReg(file, _at_most(int(number), MAX_NUMBER, text))
        if count is None:
            return base
        sizes = (_at_most(int(n), MAX_REGISTERS, text) for n in (count, alignment or 1))
        return RegRange(base, *sizes)
    if match := _PHYSICAL.fullmatch(text):
        file, single, first, last = match.groups()
        if single is not None:
            return PhysicalReg(file, _at_most(int(single), MAX_REGISTERS, text))
        low, high = (_at_most(int(n), MAX_REGISTERS, text) for n in (first, last))
        return RegRange(PhysicalReg(file, low), high - low + 1)
    if match := _NUMBER.fullmatch(text):
        sign, hexadecimal, decimal = match.groups()
        value = int(hexadecimal, 16) if hexadecimal else int(decimal)
        return Immediate(-value if sign else value)
    if match := _FLOAT.fullmatch(text):
        return Immediate.f32(_single(float(match[1]), text))
    if match := _OFFSET.fullmatch(text):
        return MemOffset(int(match[1]))
    if match := _WAIT.fullmatch(text):
        return WaitCount(match[1], int(match[2]))
    if text in SPECIAL_WIDTHS:
        return Special(text)
    raise FormatError(
        f"{_shown(text)} is no operand: expected kv0, kv0..+4@2, v0, s[0:1], #42, offset:16, vmcnt(0) or vcc"
    )


def _shown(text: str) -> str:
    return f"'{text[:60]}'" if text.isprintable() else ascii(text[:60])


def _at_most(number: int, limit: int, text: str) -> int:
    if number > limit:
        raise LimitError(f"'{text}' has a number above {limit}", limit=limit)
    return number


def _single(value: float, text: str) -> float:
    if abs(value) > FLOAT32_MAX:
        raise LimitError(f"'{text}' is beyond float32", limit=FLOAT32_MAX)
    return value


def instruction_text(instruction: Instruction) -> str:
    """One line without indentation."""
    known = opcode(instruction.name)
    operands = (*instruction.defs, *instruction.uses)
    tail = [str(o) for o in operands if isinstance(o, MemOffset | WaitCount)]
    if known.format == "MUBUF" and _has_address(instruction):
        tail.insert(0, "offen")
    main = [str(o) for o in operands if not isinstance(o, MemOffset | WaitCount)]
    if instruction.target is not None:
        if not LABEL.fullmatch(instruction.target) or not (known.is_branch or known.name in LOOPS):
            raise OperandError(f"{known.name} cannot have the target {_shown(instruction.target)}")
        main.append(instruction.target)
    if wrong := [word for word in instruction.modifiers if not _MODIFIER.fullmatch(word)]:
        raise OperandError(f"{known.name} cannot have the modifier {_shown(wrong[0])}")
    words = [instruction.name, ", ".join(main), *tail, *instruction.modifiers]
    comment = f" ; {_one_line(instruction.comment)}" if instruction.comment else ""
    return " ".join(filter(None, words)) + comment


def _one_line(comment: str) -> str:
    """Raw text has several lines; nothing but what is printable stands as it is."""
    return "".join(c if c != "\\" and c.isprintable() else _ESCAPES.get(c, f"\\u{{{ord(c):x}}}") for c in comment)


_ESCAPES = {"\\": "\\\\", "\n": "\\n"}
_ESCAPED = re.compile(r"\\(?:u\{((?:10|[0-9a-f])?[0-9a-f]{1,4})\}|(.))")


def _several_lines(text: str) -> str:
    return _ESCAPED.sub(lambda m: chr(int(m[1], 16)) if m[1] else "\n" if m[2] == "n" else m[2], text)


def _has_address(instruction: Instruction) -> bool:
    place = next(n for n, use in enumerate(opcode(instruction.name).uses) if use.kind == "A")
    return len(instruction.uses) > place and instruction.uses[place] != Special("off")


def text_of(program: Program) -> str:
    """The whole program; `parse(text_of(p)) == p`."""
    launch, default = program.launch, Program(())
    lines = [f".kernel {program.name}"]
    lines += [
        f".{name} {getattr(program, name)}" for name in _HEADER if getattr(program, name) != getattr(default, name)
    ]
    for name in ("reserved_vgprs", "reserved_sgprs"):
        if numbers := sorted(getattr(program, name)):
            lines.append(f".{name} {' '.join(map(str, numbers))}")
    if program.precolored:
        lines.append(".precolored " + " ".join(f"{r}={n}" for r, n in program.precolored))
    if program.redefinable:
        lines.append(".redefinable " + " ".join(map(str, sorted(program.redefinable))))
    if launch != default.launch:
        lines.append(".workgroup " + " ".join(map(str, launch.workgroup)))
        lines.append(f".workgroup_ids {launch.workgroup_ids}")
        lines += [f".argument {a.name} {a.size} {'pointer' if a.pointer else 'value'}" for a in launch.arguments]
        lines += [f".lds_bytes {launch.lds_bytes}", f".scratch_bytes {launch.scratch_bytes}"]
    for item in program.body:
        lines.append(f"{item.name}:" if isinstance(item, Label) else f"    {instruction_text(item)}")
    return "\n".join(lines) + "\n"


def parse_instruction(line: str) -> Instruction:
    """One line of `instruction_text`. FormatError, OpcodeError."""
    code, _, comment = line.partition(";")
    name, _, rest = code.strip().partition(" ")
    known = opcode(name)
    pieces = _pieces(rest) if rest.strip() else []
    words = pieces[:-1] + (pieces[-1].split() if pieces else [])
    target = words.pop(0) if known.is_branch and words else None
    if name in LOOPS and len(words) > 2:
        target = words.pop()
    operands: list[Operand] = []
    modifiers: list[str] = []
    main = len(pieces)
    for n, word in enumerate(words):
        if n < main or _OFFSET.fullmatch(word) or _WAIT.fullmatch(word):
            operands.append(parse_operand(word))
        elif word != "offen":
            modifiers.append(word)
    count = len(known.defs)
    return Instruction(
        name,
        tuple(operands[:count]),
        tuple(operands[count:]),
        target,
        tuple(modifiers),
        _several_lines(comment.strip()),
    )


def _pieces(text: str) -> list[str]:
    """What stands between the commas, not those within `quad_perm:[0,1,2,3]`."""
    found: list[str] = []
    for piece in text.split(","):
        if found and found[-1].count("[") > found[-1].count("]"):
            found[-1] += f",{piece}"
        else:
            found.append(piece)
    return [piece.strip() for piece in found]


def parse(text: str, encodable: bool = False) -> Program:
    """A program from its text. FormatError, OpcodeError, OperandError name the line.

    `encodable`: operands, too, are checked line by line, as `build` will ask for it; literals may stand where a pass
    moves them from.
    """
    program = Program(())
    body: list[Item] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition(";")[0].split()
        if not words:
            continue
        try:
            if words[0].startswith(".") and not words[0].endswith(":"):
                program = _directive(program, words[0][1:], words[1:])
            elif len(body) == MAX_ITEMS:
                told = f"more than {MAX_ITEMS:,} instructions and labels"
                raise LimitError(told, limit=MAX_ITEMS, alternatives=("several kernels",))
            else:
                body.append(replace(_item(line, words, encodable), line=number))
        except (ValueError, IndexError):
            raise FormatError(f"cannot read '{line.strip()}'", node=f"line {number}") from None
        except InputError as error:
            what = type(error)
            raise what(
                error.message, node=f"line {number}", limit=error.limit, alternatives=error.alternatives
            ) from None
    return program.with_body(tuple(body))


def _item(line: str, words: list[str], encodable: bool) -> Item:
    if len(line.partition(";")[0]) > MAX_LINE:
        raise LimitError(f"more than {MAX_LINE:,} characters before the comment", limit=MAX_LINE)
    if len(words) == 1 and words[0].endswith(":") and LABEL.fullmatch(words[0][:-1]):
        return Label(words[0][:-1])
    instruction = parse_instruction(line)
    if encodable:
        check_operands(instruction, instruction.name, constants=False)
    return instruction


def _directive(program: Program, name: str, words: list[str]) -> Program:
    launch: Launch = program.launch
    if name == "kernel":
        return replace(program, name=words[0])
    if name in _HEADER:
        return replace(program, **{name: _whole(words[0], MAX_REGISTERS)})  # type: ignore[arg-type]
    if name in ("reserved_vgprs", "reserved_sgprs"):
        numbers = frozenset(_whole(word, MAX_REGISTERS) for word in words)
        return replace(program, **{name: numbers})  # type: ignore[arg-type]
    if name == "precolored":
        pairs = [word.partition("=") for word in words]
        found = {_virtual(r): _whole(n, MAX_REGISTERS) for r, _, n in pairs}
        if len(found) < len(pairs):
            raise FormatError("a register has two numbers")
        return replace(program, precolored=tuple(sorted(found.items())))
    if name == "redefinable":
        return replace(program, redefinable=frozenset(map(_virtual, words)))
    if name == "workgroup":
        x, y, z = (_whole(word, MAX_NUMBER, signed=True) for word in words)
        return replace(program, launch=replace(launch, workgroup=(x, y, z)))
    if name == "argument":
        if words[2] not in ("pointer", "value"):
            raise FormatError(f"an argument is no {_shown(words[2])}", alternatives=("pointer", "value"))
        if len(launch.arguments) == MAX_ARGUMENTS:
            raise LimitError(f"more than {MAX_ARGUMENTS} arguments", limit=MAX_ARGUMENTS)
        argument = Argument(words[0], _whole(words[1], 8), words[2] == "pointer")
        return replace(program, launch=replace(launch, arguments=(*launch.arguments, argument)))
    if name in ("workgroup_ids", "lds_bytes", "scratch_bytes"):
        number = _whole(words[0], MAX_NUMBER, signed=True)
        return replace(program, launch=replace(launch, **{name: number}))  # type: ignore[arg-type]
    raise FormatError(f"no directive {_shown('.' + name)}")


def _whole(word: str, most: int, signed: bool = False) -> int:
    """A decimal number. ValueError if it is none, LimitError if it is too large. What a launch may not have is told
    where it is checked: those may be `signed`."""
    if not re.fullmatch(r"-?[0-9]{1,19}" if signed else r"[0-9]{1,19}", word):
        raise ValueError(word)
    return _at_most(int(word), most, word)


def _virtual(text: str) -> VirtualReg:
    operand = parse_operand(text)
    if not isinstance(operand, VirtualReg):
        raise FormatError(f"'{text}' is no virtual register")
    return operand
