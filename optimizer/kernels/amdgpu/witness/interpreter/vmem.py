"""Scalar and vector memory: s_load, buffer_*, global_*, flat_*, scratch_* (CDNA3 ISA, chapters of that name)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .access import Done, add_floats, check_alignment, load_device, store_device, update_device, write_bytes
from .decode import Decoder, Execute, Step
from .hazards import Traits
from .operands import M0, VGPR, Name, Operand, Register
from .state import Array, Outstanding, Wave, lanes_of

_CACHE = ("glc", "slc", "nt", "sc0", "sc1")
_FORMS = {
    "dword": (4, 1), "dwordx2": (4, 2), "dwordx3": (4, 3), "dwordx4": (4, 4), "ubyte": (1, 1), "sbyte": (1, 1),
    "ushort": (2, 1), "sshort": (2, 1), "short_d16": (2, 1), "short_d16_hi": (2, 1), "byte": (1, 1), "short": (2, 1),
}  # fmt: skip
"""Bytes of a component, and how many there are."""
_STORE_FORMS = ("byte", "short", "short_d16_hi", "dword", "dwordx2", "dwordx3", "dwordx4")
_SCALAR_WORDS = {"": 1, "x2": 2, "x4": 4, "x8": 8, "x16": 16}
SMEM_MNEMONICS = frozenset(f"s_load_dword{suffix}" for suffix in _SCALAR_WORDS)
MNEMONICS = frozenset(
    f"{space}_{verb}_{form}"
    for space in ("buffer", "global", "flat", "scratch")
    for verb, forms in (("load", [name for name in _FORMS if name not in ("byte", "short")]), ("store", _STORE_FORMS))
    for form in forms
)
_UPDATES: dict[str, Callable[[Array, Array, Array], None]] = {
    "global_atomic_add": np.add.at,
    "global_atomic_umax": np.maximum.at,
    "global_atomic_umin": np.minimum.at,
    "global_atomic_add_f32": add_floats,
}
ATOMIC_MNEMONICS = frozenset(_UPDATES)


@dataclass(frozen=True, slots=True)
class _Form:
    """`components` of `size` bytes; narrow ones are extended or put in one half of the register."""

    name: str
    size: int
    components: int

    @property
    def keeps_other_half(self) -> bool:
        return "d16" in self.name


@dataclass(frozen=True, slots=True)
class _Addresses:
    """For the active lanes: `address` of every component (n, components), `valid` where it is in range."""

    address: Array
    valid: Array


def finish(
    wave: Wave,
    counters: tuple[str, ...],
    ordered: bool,
    targets: tuple[int, ...],
    actions: list[Done],
    span: tuple[int, int] | None = None,
    lds: Array | None = None,
) -> None:
    """Register the operation that runs now as outstanding."""
    wave.waits.issue(Outstanding(counters, ordered, targets, wave.line, wave.text, tuple(actions), span, lds))


def check_lds_order(wave: Wave, places: Array, other: str) -> None:
    """LDS operations (lgkmcnt) and loads into LDS (vmcnt) go different ways, in no order: while one of them is
    outstanding, the other must not touch the same bytes. `other` is the counter of the other kind."""
    for operation in wave.waits.queues[other]:
        if operation.lds is not None and bool(np.isin(places, operation.lds).any()):
            reason = (
                f"touches LDS that line {operation.line} `{operation.text}` may still touch; "
                f"missing: {wave.waits.needed(operation)}"
            )
            raise wave.error("missing-wait", reason)


def check_scalar_loads(wave: Wave, addresses: Array, size: int) -> None:
    """Nothing may be stored to bytes that a scalar load still reads: the two go different ways, in no order."""
    for operation in wave.waits.queues["lgkmcnt"]:
        if operation.span is not None:
            first, end = (np.uint64(limit) for limit in operation.span)
            if bool(((addresses < end) & (addresses + np.uint64(size) > first)).any()):
                reason = (
                    f"overwrites memory that line {operation.line} `{operation.text}` is still loading; "
                    f"missing: {wave.waits.needed(operation)}"
                )
                raise wave.error("missing-wait", reason)


# -- scalar loads --------------------------------------------------------------------------------------
def decode_scalar_load(d: Decoder) -> Step:
    """s_load_dword*: destination, 64-bit base, byte offset (a constant or an SGPR, or an SGPR with `offset:`)."""
    d.modifiers("glc", "offset")
    d.arity(3)
    words = _SCALAR_WORDS[d.instruction.mnemonic.removeprefix("s_load_dword")]
    target, base = d.register(0, words, "s"), d.register(1, 2, "s")
    fixed = d.modifier("offset", 0, -(1 << 20), (1 << 20) - 1)
    keys: tuple[int, ...] = ()
    if isinstance(d.instruction.operands[2].value, Register):
        keys, reader = d.source(2, "u32", "s")
    else:
        offset = d.immediate(2, -(1 << 20), (1 << 20) - 1)
        reader = lambda _: offset  # noqa: E731

    def execute(wave: Wave) -> None:
        address = np.array([wave.scalar(base.base, 2) + int(reader(wave)) + fixed], np.uint64)
        check_alignment(wave, address, 4, "scalar load")
        data, actions = load_device(wave, address, 4 * words)
        wave.set_scalar(target.base, words, int.from_bytes(data.tobytes(), "little"))
        start = int(address[0])
        finish(wave, ("lgkmcnt",), False, tuple(target.keys), actions, (start, start + 4 * words))

    return d.step(Traits("smem", (*base.keys, *keys), tuple(target.keys)), execute)


def decode_time(d: Decoder) -> Step:
    """s_memtime: a counter that only grows; here, the wave's wait states."""
    d.modifiers()
    d.arity(1)
    target = d.register(0, 2, "s")

    def execute(wave: Wave) -> None:
        wave.set_scalar(target.base, 2, wave.hazards.clock)
        finish(wave, ("lgkmcnt",), False, tuple(target.keys), [])

    return d.step(Traits("smem", (), tuple(target.keys)), execute)


# -- vector memory -------------------------------------------------------------------------------------
def decode(d: Decoder) -> Step:
    """buffer_*, global_*, flat_* and scratch_* loads and stores."""
    space, verb, name = d.instruction.mnemonic.split("_", 2)
    form = _Form(name, *_FORMS[name])
    return _decode_buffer(d, form, verb) if space == "buffer" else _decode_flat(d, form, space, verb)


def _decode_buffer(d: Decoder, form: _Form, verb: str) -> Step:
    d.modifiers("offset", "offen", "idxen", "lds", *_CACHE)
    given = d.instruction.modifiers
    to_lds = "lds" in given
    d.arity(3 if to_lds else 4)
    first = 0 if to_lds else 1
    data = None if to_lds else d.register(0, form.components, "va")
    offset = d.modifier("offset", 0, 0, 4095, "buffer offset")
    uses_offset, uses_index = "offen" in given, "idxen" in given
    vector = None
    if uses_offset or uses_index:
        vector = d.register(first, uses_offset + uses_index, "v")
    elif d.instruction.operands[first].value != Name("off"):
        raise d.text_error("without offen or idxen the vector address must be 'off'")
    resource = d.register(first + 1, 4, "s")
    keys, scalar_offset = d.source(first + 2, "u32", "s")

    def locate(wave: Wave) -> _Addresses:
        columns = [] if vector is None else [wave.vectors[key - VGPR] for key in vector.keys]
        index = columns[0] if uses_index else np.zeros(64, np.uint32)
        varying = columns[-1] if uses_offset else np.zeros(64, np.uint32)
        extra = int(scalar_offset(wave))
        return _buffer_addresses(wave, form, wave.scalar(resource.base, 4), (index, varying), offset, extra, uses_index)

    reads = (*(vector.keys if vector else ()), *resource.keys, *keys)
    if data is None:
        return _load_to_lds(d, form, reads, locate)
    return _transfer(d, form, verb, data, reads, locate, wide=form.components > 2 and not keys)


def _buffer_addresses(
    wave: Wave, form: _Form, resource: int, varying: tuple[Array, Array], offset: int, scalar: int, indexed: bool
) -> _Addresses:
    """Addresses and range check of a V#: base 47:0, stride 61:48, num_records 95:64, data format 114:111.

    Raw (no idxen): a component is in range when it ends within num_records, counted in bytes with the scalar offset.
    Structured (idxen): when the index is below num_records. (CDNA3 ISA, section "Range checking".)
    """
    base, stride, records = resource & (1 << 48) - 1, resource >> 48 & 0x3FFF, resource >> 64 & 0xFFFFFFFF
    if resource >> 63 & 1 or resource >> 119 & 1 or resource >> 126:
        raise wave.error("unsupported", f"V# {resource:#034x} asks for swizzling, add_tid or another resource type")
    if resource >> 111 & 15 == 0:
        raise wave.error("memory-fault", f"V# {resource:#034x} has data format 0: the buffer is unbound")
    lanes = np.flatnonzero(lanes_of(wave.exec_mask))
    index, lane_offset = (column[lanes].astype(np.int64)[:, None] for column in varying)
    within = lane_offset + offset + form.size * np.arange(form.components)
    total = within + scalar + index * stride
    in_bytes = (total + form.size <= records) & (total >= 0)
    valid = np.broadcast_to(index < records, total.shape) if indexed else in_bytes
    return _Addresses((total + base).astype(np.uint64), valid)


def _decode_flat(d: Decoder, form: _Form, space: str, verb: str) -> Step:
    d.modifiers("offset", *_CACHE)
    low, high = (0, 4095) if space == "flat" else (-4096, 4095)
    offset = d.modifier("offset", 0, low, high, f"{space} offset")
    d.arity(2 if space == "flat" else 3)
    operands = list(d.instruction.operands)
    data = d.register(operands.pop(0 if verb == "load" else 1), form.components, "va")
    if space == "scratch":
        return _decode_scratch(d, form, verb, data, operands, offset)
    has_base = len(operands) > 1 and operands[1].value != Name("off")
    vector = d.register(operands[0], 1 if has_base else 2, "v")
    base = d.register(operands[1], 2, "s") if has_base else None

    def locate(wave: Wave) -> _Addresses:
        steps = (offset + form.size * np.arange(form.components)).astype(np.int64).view(np.uint64)
        addresses = _flat_starts(wave, vector, base)[:, None] + steps
        return _Addresses(addresses, np.ones(addresses.shape, np.bool_))

    reads = (*vector.keys, *(base.keys if base else ()))
    return _transfer(d, form, verb, data, reads, locate, wide=form.components > 2, is_flat=space == "flat")


def _flat_starts(wave: Wave, vector: Register, base: Register | None) -> Array:
    """For the active lanes: 64 bits of two VGPRs, or a VGPR and 64 bits of SGPRs."""
    lanes = np.flatnonzero(lanes_of(wave.exec_mask))
    start: Array = wave.vectors[vector.base - VGPR][lanes].astype(np.uint64)
    if base is not None:
        return start + np.uint64(wave.scalar(base.base, 2))
    high: Array = wave.vectors[vector.base + 1 - VGPR][lanes].astype(np.uint64) << np.uint64(32)
    return start | high


def decode_atomic(d: Decoder) -> Step:
    """global_atomic_add and its like, without a result: address, data, base or off (CDNA3 ISA, "FLAT" atomics)."""
    d.modifiers("offset", "nt", "sc1")
    d.arity(3)
    base = d.base_or_off(2, 2, "s")
    vector = d.register(0, 1 if base else 2, "v")
    data = d.register(1, 1, "va").base
    offset = d.modifier("offset", 0, -4096, 4095, "global offset")
    operation = _UPDATES[d.instruction.mnemonic]

    def execute(wave: Wave) -> None:
        start = _flat_starts(wave, vector, base) + np.uint64(offset % (1 << 64))
        values = wave.vectors[data - VGPR][np.flatnonzero(lanes_of(wave.exec_mask))]
        check_alignment(wave, start, 4, "atomic update")
        check_scalar_loads(wave, start, 4)
        actions = update_device(wave, start, lambda old, positions, chosen: operation(old, positions, values[chosen]))
        finish(wave, ("vmcnt",), True, (), actions)

    return d.step(Traits("vmem", (*vector.keys, data, *(base.keys if base else ())), ()), execute)


def _transfer(
    d: Decoder,
    form: _Form,
    verb: str,
    data: Register,
    reads: tuple[int, ...],
    locate: Callable[[Wave], _Addresses],
    wide: bool,
    is_flat: bool = False,
) -> Step:
    counters = ("vmcnt", "lgkmcnt") if is_flat else ("vmcnt",)

    def load(wave: Wave) -> None:
        places = locate(wave)
        check_alignment(wave, places.address.reshape(-1), form.size, "vector load")
        raw = np.zeros((*places.address.shape, form.size), np.uint8)
        raw[places.valid], actions = load_device(wave, places.address[places.valid], form.size)
        put(wave, data, form.name, raw)
        finish(wave, counters, not is_flat, tuple(data.keys), actions)

    def store(wave: Wave) -> None:
        places = locate(wave)
        check_alignment(wave, places.address.reshape(-1), form.size, "vector store")
        raw = take(wave, data, form.name, form.size)
        check_scalar_loads(wave, places.address[places.valid], form.size)
        finish(wave, counters, not is_flat, (), store_device(wave, places.address[places.valid], raw[places.valid]))

    if verb == "load":
        return _load_step(d, reads, data, load, form.keeps_other_half, "" if is_flat else "vmcnt")
    return _store_step(d, reads, data, store, wide)


def _load_step(
    d: Decoder, reads: tuple[int, ...], data: Register, load: Execute, keeps: bool = False, issuing: str = "vmcnt"
) -> Step:
    kept = tuple(data.keys) if keeps else ()
    return d.step(Traits("vmem", (*reads, *kept), tuple(data.keys)), load, issuing=issuing)


def _store_step(d: Decoder, reads: tuple[int, ...], data: Register, store: Execute, wide: bool) -> Step:
    traits = Traits("vmem", (*reads, *data.keys), (), wide_store_data=tuple(data.keys) if wide else ())
    return d.step(traits, store)


def put(wave: Wave, data: Register, name: str, raw: Array) -> None:
    """Write loaded bytes (active lanes, components, size) to registers, as the form says."""
    lanes = np.flatnonzero(lanes_of(wave.exec_mask))
    size = raw.shape[2]
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32}[size]
    signed = {1: np.int8, 2: np.int16, 4: np.int32}[size]
    is_signed = name in ("sbyte", "sshort", "i8", "i16")
    values = np.ascontiguousarray(raw).view(signed if is_signed else unsigned)[:, :, 0]
    for component, key in enumerate(data.keys):
        old = wave.vectors[key - VGPR]
        bits = values[:, component].astype(np.int64).astype(np.uint32)
        if name.endswith("d16_hi"):
            bits = old[lanes] & np.uint32(0xFFFF) | bits << np.uint32(16)
        elif name.endswith("d16"):
            bits = old[lanes] & np.uint32(0xFFFF0000) | bits & np.uint32(0xFFFF)
        full = old.copy()
        full[lanes] = bits
        wave.set_vector(key, full, wave.exec_mask)


def take(wave: Wave, data: Register, name: str, size: int) -> Array:
    """Bytes to store (active lanes, components, size)."""
    lanes = np.flatnonzero(lanes_of(wave.exec_mask))
    bits = np.stack([wave.vectors[key - VGPR][lanes] for key in data.keys], axis=1)
    if name.endswith("d16_hi"):
        bits = bits >> np.uint32(16)
    return np.ascontiguousarray(bits).view(np.uint8).reshape(lanes.size, data.count, 4)[:, :, :size]


# -- loads straight into LDS ---------------------------------------------------------------------------
def _load_to_lds(d: Decoder, form: _Form, reads: tuple[int, ...], locate: Callable[[Wave], _Addresses]) -> Step:
    """buffer_load ... lds: lane i's dword goes to LDS byte m0 + offset + 4 * i, its four dwords (gfx950) to 16 * i.

    Source: CDNA3 ISA, section "Memory Buffer Load to LDS". m0 counts modulo 64 KiB on gfx942.
    """
    if form.name not in ("dword", "dwordx4"):
        raise d.text_error("the witness loads one dword, or four, into LDS", ("dword", "dwordx4"))
    if form.name == "dwordx4" and d.processor.name != "gfx950":
        raise d.text_error(f"{d.processor.name} loads single dwords into LDS: gfx950 loads more")
    size = 4 * form.components
    bits = 0xFFFF if d.processor.lds_bytes <= 1 << 16 else 0x3FFFF
    offset = int(d.instruction.modifiers.get("offset", "0"), 0)

    def execute(wave: Wave) -> None:
        places = locate(wave)
        check_alignment(wave, places.address.reshape(-1), 4, "load into LDS")
        raw = np.zeros((places.address.shape[0], form.components, 4), np.uint8)
        raw[places.valid], actions = load_device(wave, places.address[places.valid], 4)
        lanes = np.flatnonzero(lanes_of(wave.exec_mask))
        start = (wave.scalars[M0] & bits) + offset + size * lanes
        lds = wave.workgroup.lds
        if start.size and int(start.max()) + size > lds.data.size:
            raise wave.error("lds-bounds", f"writes LDS byte {int(start.max()) + size - 1} of {lds.data.size}")
        written = start[:, None] + np.arange(size)
        check_lds_order(wave, written, "lgkmcnt")
        actions.append(write_bytes(wave, lds, written, raw.reshape(-1, size), "LDS"))
        finish(wave, ("vmcnt",), True, (), actions, lds=written)

    return d.step(Traits("vmem", (*reads, M0), (), lds_dma=True), execute)


# -- scratch -------------------------------------------------------------------------------------------
def _decode_scratch(d: Decoder, form: _Form, verb: str, data: Register, address: list[Operand], offset: int) -> Step:
    """scratch_*: private bytes of each lane at VGPR + SGPR + offset, either register may be 'off'."""
    if not d.descriptor["enable_private_segment"]:
        raise d.error("descriptor", "uses scratch, .amdhsa_enable_private_segment is 0")
    vector, base = d.base_or_off(address[0], 1, "v"), d.base_or_off(address[1], 1, "s")
    size = d.descriptor["private_segment_fixed_size"]

    def locate(wave: Wave) -> tuple[Array, Array]:
        lanes = np.flatnonzero(lanes_of(wave.exec_mask))
        start = np.full(lanes.size, offset + (wave.scalars[base.base] if base else 0), np.int64)
        if vector is not None:
            start = start + wave.vectors[vector.base - VGPR][lanes]
        last = start + form.size * form.components
        if lanes.size and (int(start.min()) < 0 or int(last.max()) > size):
            raise wave.error("scratch-bounds", f"bytes {int(start.min())}..{int(last.max()) - 1} of {size}")
        check_alignment(wave, start, form.size, "scratch access")
        return lanes[:, None], start[:, None] + np.arange(form.size * form.components)

    def load(wave: Wave) -> None:
        content, defined = _scratch(wave, size)
        rows, columns = locate(wave)
        if not defined[rows, columns].all():
            raise wave.error("undefined-memory", "reads scratch bytes never written")
        put(wave, data, form.name, content[rows, columns].reshape(-1, form.components, form.size))
        finish(wave, ("vmcnt",), True, tuple(data.keys), [])

    def store(wave: Wave) -> None:
        content, defined = _scratch(wave, size)
        rows, columns = locate(wave)
        content[rows, columns] = take(wave, data, form.name, form.size).reshape(columns.shape)
        defined[rows, columns] = True
        finish(wave, ("vmcnt",), True, (), [])

    reads = (*(vector.keys if vector else ()), *(base.keys if base else ()))
    if verb == "load":
        return _load_step(d, reads, data, load)
    return _store_step(d, reads, data, store, form.components > 2)


def _scratch(wave: Wave, size: int) -> tuple[Array, Array]:
    if wave.scratch is None:
        wave.scratch = np.zeros((64, size), np.uint8), np.zeros((64, size), np.bool_)
    return wave.scratch
