"""s_nop where gfx942 needs wait states between dependent instructions (`hazard_rules`).

What producers left behind is carried over the control flow graph with its distance in wait states, the smallest over
all ways to a place, until nothing changes; so hazards across block boundaries and back edges are found too. Only
instructions count: a comment or a label between two of them hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.hazard_rules import (
    CLAUSE_BREAK,
    CLAUSE_UNITS,
    LONGEST,
    Trace,
    breaks_clause,
    clause_kinds,
    matrix_states,
    needs,
    traces,
)
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.kernels.amdgpu.operands import Immediate
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources

LONGEST_NOP = 16
"""Wait states of `s_nop 15`."""

_CLAUSE_KINDS = frozenset(f"{unit.value} {verb}" for unit in CLAUSE_UNITS for verb in ("reads", "writes"))

Past = dict[Trace, int]
"""What producers left behind -> wait states since."""


@dataclass(frozen=True)
class MitigateHazards:
    """Comes last: on physical registers, after everything is expanded and every s_waitcnt is there."""

    name: ClassVar[str] = "mitigate-hazards"

    def apply(self, program: Program) -> Program:
        return program.with_body(_written_out(program, self.required(program)))

    def required(self, program: Program) -> dict[int, int]:
        """Place of each instruction that needs nops before it -> wait states that are missing."""
        return _Distances(program, build_cfg(program)).solve()


@dataclass
class _Distances:
    program: Program
    cfg: ControlFlowGraph

    def solve(self) -> dict[int, int]:
        """Nops at the fixed point of distances; see `insert_waits` for why entries are made to settle."""
        blocks = self.cfg.blocks
        entry: list[Past] = [{} for _ in blocks]
        leaving: list[Past | None] = [None] * len(blocks)
        nops: list[dict[int, int]] = [{} for _ in blocks]
        round_number, changed = 0, True
        while changed:
            changed = False
            round_number += 1
            for b in self.cfg.order:
                before = [out for p in self.cfg.flow.predecessors[b] if (out := leaving[p]) is not None]
                if round_number > len(blocks) + 4:
                    before.append(entry[b])
                entry[b] = _join(before)
                state, nops[b] = self._block(b, entry[b])
                if state != leaving[b]:
                    leaving[b], changed = state, True
        return {place: found for block in nops for place, found in block.items()}

    def _block(self, b: int, past: Past) -> tuple[Past, dict[int, int]]:
        found: dict[int, int] = {}
        for place in self.cfg.blocks[b].items:
            item = self.program.body[place]
            if not isinstance(item, Instruction) or item.name == "_comment":
                continue
            missing = missing_states(item, past) if past else 0
            if missing:
                found[place] = missing
            past = _after(item, past, missing)
        return past, found


def missing_states(item: Instruction, past: Past) -> int:
    """Wait states that must still pass before an instruction."""
    missing = CLAUSE_BREAK if breaks_clause(item, past) else 0
    due: dict[tuple[str, Resource], int] = {}
    for need in needs(item):
        key = (need.kind, need.resource)
        due[key] = max(need.states, due.get(key, 0))
    touched: set[Resource] | None = None
    for trace, since in past.items():
        states = due.get((trace.kind, trace.resource), 0)
        if trace.kind in ("mfma", "addend"):
            touched = touched or {*read_resources(item), *written_resources(item)}
            if trace.resource in touched:
                states = matrix_states(trace, item)
        missing = max(missing, states - since)
    return missing


def _after(item: Instruction, past: Past, nops: int) -> Past:
    """The state behind an instruction before which `nops` wait states were inserted."""
    own = traces(item)
    replaced = {(t.kind, t.resource) for t in own}
    passed = nops + (_nop_states(item) if item.name == "s_nop" else 1)
    known = opcode(item.name)
    joined = clause_kinds(known) if known.category in CLAUSE_UNITS and not nops else ()
    after = {}
    for trace, since in past.items():
        if trace.kind in _CLAUSE_KINDS:
            if trace.kind in joined:
                after[trace] = 0
        elif since + passed < LONGEST and (trace.kind, trace.resource) not in replaced:
            after[trace] = since + passed
    return after | dict.fromkeys(own, 0)


def _nop_states(item: Instruction) -> int:
    count = item.uses[0]
    assert isinstance(count, Immediate)
    return count.value + 1


def _join(states: Iterable[Past]) -> Past:
    """The smallest distance over all ways."""
    joined: Past = {}
    for state in states:
        for trace, since in state.items():
            joined[trace] = min(since, joined.get(trace, since))
    return joined


def _written_out(program: Program, required: dict[int, int]) -> tuple[Item, ...]:
    body: list[Item] = []
    for place, item in enumerate(program.body):
        missing = required.get(place, 0)
        last = body[-1] if body else None
        if missing and isinstance(last, Instruction) and last.name == "s_nop":
            longer = min(LONGEST_NOP, _nop_states(last) + missing)
            missing -= longer - _nop_states(last)
            body[-1] = Instruction("s_nop", (), (Immediate(longer - 1),), comment=last.comment)
        while missing:
            states = min(missing, LONGEST_NOP)
            body.append(Instruction("s_nop", (), (Immediate(states - 1),)))
            missing -= states
        body.append(item)
    return tuple(body)
