"""Operands of gfx942 assembly text: registers, inline constants, literals, names.

A register is a number in one file of keys: 0..127 the scalar operands by their ISA encoding (s0..s101,
flat_scratch 102, xnack_mask 104, vcc 106, m0 124, exec 126), 256.. the VGPRs, 512.. the AGPRs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import TextError

SGPRS = 102
FLAT_SCRATCH, XNACK_MASK, VCC, M0, EXEC, VGPR, AGPR = 102, 104, 106, 124, 126, 256, 512
_NAMED = {
    "flat_scratch": (FLAT_SCRATCH, 2), "flat_scratch_lo": (FLAT_SCRATCH, 1), "flat_scratch_hi": (FLAT_SCRATCH + 1, 1),
    "xnack_mask": (XNACK_MASK, 2), "m0": (M0, 1),
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1),
}  # fmt: skip
_BASE = {"s": (0, SGPRS), "v": (VGPR, 256), "a": (AGPR, 256)}
_REGISTER = re.compile(r"([sva])(?:(\d+)|\[(\d+)(?::(\d+))?\])$")
NAMES = frozenset({"off", "scc", "vccz", "execz", "lds_direct", "null"})


@dataclass(frozen=True, slots=True)
class Register:
    """`count` consecutive 32-bit registers from key `base`."""

    base: int
    count: int

    @property
    def keys(self) -> range:
        return range(self.base, self.base + self.count)

    @property
    def is_vector(self) -> bool:
        return self.base >= VGPR


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer constant: `value` as written."""

    value: int


@dataclass(frozen=True, slots=True)
class Float:
    """A floating constant; its bits depend on the operand's type."""

    value: float


@dataclass(frozen=True, slots=True)
class Name:
    """A word that is no register: `off`, a label, a hardware register."""

    text: str


Value = Register | Integer | Float | Name


@dataclass(frozen=True, slots=True)
class Operand:
    """A value with the floating-point source modifiers `-x` and `|x|`."""

    value: Value
    negate: bool = False
    absolute: bool = False


def name_of(key: int) -> str:
    """The assembler's name of one 32-bit register."""
    if key >= AGPR:
        return f"a{key - AGPR}"
    if key >= VGPR:
        return f"v{key - VGPR}"
    if key < SGPRS:
        return f"s{key}"
    for name, (base, count) in _NAMED.items():
        if count == 1 and base == key:
            return name
    return f"scalar operand {key}"


def parse_register(text: str, line: int) -> Register | None:
    """The register named by `text`, None when it names none; refuses numbers that do not exist."""
    if text in _NAMED:
        return Register(*_NAMED[text])
    match = _REGISTER.match(text)
    if match is None:
        return None
    base, limit = _BASE[match[1]]
    first = int(match[2] if match[2] is not None else match[3])
    last = int(match[4]) if match[4] is not None else first
    if last < first or last >= limit:
        raise TextError(f"no such register {text}: {match[1]}0 to {match[1]}{limit - 1} exist", line)
    return Register(base + first, last - first + 1)


def parse_operand(text: str, line: int, symbols: Mapping[str, int]) -> Operand:
    """One operand; `symbols` are the values of `.set`."""
    negate = absolute = False
    if text.startswith("neg(") and text.endswith(")"):
        negate, text = True, text[4:-1].strip()
    elif text.startswith("-") and (text[1:2] in "|va" or text[1:4] in ("abs",)):
        negate, text = True, text[1:]
    if text.startswith("|") and text.endswith("|"):
        absolute, text = True, text[1:-1]
    elif text.startswith("abs(") and text.endswith(")"):
        absolute, text = True, text[4:-1].strip()
    register = parse_register(text, line)
    if register is not None:
        return Operand(register, negate, absolute)
    return Operand(_constant(text, symbols), negate, absolute)


def _constant(text: str, symbols: Mapping[str, int]) -> Value:
    if text in symbols:
        return Integer(symbols[text])
    try:
        return Integer(int(text, 0))
    except ValueError:
        pass
    if text[:1].isdigit() or text[:1] in "-.":
        try:
            return Float(float(text))
        except ValueError:
            return Name(text)
    return Name(text)


def constant_bits(value: Integer | Float, kind: str, line: int) -> int:
    """The bits of a constant as a source of type `kind` (`f32`, `i16`, `u64`, ...).

    An integer is its own two's complement bits whatever the type; a floating constant takes the format of the
    operand (`v_mov_b32 v0, 1.0` holds 0x3f800000), as the CDNA3 ISA's table of inline constants says.
    """
    width = int(kind[1:])
    if isinstance(value, Float):
        formats = {16: "<e", 32: "<f", 64: "<d"}
        return int.from_bytes(struct.pack(formats[width], value.value), "little")
    if not -(1 << (width - 1)) <= value.value < 1 << width:
        raise TextError(f"constant {value.value} does not fit {width} bits", line)
    return value.value & ((1 << width) - 1)
