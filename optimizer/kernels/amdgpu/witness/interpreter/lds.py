"""LDS instructions: reads and writes of one or two places per lane, atomic updates, permutation of lanes.

Source: CDNA3 ISA, chapter "Local Data Share".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import TextError
from .access import add_floats, check_alignment, read_bytes, update_bytes, write_bytes
from .decode import Decoder, Step
from .hazards import Traits
from .operands import VGPR
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
_UPDATES: dict[str, Callable[[Array, Array, Array], None]] = {
    "ds_add_u32": np.add.at,
    "ds_max_u32": np.maximum.at,
    "ds_min_u32": np.minimum.at,
    "ds_add_f32": add_floats,
}
MNEMONICS = frozenset((*_TABLE, *_PERMUTES, *_UPDATES))


def decode(d: Decoder) -> Step:
    """ds_read*, ds_write*, ds_add and its like, ds_bpermute, ds_permute, ds_swizzle."""
    name = d.instruction.mnemonic
    if name in _PERMUTES:
        return _decode_permute(d)
    if name in _UPDATES:
        return _decode_update(d, _UPDATES[name])
    form = _TABLE[name]
    offsets = _offsets(d, form)
    return (_decode_read if form.verb == "read" else _decode_write)(d, form, offsets)


def _offsets(d: Decoder, form: _Form) -> list[int]:
    if form.places == 1:
        d.modifiers("offset")
        return [d.modifier("offset", 0, 0, 65535, "LDS offset")]
    names = ("offset0", "offset1")
    d.modifiers(*names)
    return [form.unit * d.modifier(name, 0, 0, 255, f"LDS {name}") for name in names]


def _starts(wave: Wave, address: int, offset: int, size: int) -> Array:
    """Where `size` bytes begin for each active lane."""
    lanes = np.flatnonzero(lanes_of(wave.exec_mask))
    start: Array = wave.vectors[address - VGPR][lanes].astype(np.int64) + offset
    check_alignment(wave, start, size, "LDS access")
    return start


def _places(wave: Wave, address: int, offset: int, size: int) -> Array:
    start = _starts(wave, address, offset, size)
    total = wave.workgroup.lds.data.size
    if start.size and int(start.max()) + size > total:
        lane = int(np.flatnonzero(lanes_of(wave.exec_mask))[int(np.argmax(start))])
        last = int(start.max())
        reason = f"bytes {last}..{last + size - 1} in lane {lane}, the kernel has {total} bytes of LDS"
        raise wave.error("lds-bounds", reason)
    places: Array = start[:, None] + np.arange(size)
    return places


def _decode_read(d: Decoder, form: _Form, offsets: list[int]) -> Step:
    d.arity(2)
    target = d.register(0, form.words * form.places, "va")
    address = d.register(1, 1, "v").base

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
    return d.step(Traits("lds", (address, *kept), tuple(target.keys)), execute)


def _decode_write(d: Decoder, form: _Form, offsets: list[int]) -> Step:
    d.arity(1 + form.places)
    address = d.register(0, 1, "v").base
    data = [d.register(n, form.words, "va") for n in range(1, 1 + form.places)]

    def execute(wave: Wave) -> None:
        actions = []
        touched = [_places(wave, address, offset, form.size) for offset in offsets]
        for register, places in zip(data, touched, strict=True):
            check_lds_order(wave, places, "vmcnt")
            raw = take(wave, register, form.name, min(form.size, 4)).reshape(places.shape)
            actions.append(write_bytes(wave, wave.workgroup.lds, places, raw, "LDS"))
        finish(wave, ("lgkmcnt",), True, (), actions, lds=np.concatenate(touched))

    reads = (address, *(key for register in data for key in register.keys))
    return d.step(Traits("lds", reads, ()), execute)


def _decode_update(d: Decoder, operation: Callable[[Array, Array, Array], None]) -> Step:
    """ds_add_u32 and its like, without a result: address, data; lanes in order (CDNA3 ISA, "DS" atomics)."""
    d.modifiers("offset")
    d.arity(2)
    address, data = d.register(0, 1, "v").base, d.register(1, 1, "va").base
    offset = d.modifier("offset", 0, 0, 65535, "LDS offset")

    def execute(wave: Wave) -> None:
        start = _starts(wave, address, offset, 4)
        values = wave.vectors[data - VGPR][np.flatnonzero(lanes_of(wave.exec_mask))]
        lds = wave.workgroup.lds
        if start.size and int(start.max()) + 4 > lds.data.size:
            raise wave.error("lds-bounds", f"byte {int(start.max()) + 3}, the kernel has {lds.data.size} bytes of LDS")
        places = start[:, None] + np.arange(4)
        check_lds_order(wave, places, "vmcnt")
        done = update_bytes(wave, lds, places, lambda old, positions: operation(old, positions, values), "LDS")
        finish(wave, ("lgkmcnt",), True, (), [done], lds=places)

    return d.step(Traits("lds", (address, data), ()), execute)


# -- permutation ---------------------------------------------------------------------------------------
def _decode_permute(d: Decoder) -> Step:
    """Lanes exchange one VGPR through the LDS hardware without touching its memory."""
    d.modifiers("offset")
    name = d.instruction.mnemonic
    swizzles = name == "ds_swizzle_b32"
    d.arity(2 if swizzles else 3)
    target, address = d.register(0, 1, "v"), d.register(1, 1, "v")
    data = address if swizzles else d.register(2, 1, "v")
    text = d.instruction.modifiers.get("offset", "0")
    pattern = _swizzle(text, d.instruction.line) if swizzles else None
    offset = 0 if swizzles else d.modifier("offset", 0, 0, 65535, "LDS offset")

    def execute(wave: Wave) -> None:
        active = lanes_of(wave.exec_mask)
        lanes = np.arange(64)
        chosen = (
            pattern if pattern is not None else (wave.vectors[address.base - VGPR] + offset >> 2 & 63).astype(np.int64)
        )
        if name == "ds_permute_b32":
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
    return d.step(Traits("lds", reads, (target.base,)), execute)


def _swizzle(text: str, line: int) -> Array:
    """The lane each lane reads: 0x8000 set, a quad permutation; otherwise and, or, xor masks in groups of 32."""
    bits, lane = swizzle_pattern(text, line), np.arange(64)
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
