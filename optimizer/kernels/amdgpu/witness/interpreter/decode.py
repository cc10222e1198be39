"""What one instruction touches, checked against the encoding's and the descriptor's limits before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import ExecutionError, TextError
from .descriptor import Descriptor, Processor
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


def words_of(kind: str) -> int:
    """32-bit registers of an operand type (`f32` 1, `u64` 2, `f16` 1)."""
    return max(1, int(kind[1:]) // 32)


@dataclass(frozen=True)
class Decoder:
    """Turns the operands of one instruction, given by number or as they are, into registers and sources."""

    instruction: Instruction
    descriptor: Descriptor
    processor: Processor

    def step(self, traits: Traits, execute: Execute, lanes: str = "exec", issuing: str = "") -> Step:
        return Step(self.instruction, traits, execute, lanes, issuing)

    def error(self, kind: str, reason: str) -> ExecutionError:
        return ExecutionError(kind, reason, self.instruction.line, self.instruction.text)

    def text_error(self, reason: str, alternatives: tuple[str, ...] = ()) -> TextError:
        return TextError(reason, self.instruction.line, alternatives)

    def arity(self, *allowed: int) -> None:
        given = len(self.instruction.operands)
        if given not in allowed:
            counts = " or ".join(map(str, allowed))
            raise self.text_error(f"{self.instruction.mnemonic} takes {counts} operands, {given} given")

    def modifiers(self, *allowed: str) -> None:
        """Refuse modifiers that the witness would ignore."""
        for name in self.instruction.modifiers:
            if name not in allowed:
                reason = f"modifier '{name}' of {self.instruction.mnemonic} is not known to the witness"
                raise self.text_error(reason, tuple(sorted(allowed)))

    def _operand(self, operand: Operand | int) -> Operand:
        return self.instruction.operands[operand] if isinstance(operand, int) else operand

    def register(self, operand: Operand | int, words: int, files: str) -> Register:
        """The operand as a register tuple of `words` in one of `files` (s scalar, v VGPR, a AGPR)."""
        operand, mnemonic = self._operand(operand), self.instruction.mnemonic
        register = operand.value
        if not isinstance(register, Register) or operand.negate or operand.absolute:
            raise self.text_error(f"{mnemonic}: a register is needed, not {operand.value}")
        file = "s" if register.base < VGPR else "v" if register.base < AGPR else "a"
        if file not in files:
            reason = f"{mnemonic}: {name_of(register.base)} is in the wrong register file"
            raise self.text_error(reason, tuple(files))
        if register.count != words:
            raise self.text_error(f"{mnemonic}: {words} registers are needed here, {register.count} given")
        self._check_place(register, file)
        return register

    def _check_place(self, register: Register, file: str) -> None:
        if file == "s":
            step = min(4, 1 << (register.count - 1).bit_length())
            limit, directive = self.descriptor["next_free_sgpr"], "next_free_sgpr"
            if VCC <= register.base < VCC + 2 and not self.descriptor["reserve_vcc"]:
                raise self.error("register-limit", "uses vcc although .amdhsa_reserve_vcc is 0")
            over = register.base < SGPRS and register.base + register.count > limit
        else:
            step = 2 if register.count > 1 else 1
            limit = self.descriptor.arch_vgprs if file == "v" else self.descriptor.acc_vgprs
            directive = "next_free_vgpr and accum_offset"
            over = register.base - (VGPR if file == "v" else AGPR) + register.count > limit
        base = register.base if file == "s" else register.base - VGPR
        if base % step:
            reason = f"a tuple of {register.count} starts at {name_of(register.base)}: a multiple of {step} is needed"
            raise self.error("alignment", reason)
        if over:
            reason = f"uses {name_of(register.keys[-1])}, .amdhsa_{directive} leaves {limit} registers"
            raise self.error("register-limit", reason)

    def base_or_off(self, operand: Operand | int, words: int, files: str) -> Register | None:
        """The operand as a register, None where it is `off`."""
        return None if self._operand(operand).value == Name("off") else self.register(operand, words, files)

    def source(
        self, operand: Operand | int, kind: str, files: str = "sv"
    ) -> tuple[tuple[int, ...], Callable[[Wave], int | Array]]:
        """Register keys of a source and a function that reads its bits.

        A vector source reads as an array of 64 lanes (uint32, or uint64 for pairs), a scalar one as an integer.
        """
        value, words = self._operand(operand).value, words_of(kind)
        if isinstance(value, Register):
            register = self.register(Operand(value), words, files)
            if register.is_vector:
                return tuple(register.keys), vector_reader(register)
            base = register.base
            return tuple(register.keys), lambda wave: wave.scalar(base, words)
        if isinstance(value, Name):
            if value.text not in _NAMED:
                raise self.text_error(f"{self.instruction.mnemonic}: '{value.text}' is not an operand")
            return _NAMED[value.text]
        bits = constant_bits(value, kind, self.instruction.line)
        return (), lambda _: bits

    def modifier(self, name: str, default: int, low: int, high: int, what: str = "") -> int:
        """The integer of a modifier, within the field of the encoding; `what` it is called."""
        text, what = self.instruction.modifiers.get(name), what or name
        if text is None:
            return default
        try:
            value = int(text, 0)
        except ValueError:
            raise self.text_error(f"{what} '{text}' is not a number") from None
        if not low <= value <= high:
            raise self.error("offset-range", f"{what} {value} is outside {low}..{high}")
        return value

    def immediate(self, operand: Operand | int, low: int, high: int) -> int:
        value = self._operand(operand).value
        if not isinstance(value, Integer) or not low <= value.value <= high:
            raise self.text_error(f"{self.instruction.mnemonic} takes a number from {low} to {high}")
        return value.value


def read_scc(wave: Wave) -> int:
    if wave.scc is None:
        raise wave.error("undefined-register", "reads scc, never written")
    return wave.scc


_NAMED: dict[str, tuple[tuple[int, ...], Callable[[Wave], int]]] = {
    "scc": ((), read_scc),
    "execz": ((), lambda wave: int(wave.exec_mask == 0)),
    "vccz": ((VCC, VCC + 1), lambda wave: int(wave.scalar(VCC, 2) == 0)),
}


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
