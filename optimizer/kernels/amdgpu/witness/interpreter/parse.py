"""From assembly text to instructions, labels and kernel descriptors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from optimizer.errors import LimitError

from ..errors import TextError
from .descriptor import PROCESSORS, Descriptor, Processor, parse_descriptor
from .metadata import Metadata, parse_metadata
from .operands import Operand, parse_operand

_PROCESSOR = re.compile(rf"--({'|'.join(PROCESSORS)})(:|$)")
_LABEL = re.compile(r"\s*([A-Za-z_.$@][\w.$@]*):\s*")
_SUFFIX = re.compile(r"_(e32|e64|dpp|sdwa)$")
_COUNTER = re.compile(r"(vmcnt|lgkmcnt|expcnt)\s*\(\s*(\w+)\s*\)")
_MODIFIER = re.compile(r"([a-z_][\w]*)(?::(\[[^\]]*\]|\w+\([^)]*\)|[\w.+-]+))?")
COUNTER_LIMITS = {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: `mnemonic` without its encoding suffix, `suffix` that suffix, `modifiers` by name."""

    line: int
    text: str
    mnemonic: str
    suffix: str
    operands: tuple[Operand, ...]
    modifiers: Mapping[str, str]


@dataclass
class Program:
    """Instructions of one file in order; `labels` maps a name to the index of the instruction after it."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    descriptors: dict[str, Descriptor] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    """Values of .set."""
    target: str = ""
    """The target id of .amdgcn_target, empty when it is not given."""
    metadata: dict[str, Metadata] = field(default_factory=dict)

    @property
    def processor(self) -> Processor:
        """Of the target; gfx942 if none is given."""
        found = _PROCESSOR.search(self.target)
        return PROCESSORS["gfx942" if found is None else found[1]]


MAX_INSTRUCTIONS, MAX_LINE = 200_000, 2_000
"""Of a file; characters of one of its lines without comments. What is built has four instructions for one at most."""
MAX_DIGITS = 64
"""Of a number, which 64 bits written in binary have."""
_ENDLESS = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")


def parse_program(text: str) -> Program:
    """Read a whole file. Errors: `TextError` with the line of what cannot be read, `LimitError`."""
    program = Program()
    lines = iter(strip_comments(text))
    for number, line in lines:
        rest = line
        while (match := _LABEL.match(rest)) is not None:
            if match[1] in program.labels:
                raise TextError(f"label '{match[1]}' defined twice", number)
            program.labels[match[1]] = len(program.instructions)
            rest = rest[match.end() :]
        rest = rest.strip()
        if not rest:
            continue
        if rest.startswith("."):
            _directive(rest, number, lines, program)
        else:
            if len(program.instructions) == MAX_INSTRUCTIONS:
                raise LimitError(
                    f"more than {MAX_INSTRUCTIONS:,} instructions", node=f"line {number}", limit=MAX_INSTRUCTIONS
                )
            program.instructions.append(parse_instruction(rest, number, program.symbols))
    return program


def strip_comments(text: str) -> Iterator[tuple[int, str]]:
    """Lines numbered from 1, without `//`, `;` and `/* */` comments; empty ones are left out."""
    for number, line in enumerate(_blanked(text).splitlines(), start=1):
        kept = re.split(r"//|;", line, maxsplit=1)[0].rstrip()
        if _ENDLESS.search(kept) is not None:
            raise TextError(f"a number of more than {MAX_DIGITS} digits", number)
        if len(kept) > MAX_LINE:
            raise LimitError(f"more than {MAX_LINE:,} characters", node=f"line {number}", limit=MAX_LINE)
        if kept.strip():
            yield number, kept


def _blanked(text: str) -> str:
    """The text with blanks for `/* */` comments; line breaks in them stay."""
    parts, at = [], 0
    while (start := text.find("/*", at)) >= 0 and (end := text.find("*/", start + 2)) >= 0:
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start : end + 2])]
        at = end + 2
    return "".join((*parts, text[at:]))


def _directive(text: str, number: int, lines: Iterator[tuple[int, str]], program: Program) -> None:
    word, _, rest = text.partition(" ")
    if word == ".set":
        name, _, value = rest.partition(",")
        try:
            program.symbols[name.strip()] = int(value.strip(), 0)
        except ValueError:
            raise TextError(
                f"'.set {rest.strip()}' is not a number; the witness computes no expressions", number
            ) from None
    elif word == ".amdgcn_target":
        program.target = rest.strip().strip('"')
        if _PROCESSOR.search(program.target) is None:
            raise TextError(f"target '{program.target}' is not {' or '.join(PROCESSORS)}", number)
    elif word == ".amdhsa_kernel":
        body = _until(lines, ".end_amdhsa_kernel", number)
        name = rest.strip()
        if name in program.descriptors:
            raise TextError(f"kernel descriptor '{name}' defined twice", number)
        program.descriptors[name] = parse_descriptor(name, body, number, program.processor.lds_bytes)
    elif word == ".amdgpu_metadata":
        body = _until(lines, ".end_amdgpu_metadata", number, keep_indent=True)
        program.metadata |= {kernel.name: kernel for kernel in parse_metadata(body, number)}


def _until(
    lines: Iterator[tuple[int, str]], end: str, start: int, *, keep_indent: bool = False
) -> list[tuple[int, str]]:
    body: list[tuple[int, str]] = []
    for number, line in lines:
        if line.strip() == end:
            return body
        body.append((number, line if keep_indent else line.strip()))
    raise TextError(f"no {end} follows", start)


def parse_instruction(text: str, line: int, symbols: Mapping[str, int]) -> Instruction:
    """One instruction without comment."""
    word, _, rest = text.partition(" ")
    suffix = _SUFFIX.search(word)
    mnemonic = word[: suffix.start()] if suffix else word
    kind = suffix[1] if suffix else ""
    if mnemonic == "s_waitcnt":
        return Instruction(line, text, mnemonic, kind, (), parse_waits(rest.strip(), line))
    pieces = _split(rest.strip())
    modifiers: dict[str, str] = {}
    if pieces:
        head, modifiers = _modifiers(pieces[-1], line, mnemonic)
        pieces = pieces[:-1] + ([head] if head else [])
    operands = tuple(parse_operand(piece, line, symbols) for piece in pieces)
    if "quad_perm" in modifiers or any(name.startswith(("row_", "wave_")) for name in modifiers):
        kind = "dpp"
    return Instruction(line, text, mnemonic, kind, operands, modifiers)


def _split(text: str) -> list[str]:
    """Split at the commas outside brackets, parentheses and bars."""
    pieces, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            pieces.append(current.strip())
            current = ""
        else:
            current += character
    return [*pieces, current.strip()] if current.strip() else pieces


def _modifiers(text: str, line: int, mnemonic: str) -> tuple[str, dict[str, str]]:
    """Divide the last operand from the modifiers after it; an instruction may have modifiers only."""
    words = re.findall(r"[^\s\[]*\[[^\]]*\][^\s]*|\S+", text)
    found: dict[str, str] = {}
    head = ""
    for position, word in enumerate(words):
        is_modifier = ":" in word and "[" not in word.split(":", 1)[0]
        if position == 0 and not is_modifier and mnemonic not in ("s_barrier", "s_endpgm"):
            head = word
            continue
        match = _MODIFIER.fullmatch(word)
        if match is None:
            raise TextError(f"'{word}' is neither an operand nor a modifier of {mnemonic}", line)
        if match[1] in found:
            raise TextError(f"modifier '{match[1]}' given twice", line)
        found[match[1]] = match[2] if match[2] is not None else ""
    return head, found


def parse_waits(text: str, line: int) -> dict[str, str]:
    """Counters of s_waitcnt: the symbolic form, or its 16 bits (vmcnt 3:0 and 15:14, expcnt 6:4, lgkmcnt 11:8)."""
    if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", text):
        bits = int(text, 0)
        fields = {"vmcnt": bits & 15 | (bits >> 14 & 3) << 4, "expcnt": bits >> 4 & 7, "lgkmcnt": bits >> 8 & 15}
        return {name: str(value) for name, value in fields.items() if value < COUNTER_LIMITS[name]}
    found: dict[str, str] = {}
    for match in _COUNTER.finditer(text):
        try:
            value = int(match[2], 0)
        except ValueError:
            raise TextError(f"'{match[0]}' counts to no number", line) from None
        if value > COUNTER_LIMITS[match[1]]:
            raise TextError(f"{match[1]}({value}) exceeds the counter's {COUNTER_LIMITS[match[1]]}", line)
        found[match[1]] = str(value)
    if not found or _COUNTER.sub("", text).strip(" &,\t"):
        raise TextError(f"'s_waitcnt {text}' names no counter", line, tuple(sorted(COUNTER_LIMITS)))
    return found
