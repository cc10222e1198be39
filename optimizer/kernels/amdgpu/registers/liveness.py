"""When each single register is live: backward dataflow over the control flow graph, as intervals with holes.

Items are numbered in an order in which dominators come first (reverse postorder of the blocks). Item `n` reads at point
`2n` and writes at point `2n + 1`: a value defined at item `i` and last read at item `j` is live in [2i+1, 2j+1). So a
value whose last use is at an item does not conflict with one that the item defines (half-open); a definition that is
never read still takes its register for one point. A register with several definitions is one value over its whole web.

Memory and matrix instructions write their registers late. That a register which was never read, or no longer, is
overwritten by such a late result is prevented by waiting before any definition of it, too (passes), not by liveness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.exec_mask import partial_updates
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.opcodes import Opcode, opcode
from optimizer.kernels.amdgpu.operands import PhysicalReg, Register, VirtualReg, registers
from optimizer.process.work_limit import spend
from optimizer.regalloc.flow import backward_dataflow
from optimizer.regalloc.intervals import LiveInterval, Segment, pressure, union


@dataclass(frozen=True)
class Liveness:
    """Live segments of every register that occurs, virtual and physical."""

    program: Program
    cfg: ControlFlowGraph
    rank: tuple[int, ...]
    """Number of each item of the body, in the order of points."""
    segments: Mapping[Register, tuple[Segment, ...]]
    early: Mapping[Register, tuple[Segment, ...]]
    """Points before definitions where early clobbers need their registers, too."""
    words: tuple[int, ...]
    """Bit sets per block, live in; bit `n` is register `n` of `names`."""
    names: tuple[Register, ...]

    def live_in(self, block: int) -> frozenset[Register]:
        """Registers whose value a block needs."""
        return frozenset(self.names[n] for n in _bits(self.words[block]))

    @cached_property
    def item_at(self) -> tuple[int, ...]:
        """Place in the body of each number."""
        found = [0] * len(self.rank)
        for place, number in enumerate(self.rank):
            found[number] = place
        return tuple(found)

    def live_range(self, register: Register) -> tuple[int, int]:
        """First and last place in the body where a register is live: (definition, last use or end of a loop)."""
        places = [self.item_at[point // 2] for start, end in self.segments[register] for point in range(start, end)]
        return min(places), max(places)

    def live_at(self, place: int, file: str) -> tuple[VirtualReg, ...]:
        """Virtual registers of a class that hold something behind an item, its results included; ascending."""
        point = 2 * self.rank[place] + 1
        found = (r for r, parts in self.segments.items() if any(start <= point < end for start, end in parts))
        return tuple(sorted(r for r in found if isinstance(r, VirtualReg) and r.file == file))

    def pressure(self, file: str) -> int:
        """Most virtual registers of a class live at once, those that an item reads for the last time not with what it
        defines."""
        parts = (s for r, s in self.segments.items() if r.file == file and isinstance(r, VirtualReg) and s)
        return pressure(LiveInterval(n, p) for n, p in enumerate(parts))


def analyse(program: Program, cfg: ControlFlowGraph | None = None) -> Liveness:
    """Liveness of a program. Precoloured registers without a definition are their physical ones."""
    cfg = cfg or build_cfg(program)
    spend(2 * len(program.body))
    rank = _ranks(program, cfg)
    canonical = live_in_aliases(program)
    updates = partial_updates(program, cfg)
    numbers: dict[Register, int] = {}
    accesses: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None] = []
    for place, item in enumerate(program.body):
        if not isinstance(item, Instruction):
            accesses.append(None)
            continue
        read = [canonical.get(r, r) for r in item.used]
        written = [canonical.get(r, r) for r in item.defined]
        kept = updates.get(place, frozenset())
        for r in (*read, *written):
            numbers.setdefault(r, len(numbers))
        accesses.append((
            tuple(numbers[r] for r in dict.fromkeys((*read, *(r for r in written if r in kept)))),
            tuple(numbers[r] for r in dict.fromkeys(written)),
            tuple(numbers[r] for r in dict.fromkeys(written) if _clobbers_early(opcode(item.name), item, r, canonical)),
        ))  # fmt: skip
    live_in, live_out = _dataflow(cfg, accesses)
    spans, early = _segments(cfg, rank, accesses, live_in, live_out)
    names = tuple(numbers)
    segments = {register: union(spans.get(n, ())) for register, n in numbers.items()}
    for alias, register in canonical.items():
        if register in segments:
            segments[alias] = segments[register]
    early_points = {names[n]: union(s) for n, s in early.items()}
    return Liveness(program, cfg, rank, segments, early_points, tuple(live_in), names)


def live_in_aliases(program: Program) -> dict[Register, Register]:
    """Precoloured registers that nothing defines, as the physical registers that hold them at entry."""
    if not program.precolored:
        return {}
    defined = {r for _, i in program.instructions for r in i.defined}
    return {r: PhysicalReg(r.file, n) for r, n in program.precolored if r not in defined}


def _ranks(program: Program, cfg: ControlFlowGraph) -> tuple[int, ...]:
    rank = [0] * len(program.body)
    number = 0
    for b in cfg.order:
        for place in cfg.blocks[b]:
            rank[place] = number
            number += 1
    return tuple(rank)


def _clobbers_early(
    known: Opcode, item: Instruction, register: Register, canonical: Mapping[Register, Register]
) -> bool:
    """Whether a definition must not take the register of any use: unless it is part of an operand read as it is."""
    if not known.early_clobber:
        return False
    same = [d for d in item.defs if d in item.uses]
    return register not in {canonical.get(r, r) for d in same for r in registers(d)}


Accesses = list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None]


def _dataflow(cfg: ControlFlowGraph, accesses: Accesses) -> tuple[list[int], list[int]]:
    use, kill = [], []
    for block in cfg.blocks:
        read = written = 0
        for place in reversed(block):
            access = accesses[place]
            if access is not None:
                for n in access[1]:
                    written |= 1 << n
                    read &= ~(1 << n)
                for n in access[0]:
                    read |= 1 << n
        use.append(read)
        kill.append(written)
    return backward_dataflow(cfg.flow, use, kill)


def _segments(
    cfg: ControlFlowGraph, rank: tuple[int, ...], accesses: Accesses, live_in: list[int], live_out: list[int]
) -> tuple[dict[int, list[Segment]], dict[int, list[Segment]]]:
    """Per register: where it is live; where an early clobber reaches further."""
    found: dict[int, list[Segment]] = {}
    early: dict[int, list[Segment]] = {}
    for b, block in enumerate(cfg.blocks):
        if not block:
            continue
        end = 2 * rank[block.stop - 1] + 2
        until = dict.fromkeys(_bits(live_out[b]), end)
        for place in reversed(block):
            access = accesses[place]
            if access is None:
                continue
            point = 2 * rank[place]
            for n in access[1]:
                found.setdefault(n, []).append((point + 1, until.pop(n, point + 2)))
            for n in access[2]:
                early.setdefault(n, []).append((point, point + 1))
            for n in access[0]:
                until.setdefault(n, point + 1)
        start = 2 * rank[block.start]
        for n, stop in until.items():
            found.setdefault(n, []).append((start, stop))
    return found, early


def _bits(word: int) -> Iterable[int]:
    while word:
        low = word & -word
        yield low.bit_length() - 1
        word ^= low
