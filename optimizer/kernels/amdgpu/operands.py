"""Operands of instructions: registers, register ranges, immediates, special registers, offsets, counters to wait for.

A virtual register is one 32-bit register of a class under a number. A range of `count` registers takes `count`
consecutive numbers: its component `i` is the register `base.number + i`, which instructions may also name alone.

    kv3, ks3, ka3       virtual VGPR, SGPR, accumulation VGPR      kv4..+4@2    range of 4 registers, first one even
    v3, s3, a3          physical                                   v[4:7]       physical range
    42, -0x1000         immediate                                  vcc, exec, m0, scc, vcc_lo, ..., off
    offset:128          offset field of a memory instruction       vmcnt(0)     counter of s_waitcnt
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from optimizer.kernels.amdgpu.errors import OperandError

INLINE_INTEGERS = range(-16, 65)
_INLINE_FLOATS = [sign * x for x in (0.5, 1.0, 2.0, 4.0) for sign in (1, -1)]
INLINE_F32 = frozenset(struct.unpack("<I", struct.pack("<f", x))[0] for x in _INLINE_FLOATS) | {0x3E22F983}
"""Bit patterns that need no literal: +-0.5, 1, 2, 4 and 1/(2 pi)."""
INLINE_F16 = frozenset(struct.unpack("<H", struct.pack("<e", x))[0] for x in _INLINE_FLOATS) | {0x3118}

FILE_SIZES = {"v": 256, "s": 102, "a": 256}
"""Registers of each file that a kernel can name: VGPRs, SGPRs, AGPRs."""
FILES = tuple(FILE_SIZES)


@dataclass(frozen=True, slots=True, order=True)
class _Reg:
    file: str
    """Letter of the register class."""
    number: int


class VirtualReg(_Reg):
    """A register that the allocator places."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"k{self.file}{self.number}"


class PhysicalReg(_Reg):
    """A register of the hardware."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.file}{self.number}"


Register = VirtualReg | PhysicalReg


@dataclass(frozen=True, slots=True)
class RegRange:
    """`count` consecutive registers; the number of the first physical one is a multiple of `alignment`.

    A physical range is where it is: its alignment is checked, then dropped.
    """

    base: Register
    count: int
    alignment: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or self.alignment < 1:
            raise OperandError(f"a range has count {self.count} and alignment {self.alignment}", node=str(self.base))
        if isinstance(self.base, PhysicalReg):
            if self.base.number % self.alignment:
                raise OperandError(f"{self} does not begin at a multiple of {self.alignment}", limit=self.alignment)
            object.__setattr__(self, "alignment", 1)

    @property
    def file(self) -> str:
        return self.base.file

    def component(self, index: int) -> Register:
        """Register `index` of the range, alone."""
        if not 0 <= index < self.count:
            raise OperandError(f"{self} has no component {index}", limit=self.count)
        return type(self.base)(self.base.file, self.base.number + index)

    def sub_range(self, index: int, count: int, alignment: int = 1) -> RegRange:
        """`count` components from `index` on."""
        self.component(index + count - 1)
        return RegRange(self.component(index), count, alignment)

    def __str__(self) -> str:
        if isinstance(self.base, PhysicalReg):
            return f"{self.base.file}[{self.base.number}:{self.base.number + self.count - 1}]"
        aligned = f"@{self.alignment}" if self.alignment > 1 else ""
        return f"{self.base}..+{self.count}{aligned}"


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer, or the bit pattern of a float (`f32`, `f16`). -16..64 are printed in decimal, others in hex."""

    value: int

    def __post_init__(self) -> None:
        if not -(1 << 31) <= self.value < 1 << 32:
            raise OperandError(f"immediate {self.value} does not fit 32 bits", limit=32)

    @staticmethod
    def f32(x: float) -> Immediate:
        """The bits of a float32."""
        bits: int = struct.unpack("<I", struct.pack("<f", x))[0]
        return Immediate(bits)

    @staticmethod
    def f16(x: float) -> Immediate:
        """The bits of a float16."""
        bits: int = struct.unpack("<H", struct.pack("<e", x))[0]
        return Immediate(bits)

    def is_inline(self, bits: int = 32) -> bool:
        """Whether it takes no literal constant as an operand of `bits` bits (16, 32 or 64)."""
        patterns = {16: INLINE_F16, 32: INLINE_F32}.get(bits, frozenset())
        return self.value in INLINE_INTEGERS or self.value in patterns

    def __str__(self) -> str:
        return str(self.value) if self.value in INLINE_INTEGERS else hex(self.value)


SPECIAL_WIDTHS = {
    "vcc": 2, "exec": 2, "m0": 1, "scc": 1, "vcc_lo": 1, "vcc_hi": 1, "exec_lo": 1, "exec_hi": 1, "off": 0,
}  # fmt: skip
"""Registers each special operand stands for; `off`: no register in this place."""


@dataclass(frozen=True, slots=True)
class Special:
    """A register that is not allocated, or `off`."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in SPECIAL_WIDTHS:
            raise OperandError(f"no special register '{self.name}'", alternatives=SPECIAL_WIDTHS)

    @property
    def width(self) -> int:
        return SPECIAL_WIDTHS[self.name]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class MemOffset:
    """Bytes added to an address, in the instruction itself."""

    value: int

    def __str__(self) -> str:
        return f"offset:{self.value}"


@dataclass(frozen=True, slots=True)
class WaitCount:
    """Wait until at most `value` of a counter's operations are outstanding."""

    counter: str
    """vmcnt, lgkmcnt or expcnt."""
    value: int

    def __str__(self) -> str:
        return f"{self.counter}({self.value})"


Operand = VirtualReg | PhysicalReg | RegRange | Immediate | Special | MemOffset | WaitCount
RegOperand = VirtualReg | PhysicalReg | RegRange

VCC, EXEC, M0, OFF = (Special(name) for name in ("vcc", "exec", "m0", "off"))


def registers(operand: Operand) -> tuple[Register, ...]:
    """The single registers an operand names, in order; none for what is not a register."""
    if isinstance(operand, RegRange):
        make, file, first = type(operand.base), operand.base.file, operand.base.number
        return tuple([make(file, n) for n in range(first, first + operand.count)])
    return (operand,) if isinstance(operand, VirtualReg | PhysicalReg) else ()


def width(operand: Operand) -> int:
    """Registers an operand takes; 0 for what is not a register."""
    if isinstance(operand, RegRange):
        return operand.count
    if isinstance(operand, Special):
        return operand.width
    return 1 if isinstance(operand, VirtualReg | PhysicalReg) else 0
