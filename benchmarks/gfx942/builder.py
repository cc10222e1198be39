"""Writing programs: one method per opcode, made from the table of opcodes.

    b = KernelBuilder("scale")
    pointer = b.s_load_dwordx2(KERNARG, 0)           # returns the register range it defines
    address = b.v_lshlrev_b32(2, THREAD_ID)
    x = b.global_load_dword(address, pointer, offset=16)
    b.global_store_dword(address, b.v_mul_f32(2.0, x), pointer)
    b.s_endpgm()
    program = b.program()

Arguments are the uses in the order of the table; integers are immediates, floats the bit pattern of the opcode's type.
`dst=` writes to a given register instead of a new one (a tuple for two definitions); a register written twice is listed
as redefinable. Tied operands are arguments too: where the instruction updates them, pass `dst=` the same register.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from optimizer.errors import StateError
from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Launch, Program
from optimizer.kernels.amdgpu.opcodes import OPCODES, Opcode, opcode
from optimizer.kernels.amdgpu.operands import (
    Immediate,
    MemOffset,
    Operand,
    RegOperand,
    RegRange,
    VirtualReg,
    WaitCount,
    registers,
)
from optimizer.kernels.amdgpu.validate import check_operands, required_alignment

Value = Operand | int | float
Emit = Callable[..., Any]


class KernelBuilder:
    """Collects instructions; every one is checked as it is added."""

    def __init__(self, name: str = "kernel", launch: Launch | None = None) -> None:
        self._name = name
        self._launch = launch or Launch()
        self._body: list[Item] = []
        self._parts: list[list[Item]] = [self._body]
        self._next = {"v": 0, "s": 0, "a": 0}
        self._labels = 0
        self._defined: set[VirtualReg] = set()
        self._redefinable: set[VirtualReg] = set()

    # -- registers ------------------------------------------------------------------------------------------------
    def vgpr(self, count: int = 1, alignment: int | None = None) -> Any:
        """A new virtual VGPR, or a range of them; `alignment` is what the hardware asks for unless given."""
        return self._new("v", count, alignment)

    def sgpr(self, count: int = 1, alignment: int | None = None) -> Any:
        """A new virtual SGPR, or a range of them."""
        return self._new("s", count, alignment)

    def redefinable(self, operand: RegOperand) -> Any:
        """Allow several definitions (loop counters, accumulators); returns the operand."""
        self._redefinable.update(r for r in registers(operand) if isinstance(r, VirtualReg))
        return operand

    def _new(self, file: str, count: int, alignment: int | None) -> VirtualReg | RegRange:
        base = VirtualReg(file, self._next[file])
        self._next[file] += count
        if count == 1:
            return base
        return RegRange(base, count, required_alignment(file, count) if alignment is None else alignment)

    # -- places ---------------------------------------------------------------------------------------------------
    def gap(self) -> list[Item]:
        """A place here that `inserting` fills later, and to which nothing else is added."""
        gap: list[Item] = []
        self._body = []
        self._parts += [gap, self._body]
        return gap

    @contextmanager
    def inserting(self, gap: list[Item]) -> Iterator[None]:
        """Add at the end of a gap instead of at the end of the program."""
        if not any(part is gap for part in self._parts):
            raise StateError("the gap belongs to another program")
        before, self._body = self._body, gap
        try:
            yield
        finally:
            self._body = before

    # -- items ----------------------------------------------------------------------------------------------------
    def new_label(self, stem: str = "label") -> str:
        """A label's name that is not taken; `label` places it."""
        self._labels += 1
        return f"{stem}_{self._labels - 1}"

    def label(self, name: str) -> str:
        """Place a label here."""
        self._body.append(Label(name))
        return name

    def wait(self, vmcnt: int | None = None, lgkmcnt: int | None = None) -> None:
        """s_waitcnt."""
        counters = (("vmcnt", vmcnt), ("lgkmcnt", lgkmcnt))
        self.append(Instruction("s_waitcnt", (), tuple(WaitCount(c, n) for c, n in counters if n is not None)))

    def append(self, instruction: Instruction) -> None:
        """Add an instruction as it is, after checking it."""
        check_operands(instruction, f"instruction {sum(map(len, self._parts))} ({instruction.name})")
        for register in instruction.defined:
            if isinstance(register, VirtualReg):
                if register in self._defined:
                    self._redefinable.add(register)
                self._defined.add(register)
        self._body.append(instruction)

    def emit(
        self,
        name: str,
        *uses: Value,
        dst: Operand | Sequence[Operand] | None = None,
        offset: int | None = None,
        target: str | None = None,
        modifiers: Sequence[str] = (),
        comment: str = "",
    ) -> Any:
        """Add an instruction by its name; returns the definition, a tuple if there are two, None if there is none."""
        known = opcode(name)
        operands = [self._operand(known, use) for use in uses]
        if offset is not None:
            if not known.has_offset:
                raise OperandError(f"{name} has no offset field", node=name)
            place = next(n for n, spec in enumerate(known.uses) if spec.kind == "o")
            operands.insert(place, MemOffset(offset))
        if dst is None:
            defs = tuple(self._destination(known, n, operands) for n in range(len(known.defs)))
        else:
            defs = tuple(dst) if isinstance(dst, Sequence) else (dst,)
        self.append(Instruction(name, defs, tuple(operands), target, tuple(modifiers), comment))
        return None if not defs else defs[0] if len(defs) == 1 else defs

    def _destination(self, known: Opcode, number: int, uses: list[Operand]) -> Operand:
        spec = known.defs[number]
        if spec.kind in "sm":
            return self._new("s", 2 if spec.kind == "m" else spec.width, None)
        in_agpr = spec.kind == "a"
        if known.format == "MAI" and registers(uses[2]):
            in_agpr = registers(uses[2])[0].file == "a"
        return self._new("a" if in_agpr else "v", spec.width, None)

    @staticmethod
    def _operand(known: Opcode, value: Value) -> Operand:
        if isinstance(value, bool):
            raise OperandError(f"{value} is no operand of {known.name}", node=known.name)
        if isinstance(value, int):
            return Immediate(value)
        if isinstance(value, float):
            return Immediate.f16(value) if known.name.endswith("_f16") else Immediate.f32(value)
        return value

    def __getattr__(self, name: str) -> Emit:
        if name not in OPCODES:
            if name.startswith(("v_", "s_", "ds_", "buffer_", "global_", "scratch_")):
                opcode(name)
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")
        known = OPCODES[name]

        def emit(*uses: Value, **options: Any) -> Any:
            if known.is_branch:
                return self.emit(name, target=str(uses[0]), **options)
            return self.emit(name, *uses, **options)

        return emit

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *OPCODES})

    def program(self, **fields: Any) -> Program:
        """The finished program; `fields` are further ones of `Program`."""
        return Program(
            tuple(item for part in self._parts for item in part),
            self._name,
            redefinable=frozenset(self._redefinable),
            launch=self._launch,
            **fields,
        )
