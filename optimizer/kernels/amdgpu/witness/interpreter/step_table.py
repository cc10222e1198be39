"""Which module decodes which mnemonic, and the instructions that only control a wave."""

from __future__ import annotations

import difflib

from ..errors import TextError
from . import atomics, lds, mfma, scalar, vector, vmem
from .decode import Decoder, Step, Unit
from .descriptor import Descriptor
from .hazards import Traits
from .parse import Instruction, Program
from .processors import ONLY_GFX950
from .state import Wave

# Changes of priority, hints and cache control: nothing the witness computes depends on them.
_NEUTRAL = frozenset(
    {"s_setprio", "s_sleep", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "buffer_wbl2", "buffer_inv"}
)
_FLOW = frozenset({"s_endpgm", "s_barrier", "s_nop", "s_waitcnt"}) | _NEUTRAL


def _units() -> dict[str, Unit]:
    table: dict[str, Unit] = {}
    for names, unit in (
        (scalar.MNEMONICS, scalar.decode),
        (vector.MNEMONICS, vector.decode),
        (vector.LANE_MNEMONICS, vector.decode_lane),
        (vector.ACC_MNEMONICS, vector.decode_acc),
        (mfma.MNEMONICS, mfma.decode),
        (vmem.SMEM_MNEMONICS, vmem.decode_scalar_load),
        (vmem.MNEMONICS, vmem.decode),
        (lds.MNEMONICS, lds.decode),
        (atomics.LDS_MNEMONICS, atomics.decode_lds),
        (atomics.GLOBAL_MNEMONICS, atomics.decode_global),
        (frozenset({"s_memtime"}), vmem.decode_time),
        (_FLOW, _decode_flow),
    ):
        table |= dict.fromkeys(names, unit)
    return table


def _decode_flow(instruction: Instruction, decoder: Decoder) -> Step:
    name = instruction.mnemonic
    if name == "s_waitcnt":
        limits = {counter: int(value) for counter, value in instruction.modifiers.items() if counter != "expcnt"}

        def wait(wave: Wave) -> None:
            for counter, limit in limits.items():
                wave.waits.wait(counter, limit)

        return Step(instruction, Traits("flow", (), ()), wait)
    if name == "s_nop":
        decoder.arity(instruction, 1)
        states = 1 + decoder.immediate(instruction, instruction.operands[0], 0, 15)

        def idle(wave: Wave) -> None:
            wave.nop_states = states

        return Step(instruction, Traits("flow", (), ()), idle)
    if name == "s_endpgm":

        def end(wave: Wave) -> None:
            wave.finished = True

        return Step(instruction, Traits("flow", (), ()), end)
    return Step(instruction, Traits("flow", (), ()), lambda _: None)


UNITS = _units()
MNEMONICS = tuple(sorted([*UNITS, *scalar.BRANCHES]))


def decode_program(program: Program, descriptor: Descriptor) -> list[Step]:
    """Decode one kernel's instructions, from its label to the next kernel's; positions count from that label."""
    decoder = Decoder(descriptor, program.processor)
    start = program.labels[descriptor.name]
    others = [program.labels[name] for name in program.descriptors if program.labels.get(name, -1) > start]
    end = min(others, default=len(program.instructions))
    labels = {name: place - start for name, place in program.labels.items() if start <= place <= end}
    steps = []
    for instruction in program.instructions[start:end]:
        if instruction.mnemonic in scalar.BRANCHES:
            steps.append(scalar.decode_branch(instruction, labels))
            continue
        unit = UNITS.get(instruction.mnemonic)
        if unit is None:
            near = tuple(difflib.get_close_matches(instruction.mnemonic, MNEMONICS, 3))
            raise TextError(f"the witness does not know '{instruction.mnemonic}'", instruction.line, near)
        if instruction.mnemonic in ONLY_GFX950 and program.processor.name != "gfx950":
            raise TextError(f"{program.processor.name} has no '{instruction.mnemonic}': gfx950 has", instruction.line)
        steps.append(unit(instruction, decoder))
    return steps
