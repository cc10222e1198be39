"""Vector instructions whose constants and scalars are where their encoding takes them."""

from __future__ import annotations

from gfx942.expr.values import Values, word
from optimizer.kernels.amdgpu.ir import Instruction
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import Immediate, Operand, registers
from optimizer.kernels.amdgpu.validate import constant_problem


def file_of(operand: Operand) -> str:
    """Letter of a register's class, empty for what is no register."""
    found = registers(operand)
    return found[0].file if found else ""


def is_literal(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and not operand.is_inline()


def fits(name: str, *uses: Operand) -> bool:
    """Whether the instruction can be encoded with these operands."""
    return constant_problem(opcode(name), Instruction(name, (), uses)) is None


def legal_vector(values: Values, name: str, *operands: Operand | int) -> Operand:
    """Emit an instruction; operands change places or move to registers where its encoding asks for that."""
    uses = [word(o) if isinstance(o, int) else o for o in operands]
    while not fits(name, *uses):
        swapped = [*uses[1::-1], *uses[2:]]
        if opcode(name).commutative and fits(name, *swapped):
            uses = swapped
            break
        literals = [n for n, use in enumerate(uses) if is_literal(use)]
        scalars = [n for n, use in enumerate(uses) if file_of(use) == "s"]
        place = (literals or scalars)[-1]
        use = uses[place]
        if isinstance(use, Immediate):
            uses[place] = values.constant_register(use.value, in_vgpr=bool(scalars))
        else:
            uses[place] = values.builder.v_mov_b32(use)
    result: Operand = values.builder.emit(name, *uses)
    return result
