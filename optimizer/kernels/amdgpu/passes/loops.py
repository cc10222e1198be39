"""Loops that test at the bottom, and software pipelining: a loop loads for rounds to come while it works on this one.

A loop that tests at the top then tests at the bottom, behind a first test at the top: two branches less per round. Only
where the header does nothing but compare scalars; without branches inside it then is a single block, which is what can
be pipelined.

    header:  s_cmp ..., s_cbranch body     header:  s_cmp ..., s_cbranch body
             s_branch exit                          s_branch exit
    body:    ...                           body:    ...
             s_branch header                        s_cmp ..., s_cbranch body
    exit:                                  exit:

A round is cut in two: its first part is what the loads from memory and the loop's condition need, the second one the
rest. First parts then come one round early, or more:

    head:      first -> x                     head:      first -> x
               s_cbranch (no more) drain                 s_cbranch (no more) exit
    round_0:   second of x                    round_0:   second of x, first -> y
               first -> x                                s_cbranch (no more) drain_0
               s_cbranch (more) round_0       round_1:   second of y, first -> x
    drain:     second of x                               s_cbranch (more) round_0
                                              ...        what is left

On the left loads wait until their registers have been read; on the right there are two sets of them, used in turn, and
there may be more, for rounds further ahead. Nothing is executed that was not executed before, and first parts pass
nothing but what they do not depend on. Which form a loop takes, or none, is decided by the model of one wave
(`scheduling.machine`) over eight rounds, each block in its best order, within the registers that there may be.

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
from optimizer.kernels.amdgpu.operands import FILES, Register, RegRange, VirtualReg, registers
from optimizer.kernels.amdgpu.registers.liveness import Liveness, analyse
from optimizer.kernels.amdgpu.resources import Resource, read_resources, written_resources
from optimizer.kernels.amdgpu.scheduling.dependences import (
    Dependences,
    MemoryOrder,
    accesses,
    dependences,
    is_movable,
    prescribed_homes,
)
from optimizer.kernels.amdgpu.scheduling.list_schedule import Limits, best_order, runs
from optimizer.kernels.amdgpu.scheduling.machine import Machine
from optimizer.process.work_limit import spend
from optimizer.regalloc.union_find import UnionFind


# -- rotation --------------------------------------------------------------------------------------------
def rotate_loops(program: Program) -> Program:
    """On virtual or physical registers."""
    cfg = build_cfg(program)
    headers = {header.label: header for b in range(len(cfg.blocks)) if (header := _header(program, cfg, b))}
    rotated: set[str] = set()
    body: list[Item] = []
    for place, item in enumerate(program.body):
        header = headers.get(item.target or "") if isinstance(item, Instruction) and item.name == "s_branch" else None
        if header is None or not cfg.flow.dominates(header.block, cfg.block_of[place]):
            body.append(item)
            continue
        spend(len(header.test))
        rotated.add(header.body)
        body += header.test
        following = program.body[place + 1] if place + 1 < len(program.body) else None
        if not (isinstance(following, Label) and following.name == header.exit):
            body.append(Instruction("s_branch", target=header.exit))
    return _without_idle_labels(program.with_body(tuple(body)), rotated) if rotated else program


@dataclass(frozen=True)
class _Header:
    block: int
    label: str
    test: tuple[Instruction, ...]
    """The comparison, and the branch to the body."""
    body: str
    exit: str


def _header(program: Program, cfg: ControlFlowGraph, block: int) -> _Header | None:
    """A block that compares and branches, followed by a branch to elsewhere."""
    items = [program.body[place] for place in cfg.blocks[block]]
    if block not in cfg.flow.reachable or len(items) < 2 or block + 1 == len(cfg.blocks):
        return None
    label, *test = items
    leaving = [program.body[place] for place in cfg.blocks[block + 1]]
    if not isinstance(label, Label) or len(leaving) != 1:
        return None
    instructions = tuple(i for i in test if isinstance(i, Instruction) and i.name != "_comment")
    if not instructions or any(opcode(i.name).format != "SOPC" for i in instructions[:-1]):
        return None
    branch, (exit_,) = instructions[-1], leaving
    if not (isinstance(exit_, Instruction) and exit_.name == "s_branch" and exit_.target):
        return None
    if not opcode(branch.name).is_conditional or not branch.target:
        return None
    return _Header(block, label.name, instructions, branch.target, exit_.target)


def _without_idle_labels(program: Program, rotated: set[str]) -> Program:
    """Without the labels inside rotated loops to which nothing leads."""
    targets = {item.target for _, item in program.instructions}
    body: list[Item] = []
    inside = False
    for item in program.body:
        if isinstance(item, Label):
            inside = item.name in rotated or (inside and item.name not in targets)
            if inside and item.name not in targets:
                continue
        body.append(item)
    return program.with_body(tuple(body))


# -- pipelining ------------------------------------------------------------------------------------------
ROUNDS = 8
"""For which forms of a loop are compared."""
SHAPES = ((1, 1), (1, 2), (2, 2), (2, 3), (3, 3), (3, 4))
"""(rounds that loads are ahead, sets of registers), those with few registers first."""
LONGEST_BODY = 256
"""Instructions of a loop that is looked at."""
LONGEST_STEM = 160
"""Letters of a loop's label in those of its parts, which may have 200."""
LONGEST_FORM = 1024
"""Instructions of what it may become."""
_OPPOSITE = {
    "s_cbranch_scc0": "s_cbranch_scc1", "s_cbranch_scc1": "s_cbranch_scc0",
    "s_cbranch_vccz": "s_cbranch_vccnz", "s_cbranch_vccnz": "s_cbranch_vccz",
}  # fmt: skip


def pipeline_loops(
    program: Program, limits: Limits, order: MemoryOrder, shapes: tuple[tuple[int, int], ...] = SHAPES
) -> Program:
    """On virtual registers. `limits`: registers of each class that may be live at once; `shapes`: to choose from."""
    done: set[str] = set()
    while (loop := _next_loop(program, order, done)) is not None:
        best, cycles = program, _cycles(program, (loop.label,) * ROUNDS, limits, order)
        for ahead, sets in shapes:
            if (sets > 1 and not loop.renamed) or (ahead > 1 and not loop.may_run_ahead):
                break
            form = loop.form(ahead, sets)
            candidate = form.put(program, loop)
            if len(form.body) > LONGEST_FORM or not _fits(candidate, limits):
                break
            taken = _cycles(candidate, form.way, limits, order)
            if taken < cycles:
                best, cycles = candidate, taken
        done.update({item.name for item in best.body if isinstance(item, Label)} - loop.taken)
        program = best
    return program


@dataclass(frozen=True)
class _Form:
    """A loop written again."""

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
    label: str
    taken: frozenset[str]
    """Names that no label may have."""
    first: tuple[Instruction, ...]
    second: tuple[Instruction, ...]
    branch: Instruction
    renamed: tuple[VirtualReg, ...]
    """What the first part hands to the second one and may lie in other registers each time; ranges are whole."""
    fresh: Mapping[str, int]
    """Number from which on no register of a class is taken."""
    may_run_ahead: bool
    """Whether the first part of a round does not depend on the second part of the round before."""

    def form(self, ahead: int, sets: int) -> _Form:
        """First parts `ahead` rounds early, results in `sets` sets of registers."""
        names = [self._names(n) for n in range(sets)]
        first = [tuple(with_names(i, of, of) for i in self.first) for of in names]
        second = [tuple(with_names(i, of, of) for i in self.second) for of in names]
        fills = [self.label, *(self._label(f"fill_{n}") for n in range(1, ahead))]
        rounds = [self._label(f"round_{n}") for n in range(sets)]
        drains: dict[tuple[int, ...], str] = {}

        def drain(start: int, count: int) -> str:
            wanted = tuple((start + n) % sets for n in range(count))
            return drains.setdefault(wanted, self._label(f"drain_{len(drains)}"))

        body: list[Item] = []
        for n, label in enumerate(fills):
            body += [Label(label), *first[n % sets], self._leave(drain(0, n + 1))]
        for n, label in enumerate(rounds):
            body += [Label(label), *second[n], *first[(n + ahead) % sets]]
            more, rest = replace(self.branch, target=rounds[0]), drain(n + 1, ahead)
            body += [more, Instruction("s_branch", target=rest)] if n == sets - 1 else [self._leave(rest)]
        end = self._label("end")
        for parts, label in drains.items():
            body += [Label(label), *(i for n in parts for i in second[n]), Instruction("s_branch", target=end)]
        body[-1:] = [Label(end)]
        turns = [n % sets for n in range(ROUNDS - ahead)]
        way = (*fills, *(rounds[n] for n in turns), drain(turns[-1] + 1, ahead))
        made = frozenset(r for i in (*self.first, *self.second) for r in i.defined if isinstance(r, VirtualReg))
        return _Form(tuple(body), way, made.union(*(of.values() for of in names)))

    def _names(self, number: int) -> dict[VirtualReg, VirtualReg]:
        """The registers of a set for those of the first one."""
        found: dict[VirtualReg, VirtualReg] = {}
        for file in FILES:
            own = [r for r in self.renamed if r.file == file]
            start = self.fresh[file] + (number - 1) * len(own)
            found |= {r: VirtualReg(file, start + n) for n, r in enumerate(own)} if number else {}
        return found

    def _label(self, part: str) -> str:
        name = f"{self.label[:LONGEST_STEM]}_{part}"
        while name in self.taken:
            name += "_"
        return name

    def _leave(self, label: str) -> Instruction:
        return replace(self.branch, name=_OPPOSITE[self.branch.name], target=label)


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
        for place in blocks[label]:
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
        label = program.body[block.start] if block else None
        if not isinstance(label, Label) or label.name in done or b not in cfg.flow.successors[b]:
            continue
        done.add(label.name)
        if all(full[place] for place in block) and len(block) <= LONGEST_BODY:
            liveness = liveness or analyse(program, cfg)
            loop = _cut(program, cfg, liveness, order, b)
            if loop is not None:
                return loop
    return None


def _cut(program: Program, cfg: ControlFlowGraph, liveness: Liveness, order: MemoryOrder, b: int) -> _Loop | None:
    """The two parts of a loop; None if no load can come before the rest."""
    block = cfg.blocks[b]
    items = [item for _, item in program.at(block) if item.name != "_comment"]
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
    if not loads or len(chosen) == len(inside):
        return None
    _with_carried(graph, chosen)
    first = tuple(item for n, item in enumerate(inside) if n in chosen)
    second = tuple(item for n, item in enumerate(inside) if n not in chosen)
    head = program.body[block.start]
    assert isinstance(head, Label)
    taken = frozenset((program.name, *(item.name for item in program.body if isinstance(item, Label))))
    renamed = _renamed(program, cfg, liveness, b, first, second)
    fresh = {file: program.next_number(file) for file in FILES}
    ahead = second != () and _may_run_ahead(first, second, renamed, order)
    return _Loop(block, head.name, taken, first, second, branch, renamed, fresh, ahead) if second else None


def _with_carried(graph: Dependences, chosen: set[int]) -> None:
    """Add what the first part of a round needs of the round before, where that may come early."""
    inside = range(len(graph.items) - 1)
    while True:
        needed = _read_first([graph.items[n] for n in sorted(chosen)])
        missing = [n for n in inside if n not in chosen and not needed.isdisjoint(written_resources(graph.items[n]))]
        more = graph.closure(set(missing)) - chosen
        if not more or not all(_may_come_early(graph.items[n]) for n in more):
            return
        chosen |= more


def _read_first(items: Sequence[Instruction]) -> set[Resource]:
    """What is read before it is written."""
    read: set[Resource] = set()
    written: set[Resource] = set()
    for item in items:
        read.update(r for r in read_resources(item) if r not in written)
        written.update(written_resources(item))
    return read


def _may_run_ahead(
    first: Sequence[Instruction], second: Sequence[Instruction], renamed: Sequence[VirtualReg], order: MemoryOrder
) -> bool:
    """Whether first parts may pass second parts of earlier rounds, with several sets of the renamed registers."""
    early = {r for i in first for r in written_resources(i)} - set(renamed)
    late = {r for i in second for r in written_resources(i)}
    if not _read_first(first).isdisjoint(late) or not _read_first(second).isdisjoint(early):
        return False
    return not any(order.keeps(accesses(a), accesses(b)) for a in second for b in first)


def _is_load(item: Instruction) -> bool:
    """A load from memory into registers."""
    known = opcode(item.name)
    return known.category is Category.VMEM and bool(item.defs) and not known.stores and known.format != "SCRATCH"


def _may_come_early(item: Instruction) -> bool:
    return opcode(item.name).category in (Category.VALU, Category.SALU, Category.SMEM) or _is_load(item)


def _renamed(
    program: Program,
    cfg: ControlFlowGraph,
    liveness: Liveness,
    b: int,
    first: Sequence[Instruction],
    second: Sequence[Instruction],
) -> tuple[VirtualReg, ...]:
    """What the first part defines again in each round and the second one reads, and nothing else does."""
    outside = {r for p, i in program.instructions if p not in cfg.blocks[b] for r in (*i.defined, *i.used)}
    kept = outside | {r for i in second for r in i.defined} | liveness.live_in(b) | {r for r, _ in program.precolored}
    made = {r for i in first for r in i.defined if isinstance(r, VirtualReg)}
    read = {r for i in second for r in i.used}
    found: list[VirtualReg] = []
    for group in _tied(program):
        if group <= made and group & read and not group & kept:
            found += sorted(group)
    return tuple(found)


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
