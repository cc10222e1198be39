"""Two vector instructions as one; the fusing passes are the table `FUSIONS`.

A producer is fused into its consumer if its result is a virtual register with no other use and no other definition,
both are in one block with neither a redefinition of what the producer reads nor a change of exec between them, and the
fused instruction is legal: VOP3 on gfx942 takes no literal constant and one scalar register at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from optimizer.kernels.amdgpu.cfg import build_cfg
from optimizer.kernels.amdgpu.debug import say
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import Immediate, Operand, PhysicalReg, VirtualReg
from optimizer.kernels.amdgpu.registers.definitions import single_definitions
from optimizer.kernels.amdgpu.resources import EXEC_PARTS, Resource, read_resources, written_resources
from optimizer.kernels.amdgpu.validate import constant_problem


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
    private = {r for r in single_definitions(program) if uses[r] == 1 and r not in program.redefinable}
    aliases: dict[Resource, Resource] = {r: PhysicalReg(r.file, n) for r, n in program.precolored}
    body: list[Item | None] = list(program.body)
    for block in build_cfg(program).blocks:
        candidates = _Candidates(aliases)
        for place in block.items:
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
