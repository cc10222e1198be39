"""Which module decodes which mnemonic, and the instructions that only control a wave."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from . import lds, mfma, scalar, vector, vmem
from .decode import Decoder, Execute, Step
from .descriptor import ONLY_GFX950, Descriptor
from .hazards import Traits
from .parse import Program
from .state import Wave

# Changes of priority, hints and cache control: nothing the witness computes depends on them.
_NEUTRAL = frozenset(
    {"s_setprio", "s_sleep", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "buffer_wbl2", "buffer_inv"}
)
_FLOW = frozenset({"s_endpgm", "s_barrier", "s_nop", "s_waitcnt"}) | _NEUTRAL


Unit = Callable[[Decoder], Step]
"""Makes a step of an instruction whose mnemonic is in its table."""


def _decode_flow(d: Decoder) -> Step:
    return d.step(Traits("flow", (), ()), _flow(d))


def _flow(d: Decoder) -> Execute:
    """What an instruction does that only controls a wave."""
    if d.instruction.mnemonic == "s_waitcnt":
        limits = {counter: int(value) for counter, value in d.instruction.modifiers.items() if counter != "expcnt"}

        def wait(wave: Wave) -> None:
            for counter, limit in limits.items():
                wave.waits.wait(counter, limit)

        return wait
    if d.instruction.mnemonic == "s_nop":
        d.arity(1)
        states = 1 + d.immediate(0, 0, 15)
        return lambda wave: setattr(wave, "nop_states", states)
    if d.instruction.mnemonic == "s_endpgm":
        return lambda wave: setattr(wave, "finished", True)
    return lambda _: None


_UNITS: tuple[tuple[Iterable[str], Unit], ...] = (
    (scalar.MNEMONICS, scalar.decode),
    (vector.MNEMONICS, vector.decode),
    (vector.LANE_MNEMONICS, vector.decode_lane),
    (vector.ACC_MNEMONICS, vector.decode_acc),
    (mfma.MNEMONICS, mfma.decode),
    (vmem.SMEM_MNEMONICS, vmem.decode_scalar_load),
    (vmem.MNEMONICS, vmem.decode),
    (vmem.ATOMIC_MNEMONICS, vmem.decode_atomic),
    (lds.MNEMONICS, lds.decode),
    (("s_memtime",), vmem.decode_time),
    (_FLOW, _decode_flow),
)
UNITS: dict[str, Unit] = {name: unit for names, unit in _UNITS for name in names}
MNEMONICS = tuple(sorted([*UNITS, *scalar.BRANCHES]))


def decode_program(program: Program, descriptor: Descriptor) -> list[Step]:
    """Decode one kernel's instructions, from its label to the next kernel's; positions count from that label."""
    start = program.labels[descriptor.name]
    others = [program.labels[name] for name in program.descriptors if program.labels.get(name, -1) > start]
    end = min(others, default=len(program.instructions))
    labels = {name: place - start for name, place in program.labels.items() if start <= place <= end}
    steps = []
    for instruction in program.instructions[start:end]:
        d = Decoder(instruction, descriptor, program.processor)
        if instruction.mnemonic in scalar.BRANCHES:
            steps.append(scalar.decode_branch(d, labels))
            continue
        unit = UNITS.get(instruction.mnemonic)
        if unit is None:
            near = tuple(difflib.get_close_matches(instruction.mnemonic, MNEMONICS, 3))
            raise d.text_error(f"the witness does not know '{instruction.mnemonic}'", near)
        if instruction.mnemonic in ONLY_GFX950 and d.processor.name != "gfx950":
            raise d.text_error(f"{d.processor.name} has no '{instruction.mnemonic}': gfx950 has")
        steps.append(unit(d))
    return steps
