"""Atomic updates of LDS and global memory without a result (CDNA3 ISA, "DS" and "FLAT" atomics)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .access import check_alignment, update_bytes, update_device
from .decode import Decoder, Step
from .hazards import Traits
from .operands import VGPR, Name
from .parse import Instruction
from .state import Array, Wave, lanes_of
from .vmem import check_lds_order, check_scalar_loads, finish


def _add_floats(old: Array, positions: Array, values: Array) -> None:
    np.add.at(old.view(np.float32), positions, values.view(np.float32))


_LDS: dict[str, Callable[[Array, Array, Array], None]] = {
    "ds_add_u32": np.add.at,
    "ds_max_u32": np.maximum.at,
    "ds_min_u32": np.minimum.at,
    "ds_add_f32": _add_floats,
}
_GLOBAL: dict[str, Callable[[Array, Array, Array], None]] = {
    "global_atomic_add": np.add.at,
    "global_atomic_umax": np.maximum.at,
    "global_atomic_umin": np.minimum.at,
    "global_atomic_add_f32": _add_floats,
}
LDS_MNEMONICS = frozenset(_LDS)
GLOBAL_MNEMONICS = frozenset(_GLOBAL)


def decode_lds(instruction: Instruction, decoder: Decoder) -> Step:
    """ds_add_u32 and its like: address, data; lanes in order."""
    decoder.modifiers(instruction, "offset")
    decoder.arity(instruction, 2)
    address = decoder.register(instruction, instruction.operands[0], 1, "v").base
    data = decoder.register(instruction, instruction.operands[1], 1, "va").base
    offset = decoder.integer(instruction, instruction.modifiers.get("offset"), 0, 0, 65535, "LDS offset")
    operation = _LDS[instruction.mnemonic]

    def execute(wave: Wave) -> None:
        lanes = np.flatnonzero(lanes_of(wave.exec_mask))
        start = wave.vectors[address - VGPR][lanes].astype(np.int64) + offset
        values = wave.vectors[data - VGPR][lanes]
        check_alignment(wave, start, 4, "LDS access")
        lds = wave.workgroup.lds
        if lanes.size and int(start.max()) + 4 > lds.data.size:
            raise wave.error("lds-bounds", f"byte {int(start.max()) + 3}, the kernel has {lds.data.size} bytes of LDS")
        places = start[:, None] + np.arange(4)
        check_lds_order(wave, places, "vmcnt")
        done = update_bytes(wave, lds, places, lambda old, positions: operation(old, positions, values), "LDS")
        finish(wave, ("lgkmcnt",), True, (), [done], lds=places)

    return Step(instruction, Traits("lds", (address, data), ()), execute)


def decode_global(instruction: Instruction, decoder: Decoder) -> Step:
    """global_atomic_add and its like: address, data, base or off."""
    decoder.modifiers(instruction, "offset", "nt", "sc1")
    decoder.arity(instruction, 3)
    address, value, scalar = instruction.operands
    base = None if scalar.value == Name("off") else decoder.register(instruction, scalar, 2, "s")
    vector = decoder.register(instruction, address, 1 if base else 2, "v")
    data = decoder.register(instruction, value, 1, "va").base
    offset = decoder.integer(instruction, instruction.modifiers.get("offset"), 0, -4096, 4095, "global offset")
    operation = _GLOBAL[instruction.mnemonic]

    def execute(wave: Wave) -> None:
        lanes = np.flatnonzero(lanes_of(wave.exec_mask))
        first = vector.base - VGPR
        start = wave.vectors[first][lanes].astype(np.uint64) + np.uint64(offset % (1 << 64))
        if base is None:
            start = start + (wave.vectors[first + 1][lanes].astype(np.uint64) << np.uint64(32))
        else:
            start = start + np.uint64(wave.scalar(base.base, 2))
        values = wave.vectors[data - VGPR][lanes]
        check_alignment(wave, start, 4, "atomic update")
        check_scalar_loads(wave, start, 4)
        actions = update_device(wave, start, lambda old, positions, chosen: operation(old, positions, values[chosen]))
        finish(wave, ("vmcnt",), True, (), actions)

    reads = (*vector.keys, data, *(base.keys if base else ()))
    return Step(instruction, Traits("vmem", reads, ()), execute)
