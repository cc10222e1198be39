"""s_nop where the hardware needs wait states between dependent instructions (`hazard_rules`); vccz that follows vcc.

What producers left behind is carried over the control flow graph with its distance in wait states, the smallest over
all ways to a place, until nothing changes; so hazards across block boundaries and back edges are found too. Only
instructions count: a comment or a label between two of them hides nothing.

Up to gfx9, a write of vcc_lo or vcc_hi alone leaves vccz as it was; a write of both sets it. Source: LLVM's
SIInsertWaitcnts, which does the same where `partialVCCWritesUpdateVCCZ` does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from optimizer.kernels.amdgpu.cfg import build_cfg
from optimizer.kernels.amdgpu.hazard_rules import (
    CLAUSE_BREAK,
    CLAUSE_UNITS,
    LONGEST,
    Need,
    Trace,
    breaks_clause,
    clause_kinds,
    matrix_states,
    needs,
    traces,
)
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import VCC, Immediate
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources
from optimizer.kernels.amdgpu.targets import XDL_RESULT_DELAY

# -- vccz ------------------------------------------------------------------------------------------------
_BRANCHES = ("s_cbranch_vccz", "s_cbranch_vccnz")
_HALVES = frozenset(("vcc_lo", "vcc_hi"))


def refresh_vccz(program: Program) -> Program:
    """On physical registers; before waits, because the move reads vcc."""
    stale = _stale(program)
    body: list[Item] = []
    for place, item in enumerate(program.body):
        if place in stale:
            body.append(Instruction("s_mov_b64", (VCC,), (VCC,), comment="vccz"))
        body.append(item)
    return program.with_body(tuple(body))


def _stale(program: Program) -> set[int]:
    """Branches on vccz before which, on some way, half of vcc was written last."""
    cfg = build_cfg(program)
    found: set[int] = set()

    def stale_behind(b: int, stale: int) -> int:
        for place, item in program.at(cfg.blocks[b]):
            if item.name in _BRANCHES and stale:
                found.add(place)
                stale = False
            written = _HALVES.intersection(written_resources(item))
            stale = len(written) == 1 or (stale and not written)
        return stale

    cfg.reaching(False, stale_behind)
    return found


# -- wait states -----------------------------------------------------------------------------------------
LONGEST_NOP = 16
"""Wait states of `s_nop 15`."""

_CLAUSE_KINDS = frozenset(f"{unit.value} {verb}" for unit in CLAUSE_UNITS for verb in ("reads", "writes"))

Past = dict[Trace, int]
"""What producers left behind -> wait states since."""


def mitigate_hazards(program: Program, mcpu: str = "gfx942") -> Program:
    """Comes last: on physical registers, after everything is expanded and every s_waitcnt is there."""
    return program.with_body(_written_out(program, required_nops(program, mcpu)))


def required_nops(program: Program, mcpu: str = "gfx942") -> dict[int, int]:
    """Place of each instruction that needs nops before it -> wait states that are missing."""
    cfg = build_cfg(program)
    facts = {place: _facts(item) for place, item in program.instructions if item.name != "_comment"}

    def through(b: int, past: Past) -> tuple[Past, dict[int, int]]:
        window = _Window(past, XDL_RESULT_DELAY[mcpu])
        found: dict[int, int] = {}
        for place in filter(facts.__contains__, cfg.blocks[b]):
            missing = window.missing(facts[place])
            if missing:
                found[place] = missing
            window.issue(facts[place], missing)
        return window.past(), found

    return cfg.settled(_join, through)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the rules say about one instruction, looked up once."""

    item: Instruction
    needs: tuple[Need, ...]
    traces: tuple[Trace, ...]
    touched: tuple[Resource, ...]
    """Where traces of MFMAs may be in the way; empty if they never are."""
    clause: tuple[str, ...]
    """Kinds of traces of the clause that the instruction may join."""
    states: int


def _facts(item: Instruction) -> _Facts:
    known = opcode(item.name)
    vector = known.category in (Category.VALU, Category.MFMA, Category.VMEM, Category.LDS)
    return _Facts(
        item,
        needs(item),
        traces(item),
        tuple(dict.fromkeys((*read_resources(item), *written_resources(item)))) if vector else (),
        clause_kinds(known) if known.category in CLAUSE_UNITS else (),
        _nop_states(item) if item.name == "s_nop" else 1,
    )


class _Window:
    """What producers left behind, while a block is gone through: by kind and register, with the clock at issue."""

    def __init__(self, past: Past, xdl_delay: int) -> None:
        self._xdl_delay = xdl_delay
        self._clock = 0
        self._recent: dict[tuple[str, Resource], list[tuple[Trace, int]]] = {}
        self._clause: set[Trace] = set()
        for trace, since in past.items():
            if trace.kind in _CLAUSE_KINDS:
                self._clause.add(trace)
            else:
                self._recent.setdefault((trace.kind, trace.resource), []).append((trace, -1 - since))

    def missing(self, facts: _Facts) -> int:
        """Wait states that must still pass before an instruction."""
        missing = CLAUSE_BREAK if facts.clause and breaks_clause(facts.item, self._clause) else 0
        for need in facts.needs:
            for _, issued in self._recent.get((need.kind, need.resource), ()):
                missing = max(missing, need.states - self._since(issued))
        for resource in facts.touched:
            for kind in ("mfma", "addend"):
                for trace, issued in self._recent.get((kind, resource), ()):
                    since = self._since(issued)
                    if since < LONGEST:
                        missing = max(missing, matrix_states(trace, facts.item, self._xdl_delay) - since)
        return missing

    def issue(self, facts: _Facts, nops: int) -> None:
        """An instruction, behind `nops` wait states of s_nop."""
        self._clock += nops
        if nops or not facts.clause:
            self._clause = set()
        elif self._clause:
            self._clause = {trace for trace in self._clause if trace.kind in facts.clause}
        for trace in facts.traces:
            if trace.kind in _CLAUSE_KINDS:
                self._clause.add(trace)
            else:
                self._recent[trace.kind, trace.resource] = [(trace, self._clock)]
        self._clock += facts.states

    def past(self) -> Past:
        """What may still matter to later blocks."""
        found = dict.fromkeys(self._clause, 0)
        for entries in self._recent.values():
            for trace, issued in entries:
                since = self._since(issued)
                if since < LONGEST:
                    found[trace] = since
        return found

    def _since(self, issued: int) -> int:
        return self._clock - issued - 1


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
