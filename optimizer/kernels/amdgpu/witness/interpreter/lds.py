"""LDS instructions: reads and writes of one or two places per lane, permutation of lanes.

Source: CDNA3 ISA, chapter "Local Data Share".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..errors import TextError
from .access import check_alignment, read_bytes, write_bytes
from .decode import Decoder, Step
from .hazards import Traits
from .operands import VGPR
from .parse import Instruction
from .state import Array, Wave, lanes_of, mask_of
from .vmem import check_lds_order, finish, put, take


@dataclass(frozen=True, slots=True)
class _Form:
    """`places` per lane, each of `words` registers (or `size` bytes when less), offsets in units of `unit` bytes."""

    name: str
    verb: str
    places: int
    words: int
    size: int
    unit: int


def _forms() -> dict[str, _Form]:
    table = {}
    for bits in (32, 64, 96, 128):
        for verb in ("read", "write"):
            table[f"ds_{verb}_b{bits}"] = _Form("", verb, 1, bits // 32, bits // 8, 1)
    for name, size in (("u8", 1), ("i8", 1), ("u16", 2), ("i16", 2), ("u16_d16", 2), ("u16_d16_hi", 2)):
        table[f"ds_read_{name}"] = _Form(name, "read", 1, 1, size, 1)
    for name, size in (("b8", 1), ("b16", 2), ("b16_d16_hi", 2)):
        table[f"ds_write_{name}"] = _Form(name, "write", 1, 1, size, 1)
    for bits in (32, 64):
        for verb in ("read", "write"):
            table[f"ds_{verb}2_b{bits}"] = _Form("", verb, 2, bits // 32, bits // 8, bits // 8)
            table[f"ds_{verb}2st64_b{bits}"] = _Form("", verb, 2, bits // 32, bits // 8, 8 * bits)
    return table


_TABLE = _forms()
_PERMUTES = frozenset({"ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32"})
MNEMONICS = frozenset(_TABLE) | _PERMUTES


def decode(instruction: Instruction, decoder: Decoder) -> Step:
    """ds_read*, ds_write*, ds_bpermute, ds_permute, ds_swizzle."""
    if instruction.mnemonic in _PERMUTES:
        return _decode_permute(instruction, decoder)
    form = _TABLE[instruction.mnemonic]
    offsets = _offsets(instruction, decoder, form)
    if form.verb == "read":
        return _decode_read(instruction, decoder, form, offsets)
    return _decode_write(instruction, decoder, form, offsets)


def _offsets(instruction: Instruction, decoder: Decoder, form: _Form) -> list[int]:
    given = instruction.modifiers
    if form.places == 1:
        decoder.modifiers(instruction, "offset")
        return [decoder.integer(instruction, given.get("offset"), 0, 0, 65535, "LDS offset")]
    decoder.modifiers(instruction, "offset0", "offset1")
    names = ("offset0", "offset1")
    return [form.unit * decoder.integer(instruction, given.get(name), 0, 0, 255, f"LDS {name}") for name in names]


def _places(wave: Wave, address: int, offset: int, size: int) -> Array:
    lanes = np.flatnonzero(lanes_of(wave.exec_mask))
    start = wave.vectors[address - VGPR][lanes].astype(np.int64) + offset
    check_alignment(wave, start, size, "LDS access")
    total = wave.workgroup.lds.data.size
    if lanes.size and int(start.max()) + size > total:
        lane = int(lanes[int(np.argmax(start))])
        last = int(start.max())
        reason = f"bytes {last}..{last + size - 1} in lane {lane}, the kernel has {total} bytes of LDS"
        raise wave.error("lds-bounds", reason)
    places: Array = start[:, None] + np.arange(size)
    return places


def _decode_read(instruction: Instruction, decoder: Decoder, form: _Form, offsets: list[int]) -> Step:
    decoder.arity(instruction, 2)
    target = decoder.register(instruction, instruction.operands[0], form.words * form.places, "va")
    address = decoder.register(instruction, instruction.operands[1], 1, "v").base

    def execute(wave: Wave) -> None:
        parts, actions = [], []
        touched = [_places(wave, address, offset, form.size) for offset in offsets]
        for places in touched:
            check_lds_order(wave, places, "vmcnt")
            raw, done = read_bytes(wave, wave.workgroup.lds, places, "LDS")
            parts.append(raw)
            actions.append(done)
        width = min(form.size, 4)
        put(wave, target, form.name, np.concatenate(parts, axis=1).reshape(-1, target.count, width))
        finish(wave, ("lgkmcnt",), True, tuple(target.keys), actions, lds=np.concatenate(touched))

    kept = tuple(target.keys) if "d16" in form.name else ()
    traits = Traits("lds", (address, *kept), tuple(target.keys))
    return Step(instruction, traits, execute)


def _decode_write(instruction: Instruction, decoder: Decoder, form: _Form, offsets: list[int]) -> Step:
    decoder.arity(instruction, 1 + form.places)
    address = decoder.register(instruction, instruction.operands[0], 1, "v").base
    data = [decoder.register(instruction, operand, form.words, "va") for operand in instruction.operands[1:]]

    def execute(wave: Wave) -> None:
        actions = []
        touched = [_places(wave, address, offset, form.size) for offset in offsets]
        for register, places in zip(data, touched, strict=True):
            check_lds_order(wave, places, "vmcnt")
            raw = take(wave, register, form.name, min(form.size, 4)).reshape(places.shape)
            actions.append(write_bytes(wave, wave.workgroup.lds, places, raw, "LDS"))
        finish(wave, ("lgkmcnt",), True, (), actions, lds=np.concatenate(touched))

    reads = (address, *(key for register in data for key in register.keys))
    return Step(instruction, Traits("lds", reads, ()), execute)


# -- permutation ---------------------------------------------------------------------------------------
def _decode_permute(instruction: Instruction, decoder: Decoder) -> Step:
    """Lanes exchange one VGPR through the LDS hardware without touching its memory."""
    decoder.modifiers(instruction, "offset")
    swizzles = instruction.mnemonic == "ds_swizzle_b32"
    decoder.arity(instruction, 2 if swizzles else 3)
    target = decoder.register(instruction, instruction.operands[0], 1, "v")
    address = decoder.register(instruction, instruction.operands[1], 1, "v")
    data = address if swizzles else decoder.register(instruction, instruction.operands[2], 1, "v")
    text = instruction.modifiers.get("offset", "0")
    pattern = _swizzle(instruction, text) if swizzles else None
    offset = 0 if swizzles else decoder.integer(instruction, text, 0, 0, 65535, "LDS offset")

    def execute(wave: Wave) -> None:
        active = lanes_of(wave.exec_mask)
        lanes = np.arange(64)
        chosen = (
            pattern if pattern is not None else (wave.vectors[address.base - VGPR] + offset >> 2 & 63).astype(np.int64)
        )
        if instruction.mnemonic == "ds_permute_b32":
            source = np.full(64, -1)
            source[chosen[active]] = lanes[active]
        else:
            source = np.where(active[chosen], chosen, -1)
        needed = np.zeros(64, np.bool_)
        needed[source[active & (source >= 0)]] = True
        wave.require_known(data.keys, mask_of(needed))
        moved = np.where(source >= 0, wave.vectors[data.base - VGPR][np.maximum(source, 0)], np.uint32(0))
        wave.set_vector(target.base, moved, wave.exec_mask)
        finish(wave, ("lgkmcnt",), True, (target.base,), [])

    reads = tuple({address.base: None, data.base: None})
    return Step(instruction, Traits("lds", reads, (target.base,)), execute)


def _swizzle(instruction: Instruction, text: str) -> Array:
    """The lane each lane reads: 0x8000 set, a quad permutation; otherwise and, or, xor masks in groups of 32."""
    bits, lane = swizzle_pattern(text, instruction.line), np.arange(64)
    if bits & 0x8000:
        order = np.array([bits >> 2 * position & 3 for position in range(4)])
        quads: Array = (lane & ~3) + order[lane & 3]
        return quads
    low = ((lane & 31 & (bits & 31)) | bits >> 5 & 31) ^ bits >> 10 & 31
    return (lane & 32) + low


def swizzle_pattern(text: str, line: int) -> int:
    """The 16 bits of a swizzle: a number, or `swizzle(SWAP,16)` and its like as LLVM's assembler defines them."""
    match = re.fullmatch(r"swizzle\((\w+),(.*)\)", text)
    if match is None:
        return int(text, 0)
    if match[1] == "BITMASK_PERM":
        letters = match[2].strip(' "')
        masks = {"0": (0, 0, 0), "1": (0, 1, 0), "p": (1, 0, 0), "i": (1, 0, 1)}
        chosen = [masks[letter] for letter in reversed(letters)]
        return sum(bit << 5 * field + place for place, mask in enumerate(chosen) for field, bit in enumerate(mask))
    numbers = [int(word, 0) for word in match[2].split(",")]
    if match[1] == "QUAD_PERM":
        return 0x8000 | sum(lane << 2 * position for position, lane in enumerate(numbers))
    if match[1] == "BROADCAST":
        return 32 - numbers[0] | numbers[1] << 5
    if match[1] in ("SWAP", "REVERSE"):
        return 31 | (numbers[0] - (match[1] == "REVERSE")) << 10
    raise TextError(
        f"unknown swizzle '{match[1]}'", line, ("QUAD_PERM", "BITMASK_PERM", "BROADCAST", "SWAP", "REVERSE")
    )
