"""Instructions that become others, or go, on virtual registers.

Literal constants go first, where the short encodings of vector instructions have room for them.

Two vector instructions become one by the table `FUSIONS`. A producer is fused into its consumer if its result is a
virtual register with no other use and no other definition, both are in one block with neither a redefinition of what
the producer reads nor a change of exec between them, and the fused instruction is legal: VOP3 on gfx942 takes no
literal constant and one scalar register at most.

The first MFMA on an accumulator takes its initial constant as addend, which saves the four moves: only where the
constant is set outside any loop and the first instruction that touches the accumulator, with no way around it and no
other way to it, is that MFMA.

Dead code goes last, if that is asked for. An instruction is needed if it has an effect beyond registers (stores,
barriers, branches, waits, nops, the exec mask) or writes what a needed instruction reads: backward dataflow in which
only needed instructions read, so that a counter that only counts itself goes too. Loads of which nothing is used go as
well; a program that loads for the effect on caches must not ask for this pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.debug import say
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.modifiers import keeps_lanes
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import Immediate, Operand, PhysicalReg, VirtualReg, registers
from optimizer.kernels.amdgpu.passes.expansion import mfma_of
from optimizer.kernels.amdgpu.resources import (
    EXEC_PARTS,
    Resource,
    is_scalar,
    read_resources,
    writes_exec,
    written_resources,
)
from optimizer.kernels.amdgpu.validate import constant_problem
from optimizer.process.work_limit import spend

# -- literals --------------------------------------------------------------------------------------------
_REVERSED: Mapping[str, str] = MappingProxyType({
    "v_sub_u32": "v_subrev_u32", "v_subrev_u32": "v_sub_u32", "v_sub_f32": "v_subrev_f32",
    "v_subrev_f32": "v_sub_f32", "v_sub_f16": "v_subrev_f16", "v_subrev_f16": "v_sub_f16",
})  # fmt: skip
"""The same instruction with its operands the other way round."""


def commute_literals(program: Program) -> Program:
    """Only what cannot be encoded otherwise, and can be once the first two operands are swapped."""
    return program.with_body(tuple(_commuted(item) for item in program.body))


def _commuted(item: Item) -> Item:
    if not isinstance(item, Instruction) or not item.name.startswith("v_") or len(item.uses) < 2 or item.modifiers:
        return item
    known = opcode(item.name)
    name = item.name if known.commutative else _REVERSED.get(item.name)
    if name is None or not known.literal_uses or constant_problem(known, item) is None:
        return item
    first, second, *rest = item.uses
    swapped = replace(item, name=name, uses=(second, first, *rest))
    return swapped if constant_problem(opcode(name), swapped) is None else item


# -- fusion ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Fusion:
    """`producer` and `consumer` become `fused`."""

    producer: str
    consumer: str
    fused: str
    operands: Callable[[Instruction, Instruction, int], tuple[Operand, ...] | None]
    """Of the fused instruction, from producer, consumer and the result's place in it; None where it does not do."""


def _shifted(producer: Instruction, consumer: Instruction, place: int) -> tuple[Operand, ...] | None:
    """Value, amount, other operand; the amount must be a constant."""
    amount, value = producer.uses
    return (value, amount, consumer.uses[1 - place]) if isinstance(amount, Immediate) else None


def _sum_shifted(producer: Instruction, consumer: Instruction, place: int) -> tuple[Operand, ...] | None:
    """The same of `(x + y) << n`."""
    amount = consumer.uses[0]
    return (*producer.uses, amount) if place == 1 and isinstance(amount, Immediate) else None


FUSIONS: Mapping[str, Fusion] = MappingProxyType({
    "fuse-shift-add": Fusion("v_lshlrev_b32", "v_add_u32", "v_lshl_add_u32", _shifted),
    "fuse-shift-or": Fusion("v_lshlrev_b32", "v_or_b32", "v_lshl_or_b32", _shifted),
    "fuse-add-shift": Fusion("v_add_u32", "v_lshlrev_b32", "v_add_lshl_u32", _sum_shifted),
    "fuse-or-or": Fusion("v_or_b32", "v_or_b32", "v_or3_b32", lambda first, last, n: (*first.uses, last.uses[1 - n])),
})  # fmt: skip
"""By the pass's name, in the order in which they run. Chains of ors are fused in pairs, from the top."""


def fuse(program: Program, fusion: Fusion) -> Program:
    """Apply one fusion wherever it is safe and legal, in the order of the text."""
    uses = Counter(r for _, i in program.instructions for r in i.used)
    private = {r for r in program.single_definitions if uses[r] == 1 and r not in program.redefinable}
    aliases: dict[Resource, Resource] = {r: PhysicalReg(r.file, n) for r, n in program.precolored}
    body: list[Item | None] = list(program.body)
    for block in build_cfg(program).blocks:
        candidates = _Candidates(aliases)
        for place in block:
            item = body[place]
            if not isinstance(item, Instruction):
                continue
            fused = _fused_with_any(fusion, item, candidates.places, body)
            if fused is not None:
                source, item = fused
                text = f"{fusion.producer} at {source} and {fusion.consumer} at {place}: {item.name}"
                say("passes", text, producer=source, consumer=place, fused=item.name)
                body[source], body[place] = None, item
            candidates.forget_before(item)
            if item.name == fusion.producer and not item.modifiers and item.defs[0] in private:
                assert isinstance(item.defs[0], VirtualReg)
                candidates.add(item.defs[0], item, place)
    return program.with_body(tuple(item for item in body if item is not None))


def _fused_with_any(
    fusion: Fusion, consumer: Instruction, candidates: dict[Resource, int], body: list[Item | None]
) -> tuple[int, Instruction] | None:
    """The place of the producer and the fused instruction, for the first operand that allows it."""
    if consumer.name != fusion.consumer or consumer.modifiers:
        return None
    for number, use in enumerate(consumer.uses):
        place = candidates.get(use) if isinstance(use, VirtualReg) else None
        if place is None:
            continue
        producer = body[place]
        assert isinstance(producer, Instruction)
        operands = fusion.operands(producer, consumer, number)
        if operands is None:
            continue
        comment = consumer.comment or producer.comment
        fused = replace(consumer, name=fusion.fused, uses=operands, comment=comment)
        if constant_problem(opcode(fusion.fused), fused) is None:
            return place, fused
    return None


class _Candidates:
    """Producers of a block that may still be moved behind what follows."""

    def __init__(self, aliases: Mapping[Resource, Resource]) -> None:
        self._aliases = aliases
        self.places: dict[Resource, int] = {}
        """By result."""
        self._readers: dict[Resource, list[Resource]] = {}
        """What a producer reads -> its result."""

    def add(self, result: VirtualReg, producer: Instruction, place: int) -> None:
        self.places[result] = place
        for r in read_resources(producer):
            self._readers.setdefault(self._aliases.get(r, r), []).append(result)

    def forget_before(self, item: Instruction) -> None:
        """Let go of those that an instruction makes impossible to move behind it."""
        written = {self._aliases.get(r, r) for r in written_resources(item)}
        if not written.isdisjoint(EXEC_PARTS):
            self.places.clear()
            self._readers.clear()
        for resource in written:
            for result in self._readers.pop(resource, ()):
                self.places.pop(result, None)


# -- accumulators ----------------------------------------------------------------------------------------
def init_accumulators(program: Program) -> Program:
    """Looks for `_init_acc_quad` before it is expanded."""
    cfg = build_cfg(program)
    depth = cfg.depth
    body: list[Item | None] = list(program.body)
    for place, item in program.instructions:
        value = item.uses[0] if item.name == "_init_acc_quad" and item.uses else None
        if not isinstance(value, Immediate) or not value.is_inline() or depth[cfg.block_of[place]]:
            continue
        first = next((p for p in _behind(cfg, depth, place) if _touches(body[p], item)), None)
        if first is None:
            continue
        matrix = _accumulating(body[first], item)
        if matrix is not None:
            body[place], body[first] = None, replace(matrix, uses=(*matrix.uses[:2], value))
    return program.with_body(tuple(item for item in body if item is not None))


def _behind(cfg: ControlFlowGraph, depth: tuple[int, ...], place: int) -> Iterator[int]:
    """Places that come next with certainty, and only this way, outside loops."""
    block = cfg.block_of[place]
    yield from range(place + 1, cfg.blocks[block].stop)
    while True:
        after = cfg.flow.successors[block]
        if len(after) != 1 or cfg.flow.predecessors[after[0]] != (block,) or depth[after[0]]:
            return
        block = after[0]
        yield from cfg.blocks[block]


def _touches(item: Item | None, init: Instruction) -> bool:
    spend(1)
    return isinstance(item, Instruction) and not set(init.defined).isdisjoint((*item.used, *item.defined))


def _accumulating(item: Item | None, init: Instruction) -> Instruction | None:
    """An MFMA that adds to the accumulator in place, and does not read it otherwise."""
    assert isinstance(item, Instruction)
    matrix = mfma_of(item) if item.name == "_mfma_acc" else item
    if opcode(matrix.name).category is not Category.MFMA or matrix.modifiers:
        return None
    inputs = {r for use in matrix.uses[:2] for r in registers(use)}
    accumulator = init.defs[0]
    in_place = registers(matrix.defs[0]) == registers(matrix.uses[2]) == registers(accumulator)
    return matrix if in_place and inputs.isdisjoint(registers(accumulator)) else None


# -- dead code -------------------------------------------------------------------------------------------
def remove_dead_code(program: Program) -> Program:
    """On virtual or physical registers."""
    needed = _needed(program, build_cfg(program))
    return program.with_body(
        tuple(item for place, item in enumerate(program.body) if not isinstance(item, Instruction) or place in needed)
    )


def has_effect(instruction: Instruction) -> bool:
    """Whether an instruction does more than write registers that may or may not be read."""
    known = opcode(instruction.name)
    if known.category in (Category.BRANCH, Category.CONTROL) or known.stores or known.name.endswith("_lds"):
        return True
    if known.is_pseudo and not instruction.defs:
        return True
    return writes_exec(instruction)


def _needed(program: Program, cfg: ControlFlowGraph) -> set[int]:
    masked = any(writes_exec(item) or keeps_lanes(item) for _, item in program.instructions)
    aliases: dict[Resource, Resource] = {r: PhysicalReg(r.file, n) for r, n in program.precolored}
    alive: list[set[Resource]] = [set() for _ in cfg.blocks]
    needed: set[int] = set()
    changed = True
    while changed:
        changed = False
        spend(len(program.body))
        for b in reversed(cfg.order):
            live = {r for s in cfg.flow.successors[b] for r in alive[s]}
            for place, item in program.at(reversed(cfg.blocks[b])):
                written = [aliases.get(r, r) for r in written_resources(item)]
                if not has_effect(item) and live.isdisjoint(written):
                    continue
                needed.add(place)
                # Under a partial mask a vector register keeps its other lanes.
                live.difference_update(r for r in written if is_scalar(r) or not masked)
                live.update(aliases.get(r, r) for r in read_resources(item))
            if live != alive[b]:
                alive[b], changed = live, True
    return needed
