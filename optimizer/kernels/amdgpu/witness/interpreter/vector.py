"""Vector ALU instructions: decoding and lane-wise execution of the tables in `vector_table`, also between lanes (DPP).

Which lane each lane reads, and which lanes are written: CDNA3 ISA, section "DPP".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import TextError
from .decode import Decoder, Step, is_constant, words_of
from .floats import flush_denormals
from .hazards import Traits
from .operands import EXEC, VCC, VGPR, Operand, Register
from .state import Array, Wave, lanes_of, mask_of
from .vector_table import TABLE, VectorOp

MNEMONICS = frozenset(TABLE)
Reader = Callable[[Wave], Array]
_VIEWS = {
    "f32": np.float32, "i32": np.int32, "u32": np.uint32, "f64": np.float64, "i64": np.int64, "u64": np.uint64,
    "f16": np.float16, "i16": np.int16, "u16": np.uint16,
}  # fmt: skip
_LOW_HALF = np.uint32(0xFFFF)
_CONTROLS = ("quad_perm", "row_shl", "row_shr", "row_ror", "row_mirror", "row_half_mirror", "row_bcast", "row_newbcast")
_LANE = np.arange(64)
_ROW, _IN_ROW = _LANE & ~15, _LANE & 15


@dataclass(frozen=True, slots=True)
class _Source:
    keys: tuple[int, ...]
    read: Reader


def decode(d: Decoder) -> Step:
    """A vector instruction of the table, with DPP if its modifiers say so."""
    name, operands = d.instruction.mnemonic, d.instruction.operands
    spec = TABLE[name]
    is_dpp = d.instruction.suffix == "dpp"
    d.modifiers("clamp", *((*_CONTROLS, "row_mask", "bank_mask", "bound_ctrl") if is_dpp else ()))
    d.arity(len(spec.results) + len(spec.sources))
    if spec.registers_only and any(is_constant(operand) for operand in operands):
        raise d.text_error(f"{name}: the witness takes registers only")
    targets = [d.register(n, words_of(kind), "s" if kind[0] == "m" else "v") for n, kind in enumerate(spec.results)]
    sources = [_source(d, kind, op) for kind, op in zip(spec.sources, operands[len(targets) :], strict=True)]
    if is_dpp:
        sources[0] = _moved_source(d, spec.sources[0], sources[0], operands[len(targets)])
    if spec.tied:
        first = targets[0].base - VGPR
        old = _typed(spec.results[0], Operand(targets[0]), lambda wave: wave.vectors[first])
        sources.append(_Source(tuple(targets[0].keys), old))
    if spec.reads_vcc:
        sources.append(_Source((VCC, VCC + 1), lambda wave: lanes_of(wave.scalar(VCC, 2))))
    reads = [key for source in sources for key in source.keys]
    writes = [key for target in targets for key in target.keys]
    if spec.writes_exec:
        writes += [EXEC, EXEC + 1]
    write_lanes: Callable[[Wave], int] = lambda wave: wave.exec_mask  # noqa: E731
    if is_dpp:
        rows, banks = (d.modifier(mask, 15, 0, 15) for mask in ("row_mask", "bank_mask"))
        if "bound_ctrl" not in d.instruction.modifiers or rows != 15 or banks != 15:
            reads += [key for target in targets for key in target.keys]
        write_lanes = _written_lanes(d, rows, banks)
    traits = Traits(spec.unit, tuple(reads), tuple(writes), dpp=is_dpp, div_fmas=spec.reads_vcc,
                    packed=name.startswith("v_pk_"))  # fmt: skip
    clamps = "clamp" in d.instruction.modifiers
    if clamps and spec.results[0][0] != "f":
        raise TextError("the witness clamps floating-point results only", 0)
    execute = _executor(spec, targets, sources, clamps, write_lanes)
    if is_dpp:
        unmoved = tuple(key for source in sources[1:] for key in source.keys)
        return d.step(traits, _checked(execute, unmoved), "own")
    return d.step(traits, execute)


def _checked(execute: Callable[[Wave], None], keys: tuple[int, ...]) -> Callable[[Wave], None]:
    """`execute` after a check of the sources that stay in their lanes."""

    def run(wave: Wave) -> None:
        wave.require_known(keys, wave.exec_mask)
        execute(wave)

    return run


def _source(d: Decoder, kind: str, operand: Operand) -> _Source:
    if kind[0] == "m":
        keys, reader = d.source(operand, kind, "s")
        return _Source(keys, lambda wave: lanes_of(int(reader(wave))))
    if (operand.negate or operand.absolute) and kind[0] != "f":
        raise d.text_error(f"{d.instruction.mnemonic}: an integer source takes no '-' or '|x|'")
    keys, reader = d.source(operand, kind)
    return _Source(keys, _typed(kind, operand, reader))


def _typed(kind: str, operand: Operand, reader: Callable[[Wave], int | Array]) -> Reader:
    """Read as an array of the type; constants and scalars have one element."""
    wide_type = np.uint64 if kind.endswith("64") else np.uint32
    view, half, flushes = _VIEWS[kind], kind.endswith("16"), kind == "f32"
    negate, absolute = operand.negate, operand.absolute

    def read(wave: Wave) -> Array:
        raw = reader(wave)
        bits: Array = np.array([raw], wide_type) if isinstance(raw, int) else raw
        values: Array = (bits & _LOW_HALF).astype(np.uint16).view(view) if half else bits.view(view)
        if flushes and wave.flushes_denormals:
            values = flush_denormals(values)
        if absolute:
            values = np.abs(values)
        return -values if negate else values

    return read


def _executor(
    spec: VectorOp,
    targets: list[Register],
    sources: list[_Source],
    clamp: bool,
    write_lanes: Callable[[Wave], int],
) -> Callable[[Wave], None]:
    def execute(wave: Wave) -> None:
        outcome = spec.compute(*[source.read(wave) for source in sources])
        results = outcome if isinstance(outcome, tuple) else (outcome,)
        mask = write_lanes(wave)
        for kind, target, value in zip(spec.results, targets, results, strict=True):
            if kind[0] == "m":
                wave.set_scalar(target.base, 2, mask_of(value) & mask)
            else:
                _write(wave, kind, target, np.clip(value, 0, 1) if clamp else value, mask)
        if spec.writes_exec:
            wave.set_scalar(EXEC, 2, mask_of(results[0]) & mask)

    return execute


def _write(wave: Wave, kind: str, target: Register, value: Array, mask: int) -> None:
    if kind.endswith("64"):
        bits = np.ascontiguousarray(value).astype(_VIEWS[kind]).view(np.uint64)
        wave.set_vector(target.base, (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), mask)
        wave.set_vector(target.base + 1, (bits >> np.uint64(32)).astype(np.uint32), mask)
        return
    if kind == "f32" and wave.flushes_denormals:
        value = flush_denormals(value)
    typed = np.ascontiguousarray(value).astype(_VIEWS[kind])
    # A 16-bit result clears the upper half of its register (CDNA3 ISA, 16-bit VOP1 and VOP2).
    bits = typed.view(np.uint16).astype(np.uint32) if kind.endswith("16") else typed.view(np.uint32)
    wave.set_vector(target.base, bits, mask)


# -- DPP -----------------------------------------------------------------------------------------------
def _moved_source(d: Decoder, kind: str, source: _Source, operand: Operand) -> _Source:
    """The first source of a DPP instruction comes from other lanes."""
    if not isinstance(operand.value, Register) or words_of(kind) != 1:
        raise d.text_error("DPP moves one VGPR")
    first = operand.value.base - VGPR
    lanes = _source_lanes(d)

    def moved(wave: Wave) -> Array:
        active = lanes_of(wave.exec_mask)
        wanted = 0
        for lane in lanes[active & (lanes >= 0)].tolist():
            wanted |= 1 << lane
        wave.require_known((first + VGPR,), wanted & wave.exec_mask)
        # A lane that is off, or outside the row, reads 0 with bound_ctrl.
        usable = (lanes >= 0) & active[np.maximum(lanes, 0)]
        return np.where(usable, wave.vectors[first][np.maximum(lanes, 0)], np.uint32(0))

    return _Source(source.keys, _typed(kind, operand, moved))


def _source_lanes(d: Decoder) -> Array:
    """For every lane the lane it reads, -1 where that is outside the row."""
    given = [name for name in _CONTROLS if name in d.instruction.modifiers]
    if len(given) != 1:
        raise d.text_error("a DPP instruction names exactly one movement", _CONTROLS)
    name, text = given[0], d.instruction.modifiers[given[0]]
    if name == "quad_perm":
        order = [int(word) for word in re.findall(r"\d+", text)]
        if len(order) != 4 or max(order) > 3:
            raise d.text_error(f"quad_perm:{text} is not four lanes 0..3")
        lanes: Array = (_LANE & ~3) + np.array(order)[_LANE & 3]
        return lanes
    if name in ("row_mirror", "row_half_mirror"):
        return _LANE ^ (15 if name == "row_mirror" else 7)
    amount = int(text)
    if name == "row_bcast":
        if amount == 15:
            return np.where(_LANE >= 16, _ROW - 1, -1)
        return np.where(_LANE >= 32, np.full(64, 31), -1)
    if name == "row_newbcast":
        return _ROW + amount
    if name == "row_ror":
        return _ROW + ((_IN_ROW - amount) & 15)
    moved = _IN_ROW + amount if name == "row_shl" else _IN_ROW - amount
    return np.where((moved >= 0) & (moved < 16), _ROW + moved, -1)


def _written_lanes(d: Decoder, rows: int, banks: int) -> Callable[[Wave], int]:
    """The lanes that a DPP instruction writes: exec, row and bank masks, and without bound_ctrl only those whose
    source lane exists and is on."""
    enabled = (rows >> (_LANE >> 4) & 1 & (banks >> (_LANE >> 2 & 3))).astype(np.bool_)
    lanes = _source_lanes(d)
    bounded = "bound_ctrl" in d.instruction.modifiers

    def mask(wave: Wave) -> int:
        active = lanes_of(wave.exec_mask)
        usable = (lanes >= 0) & active[np.maximum(lanes, 0)]
        return mask_of(active & enabled & (usable | bounded))

    return mask


# -- lane access ---------------------------------------------------------------------------------------
LANE_MNEMONICS = frozenset({"v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32"})


def decode_lane(d: Decoder) -> Step:
    """v_readfirstlane, v_readlane, v_writelane: one lane between a VGPR and SGPRs, whatever exec says."""
    d.modifiers()
    name = d.instruction.mnemonic
    d.arity(2 if name == "v_readfirstlane_b32" else 3)
    select_keys: tuple[int, ...] = ()
    select: Callable[[Wave], int | Array] = lambda wave: _first_lane(wave.exec_mask)  # noqa: E731
    if name != "v_readfirstlane_b32":
        select_keys, select = d.source(2, "u32", "s")
    lane_select = select_keys[0] if select_keys else None
    target = d.register(0, 1, "v" if name == "v_writelane_b32" else "s").base
    if name == "v_writelane_b32":
        keys, value = d.source(1, "u32", "s")
        reads = (*keys, *select_keys, target)

        def execute(wave: Wave) -> None:
            wave.require_known((*keys, *select_keys), wave.exec_mask)
            wave.set_vector(target, np.array([value(wave)], np.uint32), 1 << (int(select(wave)) & 63))
    else:
        source = d.register(1, 1, "v").base
        reads = (source, *select_keys)

        def execute(wave: Wave) -> None:
            wave.require_known(select_keys, 0)
            lane = int(select(wave)) & 63
            wave.require_known((source,), 1 << lane)
            wave.set_scalar(target, 1, int(wave.vectors[source - VGPR, lane]))

    return d.step(Traits("valu", reads, (target,), lane_access=True, lane_select=lane_select), execute, "own")


def _first_lane(mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else 0


# -- AGPR moves ----------------------------------------------------------------------------------------
_ACC_FILES = {"v_accvgpr_read_b32": ("v", "a"), "v_accvgpr_write_b32": ("a", "sv"), "v_accvgpr_mov_b32": ("a", "a")}
"""Files of target and source."""
ACC_MNEMONICS = frozenset(_ACC_FILES)


def decode_acc(d: Decoder) -> Step:
    """Moves between VGPRs and AGPRs."""
    d.modifiers()
    d.arity(2)
    target_file, source_file = _ACC_FILES[d.instruction.mnemonic]
    target = d.register(0, 1, target_file).base
    keys, reader = d.source(1, "u32", source_file)

    def execute(wave: Wave) -> None:
        raw = reader(wave)
        wave.set_vector(target, np.array([raw], np.uint32) if isinstance(raw, int) else raw, wave.exec_mask)

    return d.step(Traits("valu", keys, (target,)), execute)
