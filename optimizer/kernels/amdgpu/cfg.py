"""Basic blocks of a program and how control goes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from optimizer.kernels.amdgpu.errors import ControlFlowError
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Program
from optimizer.kernels.amdgpu.opcodes import OPCODES, opcode
from optimizer.process.work_limit import spend
from optimizer.regalloc.flow import FlowGraph


@dataclass(frozen=True)
class ControlFlowGraph:
    """Basic blocks, as places of the body, in textual order; block 0 is the entry."""

    blocks: tuple[range, ...]
    flow: FlowGraph
    block_of: tuple[int, ...]
    """Block of each item."""

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Reachable blocks in reverse postorder, then the others as they stand."""
        return (*self.flow.order, *(b for b in range(len(self.blocks)) if b not in self.flow.reachable))

    def dominates(self, a: int, b: int) -> bool:
        """Whether every way to item `b` passes item `a` before."""
        first, second = self.block_of[a], self.block_of[b]
        if first == second:
            return a < b
        return second in self.flow.reachable and self.flow.dominates(first, second)

    def reaching[S: (int, frozenset[Any])](self, nothing: S, leaving: Callable[[int, S], S]) -> list[S]:
        """What comes to the entry of each block: all that `leaving` says of the blocks before it, until it settles."""
        entry = [nothing] * len(self.blocks)
        changed = True
        while changed:
            changed = False
            spend(len(self.block_of))
            for b in self.order:
                out = leaving(b, entry[b])
                for s in self.flow.successors[b]:
                    if entry[s] | out != entry[s]:
                        entry[s], changed = entry[s] | out, True
        return entry

    def settled[S, F](
        self, join: Callable[[Iterable[S]], S], through: Callable[[int, S], tuple[S, dict[int, F]]]
    ) -> dict[int, F]:
        """What `through` finds in the blocks, by place, with the state that each begins with: those of all ways to it.

        A state that asks for more early in a block may ask for less later, so states do not only grow. If they have not
        settled soon, they are made to: what was in a state once stays there, which is never wrong, only stricter.
        """
        entry: list[S | None] = [None] * len(self.blocks)
        leaving: list[S | None] = [None] * len(self.blocks)
        found: list[dict[int, F]] = [{} for _ in self.blocks]
        round_number, pending = 0, set(self.order)
        while pending:
            round_number += 1
            for b in (b for b in self.order if b in pending):
                pending.discard(b)
                known = entry[b]
                before = [out for p in self.flow.predecessors[b] if (out := leaving[p]) is not None]
                if round_number > len(self.blocks) + 4 and known is not None:
                    before.append(known)
                state = join(before)
                if state != known:
                    spend(len(self.blocks[b]) + 1)
                    entry[b] = state
                    leaving[b], found[b] = through(b, state)
                    pending.update(self.flow.successors[b])
        return {place: item for block in found for place, item in block.items()}

    @cached_property
    def depth(self) -> tuple[int, ...]:
        """Loops around each block."""
        depth = [0] * len(self.blocks)
        for body in self.flow.loops().values():
            for b in body:
                depth[b] += 1
        return tuple(depth)


def build_cfg(program: Program) -> ControlFlowGraph:
    """ControlFlowError names a label that is missing or stands twice."""
    body = program.body
    spend(len(body))
    labels = _labels(program)
    starts = {0}
    for i, item in enumerate(body):
        if isinstance(item, Label):
            starts.add(i)
        elif _leaves(item):
            starts.add(i + 1)
    bounds = [*sorted(s for s in starts if s < len(body)), len(body)]
    blocks = tuple(range(a, b) for a, b in pairwise(bounds)) or (range(0),)
    block_of = tuple(n for n, block in enumerate(blocks) for _ in block)
    successors = []
    for n, block in enumerate(blocks):
        last = body[block.stop - 1] if block else None
        after: list[int] = []
        if _falls_through(last) and n + 1 < len(blocks):
            after.append(n + 1)
        if isinstance(last, Instruction) and last.name in OPCODES and OPCODES[last.name].is_branch:
            if last.target not in labels:
                raise ControlFlowError(
                    f"{last.name} leads to label '{last.target}', which is nowhere",
                    node=program.where(block.stop - 1),
                    alternatives=sorted(labels),
                )
            after.append(block_of[labels[last.target]])
        successors.append(tuple(dict.fromkeys(after)))
    return ControlFlowGraph(blocks, FlowGraph(tuple(successors)), block_of)


def _labels(program: Program) -> dict[str, int]:
    found: dict[str, int] = {}
    for i, item in enumerate(program.body):
        if isinstance(item, Label):
            if item.name in found:
                first = program.spot(found[item.name])
                raise ControlFlowError(f"label '{item.name}' stands at {first} and again", node=program.where(i))
            found[item.name] = i
    return found


def _leaves(item: Instruction) -> bool:
    found = opcode(item.name)
    return found.is_branch or found.ends_program


def _falls_through(item: Item | None) -> bool:
    if not isinstance(item, Instruction):
        return True
    found = opcode(item.name)
    return not found.ends_program and (found.is_conditional or not found.is_branch)
