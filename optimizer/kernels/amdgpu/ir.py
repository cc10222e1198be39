"""The kernel IR: a program is a list of instructions and labels; everything is frozen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from optimizer.kernels.amdgpu.operands import Operand, Register, VirtualReg, registers


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction or pseudo-instruction (its name begins with `_`)."""

    name: str
    defs: tuple[Operand, ...] = ()
    uses: tuple[Operand, ...] = ()
    target: str | None = None
    """Label of a branch."""
    modifiers: tuple[str, ...] = ()
    """Written behind the operands: offen, sc0, nt, ..."""
    comment: str = ""
    line: int | None = field(default=None, compare=False)
    """Of the text that it was read from, for messages; says nothing about the instruction."""

    @property
    def defined(self) -> tuple[Register, ...]:
        """Single registers written."""
        return tuple(r for operand in self.defs for r in registers(operand))

    @property
    def used(self) -> tuple[Register, ...]:
        """Single registers read, in operand order; one that is read twice occurs twice."""
        return tuple(r for operand in self.uses for r in registers(operand))

    def with_operands(self, defs: tuple[Operand, ...], uses: tuple[Operand, ...]) -> Instruction:
        return replace(self, defs=defs, uses=uses)


@dataclass(frozen=True, slots=True)
class Label:
    """Where branches lead."""

    name: str
    line: int | None = field(default=None, compare=False)


Item = Instruction | Label


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: a pointer to global memory (8 bytes) or a value."""

    name: str
    size: int = 8
    pointer: bool = True


@dataclass(frozen=True)
class Launch:
    """What the kernel descriptor says: how the kernel is started and what it owns."""

    workgroup: tuple[int, int, int] = (64, 1, 1)
    """Threads in x, y, z; a wave has 64."""
    arguments: tuple[Argument, ...] = ()
    workgroup_ids: int = 3
    """How many of the ids x, y, z are passed, in s2, s3, s4."""
    lds_bytes: int = 0
    scratch_bytes: int = 0
    """Per lane, for spills."""


@dataclass(frozen=True)
class Program:
    """A kernel before or after allocation."""

    body: tuple[Item, ...]
    name: str = "kernel"
    max_vgprs: int = 256
    max_sgprs: int = 102
    max_agprs: int = 256
    reserved_vgprs: frozenset[int] = frozenset()
    """Registers that the allocator never touches. Registers that the program names itself need not be reserved: they
    are taken while they are live."""
    reserved_sgprs: frozenset[int] = frozenset()
    precolored: tuple[tuple[VirtualReg, int], ...] = ()
    """Virtual registers with a prescribed physical one, ascending. One that is never defined is live at entry."""
    redefinable: frozenset[VirtualReg] = frozenset()
    """Loop counters and accumulators: registers with several definitions, one value each over its whole web."""
    launch: Launch = field(default_factory=Launch)

    @cached_property
    def instructions(self) -> tuple[tuple[int, Instruction], ...]:
        """Instructions with their place in the body (labels count)."""
        return tuple((i, item) for i, item in enumerate(self.body) if isinstance(item, Instruction))

    def at(self, places: Iterable[int]) -> Iterator[tuple[int, Instruction]]:
        """Those of the places that hold instructions."""
        return ((place, item) for place in places if isinstance(item := self.body[place], Instruction))

    @cached_property
    def definitions(self) -> Counter[Register]:
        """How many instructions define each register."""
        return Counter({r: len(places) for r, places in self.definers.items()})

    @cached_property
    def users(self) -> dict[Register, list[int]]:
        """Places of the instructions that read each register, ascending."""
        found: dict[Register, list[int]] = {}
        for place, item in self.instructions:
            for register in dict.fromkeys(item.used):
                found.setdefault(register, []).append(place)
        return found

    @cached_property
    def definers(self) -> dict[Register, list[int]]:
        """Places of the instructions that write each register, ascending."""
        found: dict[Register, list[int]] = {}
        for place, item in self.instructions:
            for register in dict.fromkeys(item.defined):
                found.setdefault(register, []).append(place)
        return found

    @cached_property
    def virtual_registers(self) -> tuple[VirtualReg, ...]:
        """Every single virtual register that occurs, ascending."""
        found = {r for _, i in self.instructions for r in (*i.defined, *i.used) if isinstance(r, VirtualReg)}
        return tuple(sorted(found))

    @cached_property
    def single_definitions(self) -> set[VirtualReg]:
        """Registers defined once and not prescribed."""
        prescribed = {r for r, _ in self.precolored}
        once = {r for r, n in self.definitions.items() if n == 1 and isinstance(r, VirtualReg)}
        return once - prescribed

    def capacity(self, file: str) -> int:
        """Registers of a class that may be taken."""
        return {"v": self.max_vgprs, "s": self.max_sgprs, "a": self.max_agprs}[file]

    def reserved(self, file: str) -> frozenset[int]:
        """Registers of a class that the allocator never touches."""
        return {"v": self.reserved_vgprs, "s": self.reserved_sgprs}.get(file, frozenset())

    def next_number(self, file: str) -> int:
        """A number above those of all virtual registers of a class."""
        return max((r.number + 1 for r in self.virtual_registers if r.file == file), default=0)

    def where(self, place: int) -> str:
        """An item for messages: its line if it was read from text, its place in the body, its opcode."""
        item = self.body[place]
        told = f"instruction {place} ({item.name})" if isinstance(item, Instruction) else f"item {place}"
        return told if item.line is None else f"line {item.line}, {told}"

    def spot(self, place: int) -> str:
        """The same within a sentence, as short as it can be told: the line or the place in the body."""
        line = self.body[place].line
        return str(place) if line is None else f"line {line}"

    def with_body(self, body: tuple[Item, ...]) -> Program:
        return replace(self, body=body)
