"""What a program stores, with uninterpreted instructions: the same before and after allocation, whatever is rewritten.

Every instruction's results are opaque values made of its name and its operands' values; moves, spills and integer loop
control are executed. Registers are places, virtual ones or, with a mapping, physical ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optimizer.kernels.amdgpu.ir import Instruction, Label, Program
from optimizer.kernels.amdgpu.opcodes import OPCODES
from optimizer.kernels.amdgpu.operands import (
    Immediate,
    MemOffset,
    Operand,
    PhysicalReg,
    Register,
    VirtualReg,
    registers,
)

_STEPS = 20_000


class Machine:
    def __init__(self, program: Program, mapping: Mapping[VirtualReg, int] | None = None) -> None:
        self._program = program
        self._mapping = mapping
        self._held: dict[Register, Any] = {}
        self._lanes: dict[Register, dict[int, Any]] = {}
        self._scratch: dict[int, Any] = {}
        self.stored: list[tuple[Any, ...]] = []
        self._scc = False

    def run(self) -> list[tuple[Any, ...]]:
        """Everything stored, in order."""
        labels = {item.name: n for n, item in enumerate(self._program.body) if isinstance(item, Label)}
        place = steps = 0
        while True:
            steps += 1
            assert steps < _STEPS
            item = self._program.body[place]
            place += 1
            if isinstance(item, Label):
                continue
            if item.name == "s_endpgm":
                return self.stored
            if OPCODES[item.name].is_branch:
                taken = {"s_cbranch_scc0": not self._scc, "s_cbranch_scc1": self._scc, "s_branch": True}[item.name]
                place = labels[item.target or ""] if taken else place
            else:
                self._execute(item)

    def _home(self, register: Register) -> Register:
        if self._mapping is None or isinstance(register, PhysicalReg):
            return register
        return PhysicalReg(register.file, self._mapping[register])

    def _read(self, operand: Operand) -> Any:
        if isinstance(operand, Immediate):
            return operand.value
        found = [self._held.get(self._home(r), str(self._home(r))) for r in registers(operand)]
        return found[0] if len(found) == 1 else tuple(found) if found else str(operand)

    def _execute(self, item: Instruction) -> None:
        name = item.name
        if name == "v_writelane_b32":
            lanes = self._lanes.setdefault(self._home(item.defined[0]), {})
            lanes[self._read(item.uses[1])] = self._read(item.uses[0])
        elif name == "v_readlane_b32":
            self._write(item, [self._lanes[self._home(item.used[0])][self._read(item.uses[1])]])
        elif name == "scratch_store_dword":
            self._scratch[_offset(item)] = self._read(item.uses[1])
        elif name == "scratch_load_dword":
            self._write(item, [self._scratch[_offset(item)]])
        elif name.startswith(("v_mov", "s_mov", "v_accvgpr")):
            self._write(item, [self._read(item.uses[0])])
        elif name == "s_add_u32":
            self._write(item, [self._read(item.uses[0]) + self._read(item.uses[1])])
        elif name.startswith("s_cmp"):
            a, b = (self._read(u) for u in item.uses)
            self._scc = a < b if isinstance(a, int) else hash((len(self.stored), b)) % 2 == 0
        elif item.defs:
            value = hash((name, *(self._read(u) for u in item.uses)))
            self._write(item, [hash((value, n)) for n in range(len(item.defined))])
        elif name != "s_waitcnt":
            self.stored.append((name, *(self._read(u) for u in item.uses)))

    def _write(self, item: Instruction, values: list[Any]) -> None:
        for register, value in zip(item.defined, values, strict=True):
            self._held[self._home(register)] = value


def _offset(item: Instruction) -> int:
    return next(u.value for u in item.uses if isinstance(u, MemOffset))


def stores(program: Program, mapping: Mapping[VirtualReg, int] | None = None) -> list[tuple[Any, ...]]:
    """What a run of the program stores."""
    return Machine(program, mapping).run()
