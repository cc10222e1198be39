"""Copies for tied operands: an instruction that updates a register leaves the value it reads where it is, if need be.

`v_fmac_f32 d, a, b, c` writes onto `c`. On virtual registers `c` may be read again later, or have a register of its own
for other reasons; so `c` is copied to `d` first, and `d` is what is updated. Where the allocator then puts both into
one register the copy does nothing, and the instruction is given back as it was written.

A copy takes the active lanes. Where only some are, and lanes that it did not take are wanted, it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.errors import OperandError
from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import COPIES, Edit
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import (
    Operand,
    PhysicalReg,
    RegRange,
    VirtualReg,
    registers,
    width,
)
from optimizer.kernels.amdgpu.resources import Resource, resources, writes_exec
from optimizer.kernels.amdgpu.validate import required_alignment


@dataclass(frozen=True)
class TiedCopies:
    """A program whose tied operands are the registers that are written."""

    original: Program
    program: Program
    places: frozenset[int]
    """Of the instructions in the original program whose operand is copied."""
    in_front: frozenset[int]
    """Those of them with nothing but a copy in front."""
    narrow: tuple[int, ...]
    """Those of them where lanes are wanted that the copy does not take."""

    def settled(self, program: Program, mapping: Mapping[VirtualReg, int]) -> tuple[Program, int]:
        """The program allocated without the copies that do nothing, and how many operands are copied. OperandError for
        a copy that takes too few lanes.

        A program that was rewritten keeps them: what is copied where is not known any more.
        """
        rewritten = program is not self.program
        idle = frozenset[int]() if rewritten else frozenset(p for p in self.in_front if self._is_idle(p, mapping))
        for place in self.narrow:
            if place not in idle:
                raise self._refused(place)
        return (tied_copies(self.original, idle).program if idle else program), len(self.places - idle)

    def _is_idle(self, place: int, mapping: Mapping[VirtualReg, int]) -> bool:
        item = self.original.body[place]
        assert isinstance(item, Instruction)
        return all(_home(source, mapping) == _home(target, mapping) for source, target in _apart(item).values())

    def _refused(self, place: int) -> OperandError:
        item = self.original.body[place]
        assert isinstance(item, Instruction)
        source, target = next(iter(_apart(item).values()))
        return OperandError(
            f"{item.name} updates {source}, and no copy of it holds the lanes that are not active there but wanted in "
            f"{target}",
            node=self.original.where(place),
            alternatives=(f"{source} as the result, too", "all lanes active"),
        )


def tied_copies(program: Program, without: frozenset[int] = frozenset()) -> TiedCopies:
    """Copies wherever a tied operand is not the register written, but for places `without`. OperandError where the two
    are of files between which nothing copies."""
    apart = {p: found for p, item in program.instructions if p not in without and (found := _apart(item))}
    if not apart:
        return TiedCopies(program, program, frozenset(), frozenset(), ())
    cfg = build_cfg(program)
    full = full_exec(program, cfg)
    edit = Edit(program)
    in_front, narrow = set(), []
    redefined: set[VirtualReg] = set()
    for place, pairs in apart.items():
        item = program.body[place]
        assert isinstance(item, Instruction)
        ((use, (source, target)),) = pairs.items()
        where = program.where(place)
        others = {r for n, o in enumerate(item.uses) if n != use for r in resources(o)}
        updated = target
        if others.isdisjoint(resources(target)):
            in_front.add(place)
        else:  # the result's registers hold another operand
            updated = _like(target, edit)
            definition = dict(opcode(item.name).tied)[use]
            item = replace(item, defs=_put(item.defs, definition, updated))
            edit.after[place] = list(_copies(target, updated, where, item.line))
        edit.before[place] = list(_copies(updated, source, where, item.line))
        edit.instead[place] = replace(item, uses=_put(item.uses, use, updated))
        redefined.update(r for r in registers(updated) if isinstance(r, VirtualReg))
        if _file(target) != "s" and not full[place] and _wants_other_lanes(program, cfg, place, target):
            narrow.append(place)
    changed = replace(edit.done(), redefinable=program.redefinable | redefined)
    return TiedCopies(program, changed, frozenset(apart), frozenset(in_front), tuple(narrow))


def _apart(item: Instruction) -> dict[int, tuple[Operand, Operand]]:
    """Tied operand's number -> the operand and the result that should be one register."""
    found = {}
    for use, definition in opcode(item.name).tied:
        if use < len(item.uses) and definition < len(item.defs):
            source, target = item.uses[use], item.defs[definition]
            if resources(source) != resources(target) and width(source) == width(target):
                found[use] = source, target
    return found


def _wants_other_lanes(program: Program, cfg: ControlFlowGraph, place: int, target: Operand) -> bool:
    """Whether an instruction updates lanes that are not active, or its result may be read where more lanes are: behind
    a change of the mask, or in another block."""
    item = program.body[place]
    assert isinstance(item, Instruction)
    if not opcode(item.name).is_vector:
        return True
    wanted = set(resources(target))
    same_mask = set()
    for later, following in program.at(range(place + 1, cfg.blocks[cfg.block_of[place]].stop)):
        same_mask.add(later)
        if writes_exec(following):
            break
    readers = ((p, i) for p, i in program.instructions if wanted & set(i.used))
    return any(p not in same_mask or not opcode(i.name).is_vector for p, i in readers)


def _put(operands: tuple[Operand, ...], number: int, operand: Operand) -> tuple[Operand, ...]:
    return (*operands[:number], operand, *operands[number + 1 :])


def _like(target: Operand, edit: Edit) -> Operand:
    """New registers of an operand's file, as many, aligned as it is."""
    file, count = _file(target), width(target)
    base, *_ = edit.fresh(file, count)
    alignment = target.alignment if isinstance(target, RegRange) else 1
    return base if count == 1 else RegRange(base, count, max(alignment, required_alignment(file, count)))


def _copies(target: Operand, source: Operand, where: str, line: int | None) -> Iterator[Instruction]:
    """Register by register, in an order in which none is written that is yet to be read."""
    targets, sources = registers(target), registers(source)
    if not (targets and sources) and width(target) == 2:  # vcc or exec
        yield Instruction("s_mov_b64", (target,), (source,), line=line)
        return
    name = COPIES.get((_file(target), _file(source)))
    if name is None:
        raise OperandError(f"{source} is tied to {target}, to which nothing copies it", node=where)
    pairs = list(zip(targets or (target,), sources or (source,), strict=True))
    later = {read for _, read in pairs[1:]}
    for written, read in pairs if targets[:1] and targets[0] not in later else reversed(pairs):
        yield Instruction(name, (written,), (read,), line=line)


def _file(operand: Operand) -> str:
    """The register file; special registers and constants are read and written like SGPRs."""
    found = resources(operand)
    return "s" if not found or isinstance(found[0], str) else found[0].file


def _home(operand: Operand, mapping: Mapping[VirtualReg, int]) -> tuple[Resource, ...]:
    return tuple(PhysicalReg(r.file, mapping[r]) if isinstance(r, VirtualReg) else r for r in resources(operand))
