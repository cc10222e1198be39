"""What one instruction touches, checked against the encoding's and the descriptor's limits before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..errors import ExecutionError, TextError
from .descriptor import Descriptor
from .hazards import Traits
from .operands import (
    AGPR,
    SGPRS,
    VCC,
    VGPR,
    Float,
    Integer,
    Name,
    Operand,
    Register,
    constant_bits,
    name_of,
)
from .parse import Instruction
from .processors import Processor
from .state import Array, Wave

Execute = Callable[[Wave], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One decoded instruction. `lanes` tells in which lanes vector sources must be defined: exec, all, or own
    (the operation checks for itself)."""

    instruction: Instruction
    traits: Traits
    execute: Execute
    lanes: str = "exec"
    issuing: str = ""
    """vmcnt for vector memory loads that finish in order, empty for everything else."""


class Unit(Protocol):
    """A group of opcodes: `decode` makes a step of an instruction whose mnemonic is in its table."""

    def __call__(self, instruction: Instruction, decoder: Decoder) -> Step: ...


def words_of(kind: str) -> int:
    """32-bit registers of an operand type (`f32` 1, `u64` 2, `f16` 1)."""
    return max(1, int(kind[1:]) // 32)


@dataclass(frozen=True)
class Decoder:
    """Turns operands into registers and sources, against one kernel's descriptor."""

    descriptor: Descriptor
    processor: Processor

    def error(self, instruction: Instruction, kind: str, reason: str) -> ExecutionError:
        return ExecutionError(kind, reason, instruction.line, instruction.text)

    def arity(self, instruction: Instruction, *allowed: int) -> None:
        if len(instruction.operands) not in allowed:
            counts = " or ".join(str(count) for count in allowed)
            reason = f"{instruction.mnemonic} takes {counts} operands, {len(instruction.operands)} given"
            raise TextError(reason, instruction.line)

    def modifiers(self, instruction: Instruction, *allowed: str) -> None:
        """Refuse modifiers that the witness would ignore."""
        for name in instruction.modifiers:
            if name not in allowed:
                reason = f"modifier '{name}' of {instruction.mnemonic}"
                raise TextError(f"{reason} is not known to the witness", instruction.line, tuple(sorted(allowed)))

    def register(self, instruction: Instruction, operand: Operand, words: int, files: str) -> Register:
        """The operand as a register tuple of `words` in one of `files` (s scalar, v VGPR, a AGPR)."""
        register = operand.value
        if not isinstance(register, Register) or operand.negate or operand.absolute:
            raise TextError(f"{instruction.mnemonic}: a register is needed, not {operand.value}", instruction.line)
        file = "s" if register.base < VGPR else "v" if register.base < AGPR else "a"
        if file not in files:
            reason = f"{instruction.mnemonic}: {name_of(register.base)} is in the wrong register file"
            raise TextError(reason, instruction.line, tuple(files))
        if register.count != words:
            reason = f"{instruction.mnemonic}: {words} registers are needed here, {register.count} given"
            raise TextError(reason, instruction.line)
        self._check_place(instruction, register, file)
        return register

    def _check_place(self, instruction: Instruction, register: Register, file: str) -> None:
        if file == "s":
            step = min(4, 1 << (register.count - 1).bit_length())
            limit, directive = self.descriptor["next_free_sgpr"], "next_free_sgpr"
            if VCC <= register.base < VCC + 2 and not self.descriptor["reserve_vcc"]:
                raise self.error(instruction, "register-limit", "uses vcc although .amdhsa_reserve_vcc is 0")
            over = register.base < SGPRS and register.base + register.count > limit
        else:
            step = 2 if register.count > 1 else 1
            limit = self.descriptor.arch_vgprs if file == "v" else self.descriptor.acc_vgprs
            directive = "next_free_vgpr and accum_offset"
            over = register.base - (VGPR if file == "v" else AGPR) + register.count > limit
        base = register.base if file == "s" else register.base - VGPR
        if base % step:
            reason = f"a tuple of {register.count} starts at {name_of(register.base)}: a multiple of {step} is needed"
            raise self.error(instruction, "alignment", reason)
        if over:
            reason = f"uses {name_of(register.keys[-1])}, .amdhsa_{directive} leaves {limit} registers"
            raise self.error(instruction, "register-limit", reason)

    def source(
        self, instruction: Instruction, operand: Operand, kind: str, files: str = "sv"
    ) -> tuple[tuple[int, ...], Callable[[Wave], int | Array]]:
        """Register keys of a source and a function that reads its bits.

        A vector source reads as an array of 64 lanes (uint32, or uint64 for pairs), a scalar one as an integer.
        """
        value, words = operand.value, words_of(kind)
        if isinstance(value, Register):
            register = self.register(instruction, Operand(value), words, files)
            if register.is_vector:
                return tuple(register.keys), vector_reader(register)
            base = register.base
            return tuple(register.keys), lambda wave: wave.scalar(base, words)
        if isinstance(value, Name):
            return self._named(instruction, value)
        bits = constant_bits(value, kind, instruction.line)
        return (), lambda _: bits

    def _named(self, instruction: Instruction, value: Name) -> tuple[tuple[int, ...], Callable[[Wave], int | Array]]:
        if value.text == "scc":
            return (), read_scc
        if value.text == "execz":
            return (), lambda wave: int(wave.exec_mask == 0)
        if value.text == "vccz":
            return (VCC, VCC + 1), lambda wave: int(wave.scalar(VCC, 2) == 0)
        raise TextError(f"{instruction.mnemonic}: '{value.text}' is not an operand", instruction.line)

    def integer(self, instruction: Instruction, text: str | None, default: int, low: int, high: int, what: str) -> int:
        """The integer of a modifier, within the field of the encoding."""
        if text is None:
            return default
        try:
            value = int(text, 0)
        except ValueError:
            raise TextError(f"{what} '{text}' is not a number", instruction.line) from None
        if not low <= value <= high:
            raise self.error(instruction, "offset-range", f"{what} {value} is outside {low}..{high}")
        return value

    def immediate(self, instruction: Instruction, operand: Operand, low: int, high: int) -> int:
        if not isinstance(operand.value, Integer) or not low <= operand.value.value <= high:
            raise TextError(f"{instruction.mnemonic} takes a number from {low} to {high}", instruction.line)
        return operand.value.value


def read_scc(wave: Wave) -> int:
    if wave.scc is None:
        raise wave.error("undefined-register", "reads scc, never written")
    return wave.scc


def vector_reader(register: Register) -> Callable[[Wave], Array]:
    """Reads a VGPR or a pair of them as 64 lanes."""
    first = register.base - VGPR
    if register.count == 1:
        return lambda wave: wave.vectors[first]

    def pair(wave: Wave) -> Array:
        low = wave.vectors[first].astype(np.uint64)
        both: Array = low | wave.vectors[first + 1].astype(np.uint64) << np.uint64(32)
        return both

    return pair


def is_constant(operand: Operand) -> bool:
    return isinstance(operand.value, Integer | Float)
