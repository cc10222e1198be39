"""`Run`: the L1 of a core while a program runs, step by step, from empty or on from a copy.

tt-metal places buffers first fit from the top (`allocator`); a sum of bytes that fits is not enough, since circular
buffers must stay below the lowest one. `rules` says what every step needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass

from optimizer.device import DeviceSpec
from optimizer.l1.allocator import L1Allocator
from optimizer.l1.events import OPERAND, Freed, Made, Ran
from optimizer.l1.program import Buffer, Program, Row, Step
from optimizer.l1.rules import LIMIT_RULE, ROOM_RULES, Moment, RoomRule

_ENDLESS = 1 << 40
"""Top of an address space in which every allocation succeeds; whether it fits L1 is asked afterwards."""

LastRead = Callable[[str], int]
"""Value -> last position that reads it, or a copy of it, in L1; its producer's or an earlier one if none does."""


@dataclass(frozen=True)
class Bank:
    """L1 of a core as a plan may use it."""

    size_bytes: int
    """Between where circular buffers start and where tensors do."""
    limit_bytes: int
    """What the plan may take of it."""
    alignment_bytes: int

    @staticmethod
    def of(device: DeviceSpec, l1_small_bytes: int, limit_bytes: int) -> Bank:
        return Bank(device.l1_bank_bytes(l1_small_bytes), limit_bytes, device.l1_buffer_alignment_bytes)


@dataclass(frozen=True)
class Overflow:
    """A step for which L1 does not suffice."""

    op_id: str
    rule: RoomRule
    """The one that asks for most."""
    excess_bytes: int
    """What is missing."""
    needs_bytes: int
    """The step's peak and what is in L1 for it, added up."""
    held_bytes: int
    """Of the residents."""
    limit_bytes: int
    """What the plan may use."""
    residents: tuple[str, ...]
    """Values in L1 as produced, other than the op's own operands and results."""

    @property
    def adds_up(self) -> bool:
        """Whether the bytes alone would fit."""
        return self.needs_bytes + self.held_bytes <= self.limit_bytes


class Run:
    """Which buffers are alive, at which addresses, and until when."""

    def __init__(self, bank: Bank, kept_bytes: Iterable[int] = (), rules: Sequence[RoomRule] = ROOM_RULES) -> None:
        """`kept_bytes` are buffers that are there before the program and stay."""
        self.bank = bank
        self._rules = rules
        self._allocator = L1Allocator(0, _ENDLESS, bank.alignment_bytes)
        self.kept_bytes = 0
        for size in kept_bytes:
            self._allocator.allocate(size)
            self.kept_bytes += size
        self.live: dict[Buffer, tuple[int, int]] = {}
        """Address and bytes per core."""
        self._ends: dict[Buffer, int] = {}
        """Live buffer -> last position that reads it."""
        self.homes: dict[Buffer, Buffer] = {}
        """Result that shares a live buffer -> that buffer."""
        self.spare_bytes = bank.limit_bytes - self.kept_bytes
        """Least that any step so far has left free; negative where one did not fit."""

    def copy(self) -> Run:
        """A run in the same state."""
        other = copy(self)
        other._allocator = self._allocator.copy()
        other.live, other._ends, other.homes = dict(self.live), dict(self._ends), dict(self.homes)
        return other

    def position(self, at: int, row: Row, last_read: LastRead) -> Overflow | None:
        """Run the steps of one position of the schedule; the first that does not fit."""
        found: Overflow | None = None
        last_step = _last_steps(row, self.homes)
        for i, step in enumerate(row):
            if step.shares is not None and step.writes:
                self._share(step.writes[0][0], step.shares, at, last_read)
                last_step = _last_steps(row, self.homes)
            moment = self._execute(step, at)
            excess = self._excess(moment)
            self.spare_bytes = min(self.spare_bytes, -excess)
            if excess > 0 and found is None:
                found = self._overflow(moment, excess)
            for b, _ in step.writes:
                if b not in self.homes:
                    self._ends[b] = _end_of(b, at, last_read)
            self._free([b for b in self.live if self._ends[b] <= at and last_step.get(b, -1) <= i])
        if any(home not in self.live for home in self.homes.values()):
            self.homes = {b: home for b, home in self.homes.items() if home in self.live}
        return found

    def _share(self, result: Buffer, source: Buffer, at: int, last_read: LastRead) -> None:
        """Let a result lie in the buffer of `source`, which then stays for both."""
        home = self.homes.get(source, source)
        self.homes[result] = home
        self._ends[home] = max(self._ends[home], _end_of(result, at, last_read))

    def _execute(self, step: Step, at: int) -> Moment:
        """Play a step's events; what it made that is no result is gone at the end."""
        resident = self.kept_bytes + sum(size for _, size in self.live.values())
        before = deepest = self._depth
        results = dict(step.made)
        passing: dict[int, int] = {}
        for event in step.events:
            match event:
                case Made(number, size):
                    result = results.get(number)
                    if result is None:
                        passing[number] = self._place(size)
                    else:
                        self.live[result] = (self._place(size), size)
                    deepest = max(deepest, self._depth)
                case Freed(number) if number in passing:
                    self._allocator.free(passing.pop(number))
                case Freed(number) if number == OPERAND:
                    self._free_operand(step, at)
                case Ran(cb_bytes):
                    deepest = max(deepest, self._depth + cb_bytes)
        for address in passing.values():
            self._allocator.free(address)
        return Moment(step, resident, before, deepest)

    def _place(self, size: int) -> int:
        address = self._allocator.allocate(size)
        assert address is not None
        return address

    def _free_operand(self, step: Step, at: int) -> None:
        """The op frees operand 0, unless the plan still needs what lies there."""
        if step.operand is not None:
            home = self.homes.get(step.operand, step.operand)
            if home in self.live and self._ends[home] <= at:
                self._free((home,))

    def _excess(self, moment: Moment) -> int:
        """Bytes by which L1 is too small for a step; negative where some are spare."""
        over_limit = LIMIT_RULE.needs(moment) - self.bank.limit_bytes
        return max(over_limit, max(rule.needs(moment) for rule in self._rules) - self.bank.size_bytes)

    def _free(self, buffers: Iterable[Buffer]) -> None:
        for b in buffers:
            self._allocator.free(self.live.pop(b)[0])
            del self._ends[b]

    def _overflow(self, moment: Moment, excess_bytes: int) -> Overflow:
        """The step just executed, which does not fit, with what else is alive."""
        step = moment.step
        own = {self.homes.get(b, b) for b in (*step.reads, *(b for b, _ in step.writes))}
        others = {b[0]: size for b, (_, size) in self.live.items() if b not in own and not b[1]}
        held = self.kept_bytes + sum(others.values())
        needs = LIMIT_RULE.needs(moment)
        over_limit = needs - self.bank.limit_bytes
        rule = LIMIT_RULE if over_limit == excess_bytes else max(self._rules, key=lambda r: r.needs(moment))
        residents = tuple(sorted(others))
        return Overflow(step.op_id, rule, excess_bytes, needs - held, held, self.bank.limit_bytes, residents)

    @property
    def _depth(self) -> int:
        """Distance of the lowest buffer from the top."""
        lowest = self._allocator.lowest_address
        return 0 if lowest is None else _ENDLESS - lowest


def _end_of(buffer: Buffer, at: int, last_read: LastRead) -> int:
    """Last position that reads a buffer made at position `at`; copies serve the op that they are made for."""
    value_id, form = buffer
    return at if form else max(at, last_read(value_id))


def _last_steps(row: Row, homes: dict[Buffer, Buffer]) -> dict[Buffer, int]:
    """Buffer -> the last of an op's steps that reads it."""
    return {homes.get(b, b): i for i, step in enumerate(row) for b in step.reads}


@dataclass(frozen=True)
class Outcome:
    """What became of a whole program."""

    time_ns: int
    overflows: tuple[Overflow, ...]
    """Every position that does not fit."""
    spare_bytes: int
    """L1 per core that no step takes: what could be kept at the top of every bank besides. Negative: see overflows."""


def replay(program: Program, bank: Bank) -> Outcome:
    """Run a program from an empty L1."""
    run = Run(bank, (size for _, size in program.kept))
    overflows = []
    for at, row in enumerate(program.rows):
        overflow = run.position(at, row, lambda v: program.last_reads.get(v, 0))
        if overflow is not None:
            overflows.append(overflow)
    return Outcome(program.time_ns, tuple(overflows), run.spare_bytes)
