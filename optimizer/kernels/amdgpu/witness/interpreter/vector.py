"""Vector ALU instructions: decoding and lane-wise execution of the tables in `vector_table`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..errors import TextError
from . import dpp
from .decode import Decoder, Step, is_constant, words_of
from .floats import flush_denormals
from .hazards import Traits
from .operands import EXEC, VCC, VGPR, Operand, Register
from .parse import Instruction
from .state import Array, Wave, lanes_of, mask_of
from .vector_table import TABLE, VectorOp

MNEMONICS = frozenset(TABLE)
Reader = Callable[[Wave], Array]
_VIEWS = {
    "f32": np.float32, "i32": np.int32, "u32": np.uint32, "f64": np.float64, "i64": np.int64, "u64": np.uint64,
    "f16": np.float16, "i16": np.int16, "u16": np.uint16,
}  # fmt: skip
_LOW_HALF = np.uint32(0xFFFF)


@dataclass(frozen=True, slots=True)
class _Source:
    keys: tuple[int, ...]
    read: Reader


def decode(instruction: Instruction, decoder: Decoder) -> Step:
    """A vector instruction of the table, with DPP if its modifiers say so."""
    spec = TABLE[instruction.mnemonic]
    is_dpp = instruction.suffix == "dpp"
    decoder.modifiers(instruction, "clamp", *(dpp.MODIFIERS if is_dpp else ()))
    decoder.arity(instruction, len(spec.results) + len(spec.sources))
    operands = instruction.operands
    if spec.registers_only and any(is_constant(operand) for operand in operands):
        raise TextError(f"{instruction.mnemonic}: the witness takes registers only", instruction.line)
    targets = [_target(instruction, decoder, kind, op) for kind, op in zip(spec.results, operands, strict=False)]
    sources = [
        _source(instruction, decoder, kind, op) for kind, op in zip(spec.sources, operands[len(targets) :], strict=True)
    ]
    if is_dpp:
        sources[0] = _moved_source(instruction, spec.sources[0], sources[0], operands[len(targets)])
    if spec.tied:
        sources.append(_Source(tuple(targets[0].keys), _typed(spec.results[0], Operand(targets[0]), _raw(targets[0]))))
    if spec.reads_vcc:
        sources.append(_Source((VCC, VCC + 1), lambda wave: lanes_of(wave.scalar(VCC, 2))))
    reads = [key for source in sources for key in source.keys]
    writes = [key for target in targets for key in target.keys]
    if spec.writes_exec:
        writes += [EXEC, EXEC + 1]
    if is_dpp and dpp.keeps_lanes(instruction, decoder):
        reads += [key for target in targets for key in target.keys]
    traits = Traits(spec.unit, tuple(reads), tuple(writes), dpp=is_dpp, div_fmas=spec.reads_vcc,
                    packed=instruction.mnemonic.startswith("v_pk_"))  # fmt: skip
    write_lanes = dpp.write_lanes(instruction, decoder) if is_dpp else None
    execute = _executor(spec, targets, sources, "clamp" in instruction.modifiers, write_lanes)
    if is_dpp:
        unmoved = tuple(key for source in sources[1:] for key in source.keys)
        return Step(instruction, traits, _checked(execute, unmoved), "own")
    return Step(instruction, traits, execute)


def _checked(execute: Callable[[Wave], None], keys: tuple[int, ...]) -> Callable[[Wave], None]:
    """`execute` after a check of the sources that stay in their lanes."""

    def run(wave: Wave) -> None:
        wave.require_known(keys, wave.exec_mask)
        execute(wave)

    return run


def _target(instruction: Instruction, decoder: Decoder, kind: str, operand: Operand) -> Register:
    return decoder.register(instruction, operand, words_of(kind), "s" if kind[0] == "m" else "v")


def _source(instruction: Instruction, decoder: Decoder, kind: str, operand: Operand) -> _Source:
    if kind[0] == "m":
        keys, reader = decoder.source(instruction, operand, kind, "s")
        return _Source(keys, lambda wave: lanes_of(int(reader(wave))))
    if (operand.negate or operand.absolute) and kind[0] != "f":
        raise TextError(f"{instruction.mnemonic}: an integer source takes no '-' or '|x|'", instruction.line)
    keys, reader = decoder.source(instruction, operand, kind)
    return _Source(keys, _typed(kind, operand, reader))


def _raw(register: Register) -> Callable[[Wave], Array]:
    first = register.base - VGPR
    return lambda wave: wave.vectors[first]


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


def _moved_source(instruction: Instruction, kind: str, source: _Source, operand: Operand) -> _Source:
    """The first source of a DPP instruction comes from other lanes."""
    if not isinstance(operand.value, Register) or words_of(kind) != 1:
        raise TextError("DPP moves one VGPR", instruction.line)
    first = operand.value.base - VGPR
    lanes = dpp.source_lanes(instruction)
    plain = _typed(kind, operand, lambda wave: _moved(wave, first, lanes))
    return _Source(source.keys, plain)


def _moved(wave: Wave, first: int, lanes: Array) -> Array:
    active = lanes_of(wave.exec_mask)
    needed = mask_of(active & (lanes >= 0))
    wanted = 0
    for lane in np.flatnonzero(lanes_of(needed)).tolist():
        wanted |= 1 << int(lanes[lane])
    wave.require_known((first + VGPR,), wanted & wave.exec_mask)
    moved = wave.vectors[first][np.maximum(lanes, 0)]
    # A lane that is off, or outside the row, reads 0 with bound_ctrl.
    usable = (lanes >= 0) & active[np.maximum(lanes, 0)]
    return np.where(usable, moved, np.uint32(0))


def _executor(
    spec: VectorOp,
    targets: list[Register],
    sources: list[_Source],
    clamp: bool,
    write_lanes: Callable[[Wave], int] | None,
) -> Callable[[Wave], None]:
    if clamp and spec.results[0][0] != "f":
        raise TextError("the witness clamps floating-point results only", 0)

    def execute(wave: Wave) -> None:
        outcome = spec.compute(*[source.read(wave) for source in sources])
        results = outcome if isinstance(outcome, tuple) else (outcome,)
        mask = wave.exec_mask if write_lanes is None else write_lanes(wave)
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


# -- lane access ---------------------------------------------------------------------------------------
LANE_MNEMONICS = frozenset({"v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32"})


def decode_lane(instruction: Instruction, decoder: Decoder) -> Step:
    """v_readfirstlane, v_readlane, v_writelane: one lane between a VGPR and SGPRs, whatever exec says."""
    decoder.modifiers(instruction)
    name = instruction.mnemonic
    decoder.arity(instruction, 2 if name == "v_readfirstlane_b32" else 3)
    operands = instruction.operands
    select_keys: tuple[int, ...] = ()
    select: Callable[[Wave], int | Array] = lambda wave: _first_lane(wave.exec_mask)  # noqa: E731
    if len(operands) == 3:
        select_keys, select = decoder.source(instruction, operands[2], "u32", "s")
    lane_select = select_keys[0] if select_keys else None
    if name == "v_writelane_b32":
        return _writelane(instruction, decoder, select, select_keys)
    target = decoder.register(instruction, operands[0], 1, "s").base
    source = decoder.register(instruction, operands[1], 1, "v").base

    def execute(wave: Wave) -> None:
        wave.require_known(select_keys, 0)
        lane = int(select(wave)) & 63
        wave.require_known((source,), 1 << lane)
        wave.set_scalar(target, 1, int(wave.vectors[source - VGPR, lane]))

    traits = Traits("valu", (source, *select_keys), (target,), lane_access=True, lane_select=lane_select)
    return Step(instruction, traits, execute, "own")


def _writelane(
    instruction: Instruction, decoder: Decoder, select: Callable[[Wave], int | Array], select_keys: tuple[int, ...]
) -> Step:
    target = decoder.register(instruction, instruction.operands[0], 1, "v").base
    keys, value = decoder.source(instruction, instruction.operands[1], "u32", "s")

    def execute(wave: Wave) -> None:
        lane = int(select(wave)) & 63
        wave.set_vector(target, np.array([value(wave)], np.uint32), 1 << lane)

    lane_select = select_keys[0] if select_keys else None
    traits = Traits("valu", (*keys, *select_keys, target), (target,), lane_access=True, lane_select=lane_select)
    return Step(instruction, traits, _checked(execute, (*keys, *select_keys)), "own")


def _first_lane(mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else 0


# -- AGPR moves ----------------------------------------------------------------------------------------
ACC_MNEMONICS = frozenset({"v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"})


def decode_acc(instruction: Instruction, decoder: Decoder) -> Step:
    """Moves between VGPRs and AGPRs."""
    decoder.modifiers(instruction)
    decoder.arity(instruction, 2)
    files = {"v_accvgpr_read_b32": ("v", "a"), "v_accvgpr_write_b32": ("a", "sv"), "v_accvgpr_mov_b32": ("a", "a")}
    target_file, source_file = files[instruction.mnemonic]
    target = decoder.register(instruction, instruction.operands[0], 1, target_file).base
    keys, reader = decoder.source(instruction, instruction.operands[1], "u32", source_file)

    def execute(wave: Wave) -> None:
        raw = reader(wave)
        wave.set_vector(target, np.array([raw], np.uint32) if isinstance(raw, int) else raw, wave.exec_mask)

    return Step(instruction, Traits("valu", keys, (target,)), execute)
