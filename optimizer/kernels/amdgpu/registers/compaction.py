"""Values move to other registers at a few places, so that ranges of registers find room: no memory is involved.

The program is allocated in stretches. A stretch is a part of it that control enters and leaves in the middle of blocks
only. It is a problem of its own: only what lives there needs registers, and only the ranges that its instructions name
have to be ranges. Stretches reach as far as an allocation is found for them, by bisection: part of a feasible stretch
is feasible, so that takes the fewest. What lives on both sides begins where it was and moves only if it has to.

Then the moves between stretches are written. A register has one name per place of its range, so that values that come
back, as in a loop, have one name there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from optimizer.kernels.amdgpu.exec_mask import full_exec
from optimizer.kernels.amdgpu.instruction_edits import Change, Edit, copy_of, with_names
from optimizer.kernels.amdgpu.ir import Instruction, Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.registers.allocation_units import Units
from optimizer.kernels.amdgpu.registers.class_failure import ClassFailure
from optimizer.kernels.amdgpu.registers.liveness import Liveness, live_in_aliases
from optimizer.process.work_limit import spend
from optimizer.regalloc.fewest import peak_bound
from optimizer.regalloc.intervals import LiveInterval, RegisterFile, Segment, Timeline
from optimizer.regalloc.parallel_copy import sequential
from optimizer.regalloc.search import Work, evicting_scan, exact_search

# -- stretches -------------------------------------------------------------------------------------------
ATTEMPT_WORK = 20_000
"""Comparisons of point sets per stretch that is tried, then places looked at exhaustively."""
TOTAL_WORK = 3_000_000

Span = tuple[int, int]
"""Items by number (rank): the first, and the one behind the last."""
Homes = Mapping[VirtualReg, int]


@dataclass(frozen=True)
class Stretch:
    """Some items and where what lives there is."""

    spans: tuple[Span, ...]
    homes: Homes


class Stretches:
    """The stretches of one register class within so many registers."""

    def __init__(self, liveness: Liveness, file: str, capacity: int, reserved: Collection[int]) -> None:
        self._liveness = liveness
        self._file = file
        self._capacity = capacity
        self._reserved = frozenset(reserved)
        self._work: Work = [TOTAL_WORK]
        self._full = full_exec(liveness.program, liveness.cfg)

    def found(self) -> list[Stretch] | None:
        """Stretches that hold every item once; None if there is no allocation, or none was found."""
        bounds = [0, *(self._liveness.rank[p] for p in cut_points(self._liveness, self._file, self._full))]
        bounds.append(len(self._liveness.rank))
        return self._chain(bounds, None)

    def _chain(self, bounds: Sequence[int], held: Homes | None) -> list[Stretch] | None:
        """Stretches one after another from bound to bound; what cannot be placed as a whole is taken apart."""
        found: list[Stretch] = []
        at = 0
        while at + 1 < len(bounds):
            at_end, stretch = self._longest(bounds, at, held)
            inner: list[Stretch] = []
            if stretch is None:
                at_end = at + 1
                apart = self._apart((bounds[at], bounds[at + 1]), held)
                if apart is None:
                    return None
                stretch, inner = apart
            found += [stretch, *inner]
            held, at = stretch.homes, at_end
        return found

    def _longest(self, bounds: Sequence[int], at: int, held: Homes | None) -> tuple[int, Stretch | None]:
        best: Stretch | None = None
        low, high = at, len(bounds)
        guess = len(bounds) - 1
        while low + 1 < high and self._work[0] > 0:
            stretch = self._attempt(((bounds[at], bounds[guess]),), held)
            if stretch is None:
                high = guess
            else:
                best, low = stretch, guess
            guess = (low + high) // 2
        return low, best

    def _apart(self, span: Span, held: Homes | None) -> tuple[Stretch, list[Stretch]] | None:
        """A part that control joins in, and the insides of its blocks as stretches of their own, the fullest first."""
        insides = self._insides(span)
        taken: list[Span] = []
        outer: Stretch | None = None
        for inside in insides:
            taken.append(inside)
            outer = self._attempt(_without(span, taken), held)
            if outer is not None:
                break
        if outer is None:
            return None
        found: list[Stretch] = []
        for first, last in sorted(taken):
            bounds = [r for r in range(first, last) if r == first or self._full[self._liveness.item_at[r]]]
            chain = self._chain([*bounds, last], outer.homes)
            if chain is None:
                return None
            found += chain
        return outer, found

    def _insides(self, span: Span) -> list[Span]:
        """What lies between the first and the last item of a block, and may be cut there; the fullest first."""
        found = []
        rank, item_at = self._liveness.rank, self._liveness.item_at
        for block in self._liveness.cfg.blocks:
            if not block:
                continue
            first, last = max(rank[block.start] + 1, span[0]), min(rank[block.stop - 1], span[1])
            while first < last and not self._full[item_at[first]]:
                first += 1
            while first < last and not self._full[item_at[last]]:
                last -= 1
            if first < last and (first, last) != span:
                found.append((first, last))
        return sorted(found, key=lambda s: (-self._fullest(s), s))

    def _fullest(self, span: Span) -> int:
        spend(len(self._liveness.segments) // 2 + span[1] - span[0])
        values = Units(self._liveness, self._file, _points((span,))).intervals()
        return peak_bound(values, self._capacity, self._reserved)

    # -- one stretch --------------------------------------------------------------------------------------------------
    def _attempt(self, spans: tuple[Span, ...], held: Homes | None) -> Stretch | None:
        spend(len(self._liveness.segments) // 2 + sum(last - first for first, last in spans))
        units = Units(self._liveness, self._file, _points(spans))
        units.coalesce(moves=False)
        values = units.intervals()
        if not values:
            return Stretch(spans, {})
        if peak_bound(values, self._capacity, self._reserved) > self._capacity:
            return None
        wanted = _wanted(units, values, held or {})
        assigned = self._place(values, wanted)
        if assigned is None:
            return None
        assigned = settled(values, assigned, wanted, self._capacity, self._reserved)
        return Stretch(spans, units.mapping(assigned))

    def _place(self, values: Sequence[LiveInterval], wanted: Mapping[int, int]) -> dict[int, int] | None:
        granted = max(min(ATTEMPT_WORK, self._work[0]), 0)
        work = [granted]
        found = evicting_scan(values, self._capacity, self._reserved, work, wanted)
        self._work[0] -= granted - work[0]
        if found is not None:
            return found
        work = [granted]
        answer = exact_search(values, self._capacity, self._reserved, work)
        self._work[0] -= granted - work[0]
        return answer if isinstance(answer, dict) else None


def _points(spans: Iterable[Span]) -> tuple[Segment, ...]:
    return tuple((2 * a, 2 * b) for a, b in spans)


def _without(span: Span, taken: Iterable[Span]) -> tuple[Span, ...]:
    found = []
    at = span[0]
    for first, last in sorted(taken):
        if at < first:
            found.append((at, first))
        at = last
    if at < span[1]:
        found.append((at, span[1]))
    return tuple(found)


def _wanted(units: Units, values: Iterable[LiveInterval], held: Homes) -> dict[int, int]:
    """Unit -> where most of its registers are already."""
    found = {}
    for value in values:
        (members,) = units.members((value.id,)) or ((),)
        firsts = Counter(held[r] - place for r, place in units.places(members).items() if r in held)
        if firsts:
            found[value.id] = min(firsts, key=lambda f: (-firsts[f], f))
    return found


def settled(
    values: Sequence[LiveInterval],
    assigned: Mapping[int, int],
    wanted: Mapping[int, int],
    capacity: int,
    reserved: Collection[int],
) -> dict[int, int]:
    """The same allocation with everything in the register wanted that finds it free in the end."""
    file = RegisterFile(Timeline(values), capacity, reserved)
    for v in values:
        file.place(v, assigned[v.id])
    found = dict(assigned)
    changed = True
    while changed:
        changed = False
        for v in values:
            if v.fixed is not None or wanted.get(v.id, found[v.id]) == found[v.id]:
                continue
            file.remove(v, found[v.id])
            if file.is_free(v, wanted[v.id]):
                found[v.id], changed = wanted[v.id], True
            file.place(v, found[v.id])
    return found


def cut_points(liveness: Liveness, file: str, full: Sequence[bool]) -> list[int]:
    """Places in the body before which every register of a class may move at once; in the order of points.

    In the middle of a block, with all lanes active, and no register of the class lives on any other edge between what
    is numbered before the place and what is numbered after it: not in a loop, nor beside a branch.
    """
    program, cfg = liveness.program, liveness.cfg
    order = {b: n for n, b in enumerate(cfg.order)}
    wanted = {b: any(r.file == file for r in liveness.live_in(b)) for b in cfg.order}
    edges = [(order[x], order[y]) for x in cfg.order for y in cfg.flow.successors[x] if wanted[y]]
    found = []
    for b in cfg.order:
        n = order[b]
        if any((x >= n) != (y > n) for x, y in edges):
            continue
        items = list(cfg.blocks[b])[1:]
        found += [p for p in items if full[p] and isinstance(program.body[p], Instruction)]
    return found


# -- moves -----------------------------------------------------------------------------------------------
def compact(failed: ClassFailure) -> Change | None:
    """The program with moves such that the class fits; None if no such moves are found."""
    capacity = failed.failure.capacity
    stretches = Stretches(failed.liveness, failed.file, capacity, failed.reserved).found()
    if stretches is None:
        return None
    return _Writer(failed.liveness, failed.file, stretches).written(capacity, failed.reserved)


class _Writer:
    def __init__(self, liveness: Liveness, file: str, stretches: list[Stretch]) -> None:
        self._liveness = liveness
        self._file = file
        self._edit = Edit(liveness.program)
        self._homes: list[Homes] = [{}] * len(liveness.rank)
        """Per item of the body."""
        for stretch in stretches:
            for first, last in stretch.spans:
                for number in range(first, last):
                    self._homes[liveness.item_at[number]] = stretch.homes
        self._first: dict[VirtualReg, VirtualReg] = {}
        """The first register of what ranges tie together."""
        self._length: dict[VirtualReg, int] = {}
        for members in Units(liveness, file).members():
            self._first |= dict.fromkeys(members, members[0])
            self._length[members[0]] = members[-1].number - members[0].number + 1
        self._names: dict[tuple[VirtualReg, int], VirtualReg] = {}
        """(first register, distance of homes from numbers) -> name of the first register there."""
        self._fixed = live_in_aliases(liveness.program)
        for register, number in liveness.program.precolored:
            if register in self._first:
                self._names[self._first[register], number - register.number] = self._first[register]
        self._original = {first for first, _ in self._names}
        self._mapping: dict[VirtualReg, int] = {}
        self._moves = 0

    def written(self, capacity: int, reserved: frozenset[int]) -> Change | None:
        for block in self._liveness.cfg.blocks:
            for place in block:
                if place > block.start and self._homes[place] is not self._homes[place - 1]:
                    moves = self._between(place, capacity, reserved)
                    if moves is None:
                        return None
                    self._edit.before[place] = [*moves]
                self._rename(place)
        program = self._edit.done()
        return Change(_redefinable(program, self._file), placed={self._file: self._mapping}, moves=self._moves)

    def _name(self, register: VirtualReg, home: int) -> VirtualReg:
        """What a register is called where it is in that place."""
        first = self._first[register]
        key = first, home - register.number
        if key not in self._names:
            if first not in self._original:
                self._original.add(first)
                self._names[key] = first
            else:
                self._names[key] = self._edit.fresh(self._file, self._length[first])[0]
        name = VirtualReg(self._file, self._names[key].number + register.number - first.number)
        self._mapping[name] = home
        return name

    def _rename(self, place: int) -> None:
        item, homes = self._liveness.program.body[place], self._homes[place]
        if isinstance(item, Instruction):
            touched = {r for r in (*item.used, *item.defined) if isinstance(r, VirtualReg) and r in homes}
            names = {r: self._name(r, homes[r]) for r in sorted(touched)}
            self._edit.instead[place] = with_names(item, names, names)

    def _between(self, place: int, capacity: int, reserved: frozenset[int]) -> list[Instruction] | None:
        """Moves before an item, from where everything was to where it is from there on; None without a spare one."""
        spend(len(self._liveness.segments) // 4)
        old, new = self._homes[place - 1], self._homes[place]
        point = 2 * self._liveness.rank[place]
        names: dict[int, VirtualReg] = {}
        targets: dict[int, VirtualReg] = {}
        busy = set(reserved)
        sources = {}
        for register, segments in self._liveness.segments.items():
            if register.file != self._file or not any(start < point < end for start, end in segments):
                continue
            if not isinstance(register, VirtualReg) or register in self._fixed:
                busy.add(register.number if not isinstance(register, VirtualReg) else old[register])
                continue
            sources[new[register]] = old[register]
            if old[register] != new[register]:
                names[old[register]] = self._name(register, old[register])
                targets[new[register]] = self._name(register, new[register])
        busy |= {*sources, *sources.values()}
        copies = sequential(sources, [r for r in range(capacity) if r not in busy])
        if copies is None:
            return None
        moves = []
        for target, source in copies:
            if target not in targets:
                (spare,) = self._edit.fresh(self._file)
                self._mapping[spare] = target
            name = targets.get(target) or spare
            moves.append(copy_of(names[source], name))
            names[target] = name
        self._moves += len(moves)
        return moves


def _redefinable(program: Program, file: str) -> Program:
    """Values that leave a register and come back define it again."""
    several = {r for r, n in program.definitions.items() if isinstance(r, VirtualReg) and r.file == file and n > 1}
    return replace(program, redefinable=program.redefinable | several)
