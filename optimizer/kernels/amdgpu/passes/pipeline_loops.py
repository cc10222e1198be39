"""Software pipelining: a loop loads for its next round while it works on what the last round loaded.

A round is cut in two. Its first part is what the loads from memory and the loop's condition need, the second part the
rest; a round's first part then comes a round early:

    head:       first                          head:       first -> x
                s_cbranch (no more) last                   s_cbranch (no more) last
    next:       second                         next:       second of x, first -> y
                first                                      s_cbranch (no more) last_odd
                s_cbranch (more) next          next_odd:   second of y, first -> x
    last:       second                                     s_cbranch (more) next
                                               last, last_odd: second of x; second of y

On the left loads wait until the registers that they write have been read; on the right there are two sets of them, used
in turn. Nothing is executed that was not executed before, and the first part passes nothing but what it does not depend
on. Which form a loop takes, or none, is decided by the model of one wave (`scheduling.machine`) over eight rounds, each
block in its best order, within the registers that there may be.

Loops of one block whose lanes are all active, without waits, s_nop and changes of exec inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import with_names
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Program
from optimizer.kernels.amdgpu.opcodes import Category, opcode
from optimizer.kernels.amdgpu.operands import Register, RegRange, VirtualReg, registers
from optimizer.kernels.amdgpu.passes.schedule_blocks import runs
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse
from optimizer.kernels.amdgpu.scheduling.dependences import (
    MemoryOrder,
    dependences,
    is_movable,
    prescribed_homes,
)
from optimizer.kernels.amdgpu.scheduling.list_schedule import best_order
from optimizer.kernels.amdgpu.scheduling.machine import Machine
from optimizer.kernels.amdgpu.scheduling.pressure import FILES, Limits
from optimizer.regalloc.union_find import UnionFind

ROUNDS = 8
"""For which forms of a loop are compared."""
LONGEST_BODY = 256
"""Instructions of a loop that is looked at."""
_OPPOSITE = {
    "s_cbranch_scc0": "s_cbranch_scc1", "s_cbranch_scc1": "s_cbranch_scc0",
    "s_cbranch_vccz": "s_cbranch_vccnz", "s_cbranch_vccnz": "s_cbranch_vccz",
}  # fmt: skip


def pipeline_loops(program: Program, limits: Limits, order: MemoryOrder) -> Program:
    """On virtual registers. `limits`: registers of each class that may be live at once."""
    done: set[str] = set()
    while (loop := _next_loop(program, order, done)) is not None:
        done.update(loop.labels)
        forms = [loop.once(), *((loop.twice(),) if loop.doubled else ())]
        best, cycles = program, _cycles(program, (loop.labels[0],) * ROUNDS, limits, order)
        for form in forms:
            candidate = form.put(program, loop)
            if _fits(candidate, limits) and (taken := _cycles(candidate, form.way, limits, order)) < cycles:
                best, cycles = candidate, taken
        program = best
    return program


@dataclass(frozen=True)
class _Form:
    """A loop written anew."""

    body: tuple[Item, ...]
    way: tuple[str, ...]
    """Labels of the blocks that `ROUNDS` rounds go through."""
    redefined: frozenset[VirtualReg]

    def put(self, program: Program, loop: _Loop) -> Program:
        body = (*program.body[: loop.places.start], *self.body, *program.body[loop.places.stop :])
        return replace(program, body=body, redefinable=program.redefinable | self.redefined)


@dataclass(frozen=True)
class _Loop:
    """A loop of one block, cut in two parts."""

    places: range
    labels: tuple[str, ...]
    """The one it has, and names for those of other forms."""
    first: tuple[Instruction, ...]
    second: tuple[Instruction, ...]
    branch: Instruction
    doubled: Mapping[VirtualReg, VirtualReg]
    """What the first part hands to the second one, and a second set of registers for it."""

    def once(self) -> _Form:
        head, kernel, last, *_ = self.labels
        body = (
            Label(head), *self.first, self._leave(last),
            Label(kernel), *self.second, *self.first, replace(self.branch, target=kernel),
            Label(last), *self.second,
        )  # fmt: skip
        return _Form(body, (head, *(kernel,) * (ROUNDS - 1), last), self._redefined())

    def twice(self) -> _Form:
        head, even, last, odd, last_odd, end = self.labels
        first, second = (tuple(with_names(i, self.doubled, self.doubled) for i in part)
                         for part in (self.first, self.second))  # fmt: skip
        body = (
            Label(head), *self.first, self._leave(last),
            Label(even), *self.second, *first, self._leave(last_odd),
            Label(odd), *second, *self.first, replace(self.branch, target=even),
            Label(last), *self.second, Instruction("s_branch", target=end),
            Label(last_odd), *second,
            Label(end),
        )  # fmt: skip
        kernels = tuple(odd if n % 2 else even for n in range(ROUNDS - 1))
        return _Form(body, (head, *kernels, last_odd), self._redefined() | frozenset(self.doubled.values()))

    def _leave(self, label: str) -> Instruction:
        return replace(self.branch, name=_OPPOSITE[self.branch.name], target=label)

    def _redefined(self) -> frozenset[VirtualReg]:
        parts = (*self.first, *self.second)
        return frozenset(r for i in parts for r in i.defined if isinstance(r, VirtualReg))


def _cycles(program: Program, way: Sequence[str], limits: Limits, order: MemoryOrder) -> int:
    """Of one wave through blocks, by their labels, each in its best order."""
    body = list(program.body)
    for found in runs(program, order, frozenset(way)):
        for place, n in zip(found.places, best_order(found.run, limits), strict=True):
            body[place] = found.run.items[n]
    cfg = build_cfg(program)
    blocks = {item.name: cfg.blocks[cfg.block_of[place]] for place, item in enumerate(body) if isinstance(item, Label)}
    machine = Machine()
    for label in way:
        for place in blocks[label].items:
            item = body[place]
            if isinstance(item, Instruction) and item.name != "_comment":
                machine.issue(item)
    return machine.clock


def _fits(program: Program, limits: Limits) -> bool:
    liveness = analyse(program)
    return all(liveness.pressure(file) <= limits[file] for file in FILES)


def _next_loop(program: Program, order: MemoryOrder, done: set[str]) -> _Loop | None:
    """The first loop that can be pipelined and has not been looked at; names those that cannot be as done."""
    cfg = build_cfg(program)
    full = full_exec(program, cfg)
    liveness = None
    for b, block in enumerate(cfg.blocks):
        label = program.body[block.start] if block.items else None
        if not isinstance(label, Label) or label.name in done or b not in cfg.flow.successors[b]:
            continue
        done.add(label.name)
        if all(full[place] for place in block.items) and len(block.items) <= LONGEST_BODY:
            liveness = liveness or analyse(program, cfg)
            loop = _cut(program, cfg, liveness, order, b)
            if loop is not None:
                return loop
    return None


def _cut(program: Program, cfg: ControlFlowGraph, liveness: Liveness, order: MemoryOrder, b: int) -> _Loop | None:
    """The two parts of a loop; None if no load can come before the rest."""
    block = cfg.blocks[b]
    items = [item for _, item in program.at(block.items) if item.name != "_comment"]
    *inside, branch = items
    if branch.name not in _OPPOSITE or not all(map(is_movable, inside)):
        return None
    graph = dependences(items, order, prescribed_homes(program))
    chosen = graph.closure({len(inside)}) - {len(inside)}
    if not all(_may_come_early(items[n]) for n in chosen):
        return None
    loads = 0
    for n, item in enumerate(inside):
        with_load = graph.closure({n}) if _is_load(item) else set[int]()
        if with_load and all(_may_come_early(items[m]) for m in with_load):
            chosen |= with_load
            loads += 1
    first = tuple(item for n, item in enumerate(inside) if n in chosen)
    second = tuple(item for n, item in enumerate(inside) if n not in chosen)
    if not loads or not second:
        return None
    names = _new_labels(program, program.body[block.start])
    doubled = _doubled(program, cfg, liveness, b, first, second)
    return _Loop(block.items, names, first, second, branch, doubled)


def _is_load(item: Instruction) -> bool:
    """A load from memory into registers."""
    known = opcode(item.name)
    return known.category is Category.VMEM and bool(item.defs) and not known.stores and known.format != "SCRATCH"


def _may_come_early(item: Instruction) -> bool:
    return opcode(item.name).category in (Category.VALU, Category.SALU, Category.SMEM) or _is_load(item)


def _new_labels(program: Program, head: Item) -> tuple[str, ...]:
    assert isinstance(head, Label)
    taken = {item.name for item in program.body if isinstance(item, Label)} | {program.name}
    found = [head.name]
    for suffix in ("next", "last", "next_odd", "last_odd", "end"):
        name = f"{head.name}_{suffix}"
        while name in taken:
            name += "_"
        taken.add(name)
        found.append(name)
    return tuple(found)


def _doubled(
    program: Program,
    cfg: ControlFlowGraph,
    liveness: Liveness,
    b: int,
    first: Sequence[Instruction],
    second: Sequence[Instruction],
) -> dict[VirtualReg, VirtualReg]:
    """New registers for what the first part defines anew in each round and the second one reads, ranges together."""
    outside = {r for p, i in program.instructions if p not in cfg.blocks[b].items for r in (*i.defined, *i.used)}
    kept = outside | {r for i in second for r in i.defined} | liveness.live_in(b) | {r for r, _ in program.precolored}
    made = {r for i in first for r in i.defined if isinstance(r, VirtualReg)}
    read = {r for i in second for r in i.used}
    numbers = {file: program.next_number(file) for file in FILES}
    found: dict[VirtualReg, VirtualReg] = {}
    for group in _tied(program):
        if group <= made and group & read and not group & kept:
            for register in sorted(group):
                found[register] = VirtualReg(register.file, numbers[register.file])
                numbers[register.file] += 1
    return found


def _tied(program: Program) -> Iterator[set[VirtualReg]]:
    """Virtual registers that ranges hold together, in order."""
    registers_ = program.virtual_registers
    number = {r: n for n, r in enumerate(registers_)}
    sets = UnionFind()
    for _, item in program.instructions:
        for operand in (*item.defs, *item.uses):
            if isinstance(operand, RegRange) and isinstance(operand.base, VirtualReg):
                base, *others = registers(operand)
                for other in others:
                    sets.union(number[_virtual(base)], number[_virtual(other)])
    groups: dict[int, set[VirtualReg]] = {}
    for register in registers_:
        groups.setdefault(sets.find(number[register]), set()).add(register)
    yield from groups.values()


def _virtual(register: Register) -> VirtualReg:
    assert isinstance(register, VirtualReg)
    return register
