"""s_waitcnt where a result is needed that may not have arrived, as weak as it may be.

Every memory operation takes a ticket of its counter, stores too. What is outstanding at a place is kept per register
as the number of tickets taken since: waiting until at most that many operations are outstanding is enough, because
vector memory operations, and LDS operations among themselves, complete in order. Scalar loads complete in any order:
while one is outstanding, only lgkmcnt(0) says anything. The state is carried over the control flow graph, joins and
back edges included, by taking the newest ticket of every way to a place; waits that the program has are observed.

A wait is due before an instruction that reads or overwrites a register which is still being loaded (a vector memory
load may overwrite the result of an older one), before LDS is touched while a load into LDS is outstanding and before a
load into LDS while LDS instructions are outstanding (the two go different ways; for the second LLVM 19 inserts nothing
and relies on memory being slower than LDS), before a store to memory while a scalar load of anything but kernel
arguments is outstanding, which might read what is stored, and before a barrier for what other waves could notice:
accesses that are unfinished while, behind the barrier and before the next one, a conflicting access may come (in a
workgroup of one wave there are no others). A store has read its data when it is issued (gfx942 has no expcnt for
memory), so that overwriting that data is a matter of wait states (`mitigate_hazards`), not of counters. Sources: "AMD
Instinct MI300 Instruction Set Architecture", section S_WAITCNT; LLVM's SIInsertWaitcnts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from optimizer.kernels.amdgpu.abi import KERNARG
from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Item, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import WaitCount, registers
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources
from optimizer.kernels.amdgpu.validate import WAIT_LIMITS
from optimizer.process.work_limit import spend

WAVE = 64
COUNTERS = ("vmcnt", "lgkmcnt")
SCALAR_LOAD, SCALAR_DATA, LOAD, STORE, LDS_DMA, LDS_READ, LDS_WRITE = (
    "<scalar load>", "<scalar load of data>", "<load>", "<store>", "<load to LDS>", "<LDS read>", "<LDS write>",
)  # fmt: skip
_CONFLICTS = {
    SCALAR_DATA: frozenset((STORE,)),
    LOAD: frozenset((STORE,)),
    STORE: frozenset((SCALAR_DATA, LOAD, STORE)),
    LDS_DMA: frozenset((LDS_READ, LDS_WRITE, LDS_DMA)),
    LDS_READ: frozenset((LDS_WRITE, LDS_DMA)),
    LDS_WRITE: frozenset((LDS_READ, LDS_WRITE, LDS_DMA)),
}
"""Accesses of another wave that must not come before this one is complete."""

_ARGUMENTS = frozenset(registers(KERNARG))
Pending = dict[str, dict[Resource, int]]
"""Counter -> register, or kind of access -> tickets taken since the newest one that concerns it."""
Waits = dict[str, int]


def insert_waits(program: Program, loads_at_barriers: bool = True) -> Program:
    """On physical registers: that two values share one matters.

    `loads_at_barriers`: count a global load that is unfinished at a barrier as in conflict with stores behind it. Where
    loads and stores never touch the same memory, a load may as well stay outstanding.
    """
    return program.with_body(_written_out(program, required_waits(program, loads_at_barriers)))


def required_waits(program: Program, loads_at_barriers: bool = True) -> dict[int, Waits]:
    """Place of each instruction that needs a wait before it -> counters and their limits."""
    cfg = build_cfg(program)
    data_loads = _loads_of_data(program, cfg)
    behind = _accesses_behind_barriers(program, cfg, data_loads) if prod(program.launch.workgroup) > WAVE else {}
    return cfg.settled(_join, _Tickets(program, cfg, behind, data_loads, loads_at_barriers).through)


@dataclass
class _Tickets:
    program: Program
    cfg: ControlFlowGraph
    behind: dict[int, frozenset[str]]
    data_loads: frozenset[int]
    loads_at_barriers: bool

    def through(self, b: int, entry: Pending) -> tuple[Pending, dict[int, Waits]]:
        """What may be outstanding behind a block, and the waits that it needs."""
        state = dict(entry)
        found: dict[int, Waits] = {}
        for place, item in self.program.at(self.cfg.blocks[b]):
            needed = self._needed(place, item, state)
            if needed:
                found[place] = needed
                _wait(state, needed)
            if item.name == "s_waitcnt":
                _wait(state, {u.counter: u.value for u in item.uses if isinstance(u, WaitCount)})
            _issue(item, state, (SCALAR_DATA,) if place in self.data_loads else ())
        return state, found

    def _needed(self, place: int, item: Instruction, state: Pending) -> Waits:
        own = "vmcnt" if opcode(item.name).category is Category.VMEM else None
        needed: Waits = {}
        for counter in COUNTERS:
            pending = state[counter]
            if not pending:
                continue
            ages = [pending[r] for r in read_resources(item) if r in pending]
            if counter != own:
                ages += [pending[r] for r in written_resources(item) if r in pending]
            ages += [pending[kind] for kind in self._conflicting(place, item) if kind in pending]
            if ages:
                least = 0 if SCALAR_LOAD in pending else min(ages)
                needed[counter] = min(least, WAIT_LIMITS[counter])
        return needed

    def _conflicting(self, place: int, item: Instruction) -> Iterable[str]:
        """Kinds of accesses that must be complete before an instruction."""
        if item.name == "s_barrier":
            kinds = [kind for kind, others in _CONFLICTS.items() if others & self.behind.get(place, frozenset())]
            return [kind for kind in kinds if kind != LOAD or self.loads_at_barriers]
        if STORE in access_kinds(item):
            return (SCALAR_DATA,)
        if LDS_DMA in access_kinds(item):
            return LDS_READ, LDS_WRITE
        touches_lds = opcode(item.name).category is Category.LDS and not _crosses_lanes(item)
        return (LDS_DMA,) if touches_lds else ()


def _join(states: Iterable[Pending]) -> Pending:
    """The newest ticket of every way."""
    joined: Pending = {counter: {} for counter in COUNTERS}
    for state in states:
        for counter in COUNTERS:
            target = joined[counter]
            for resource, age in state[counter].items():
                target[resource] = min(age, target.get(resource, age))
    return joined


def _wait(state: Pending, waits: Waits) -> None:
    """What is certainly complete after a wait goes."""
    for counter, limit in waits.items():
        pending = state.get(counter)
        if pending is None or (SCALAR_LOAD in pending and limit > 0):
            continue
        state[counter] = {resource: age for resource, age in pending.items() if age < limit}


def _issue(item: Instruction, state: Pending, also: Iterable[str]) -> None:
    """A ticket for a memory operation."""
    counter = opcode(item.name).counter
    if counter is None:
        return
    # Beyond the largest number that can be waited for, ages make no difference.
    limit = WAIT_LIMITS[counter] + 1
    pending = {resource: min(age + 1, limit) for resource, age in state[counter].items()}
    pending |= dict.fromkeys((*written_resources(item), *access_kinds(item), *also), 0)
    state[counter] = pending


def access_kinds(item: Instruction) -> tuple[str, ...]:
    """How an instruction touches memory that other waves may touch, or LDS."""
    known = opcode(item.name)
    if known.category is Category.SMEM:
        return (SCALAR_LOAD,)
    if known.category is Category.LDS:
        if _crosses_lanes(item):
            return ()
        return (LDS_WRITE,) if known.stores else (LDS_READ,)
    if known.category is not Category.VMEM or known.format == "SCRATCH":
        return ()
    if known.name.endswith("_lds"):
        return LOAD, LDS_DMA
    return (STORE,) if known.stores else (LOAD,)


def _crosses_lanes(item: Instruction) -> bool:
    """LDS instructions that move values between lanes and touch no memory."""
    return item.name in ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")


def _loads_of_data(program: Program, cfg: ControlFlowGraph) -> frozenset[int]:
    """Places of scalar loads from elsewhere than the kernel's arguments, which nothing writes."""
    found: set[int] = set()

    def moved_behind(b: int, moved: int) -> int:
        for place, item in program.at(cfg.blocks[b]):
            if opcode(item.name).category is Category.SMEM and item.uses and (moved or item.uses[0] != KERNARG):
                found.add(place)
            moved = moved or not _ARGUMENTS.isdisjoint(written_resources(item))
        return moved

    cfg.reaching(False, moved_behind)
    return frozenset(found)


def _accesses_behind_barriers(
    program: Program, cfg: ControlFlowGraph, data_loads: frozenset[int]
) -> dict[int, frozenset[str]]:
    """Place of each barrier -> kinds of accesses that may come before the next one on some way."""
    reach: list[frozenset[str]] = [frozenset()] * len(cfg.blocks)
    changed = True
    found: dict[int, frozenset[str]] = {}
    while changed:
        changed = False
        spend(len(program.body))
        for b in reversed(cfg.order):
            kinds = frozenset(k for s in cfg.flow.successors[b] for k in reach[s])
            for place, item in program.at(reversed(cfg.blocks[b])):
                if item.name == "s_barrier":
                    found[place], kinds = kinds, frozenset()
                else:
                    kinds |= frozenset(access_kinds(item))
                    kinds |= frozenset((SCALAR_DATA,) if place in data_loads else ())
            if kinds != reach[b]:
                reach[b], changed = kinds, True
    return found


def _written_out(program: Program, required: dict[int, Waits]) -> tuple[Item, ...]:
    """The body with the waits; one that stands right before the place is strengthened instead."""
    body: list[Item] = []
    for place, item in enumerate(program.body):
        waits = dict(required.get(place, {}))
        if waits:
            last = body[-1] if body else None
            if isinstance(last, Instruction) and last.name == "s_waitcnt":
                body.pop()
                for use in last.uses:
                    assert isinstance(use, WaitCount)
                    waits[use.counter] = min(use.value, waits.get(use.counter, use.value))
            order = [c for c in WAIT_LIMITS if c in waits]
            body.append(Instruction("s_waitcnt", (), tuple(WaitCount(c, waits[c]) for c in order)))
        body.append(item)
    return tuple(body)
