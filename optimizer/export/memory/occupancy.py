"""L1 of a core and DRAM under a plan, with addresses: the verifier's replays, noted event by event.

Every core has the same L1 addresses (the allocator is lock-step). They are those that tt-metal's own allocator gives
(`tests/l1/test_placements.py`). DRAM addresses are first fit from the bottom of every bank, counted from the start of
the allocator's room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.l1.allocator import L1Allocator
from optimizer.opmodel.base import TensorSpec
from optimizer.verify import Subject, dram_rules, memory_rules
from optimizer.verify.memory_rules import PASSING, Beginning, Span


@dataclass(frozen=True, slots=True)
class Block:
    """A range of addresses: from the start of a core's L1, the same on every core, or of a DRAM bank."""

    address: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Made:
    """A buffer comes to life."""

    name: str
    """The value that lives in it; of one that is gone when its op returns, a name that `is_passing`."""
    block: Block


@dataclass(frozen=True, slots=True)
class Ran:
    """A program runs with this many bytes of circular buffers, from the start of what the allocator gives."""

    cb_bytes: int


@dataclass(frozen=True, slots=True)
class Gone:
    """A buffer is freed."""

    name: str


@dataclass(frozen=True)
class OpMemory:
    """L1 around one op that the device runs."""

    op: str
    residents: Mapping[str, Block]
    """Buffers that are there before it, by the values that live in them."""
    events: tuple[Made | Ran | Gone, ...]
    """What happens while it runs, in order."""
    freed: tuple[str, ...]
    """Values whose buffers are freed once it has returned: nothing reads them any more."""

    def after(self) -> dict[str, Block]:
        """Buffers that are there when it has returned, before any is freed for being read no more."""
        live = dict(self.residents)
        for event in self.events:
            if isinstance(event, Made):
                live[event.name] = event.block
            elif isinstance(event, Gone):
                live.pop(event.name, None)
        return live


@dataclass(frozen=True)
class Occupancy:
    """A whole run."""

    bank: Block
    """What tensors and circular buffers share: the former from its end, the latter from its start."""
    weights: Mapping[str, Block]
    """Weights that are there before the first op, and stay."""
    ops: tuple[OpMemory, ...]
    """In schedule order."""


def is_passing(name: str) -> bool:
    """Whether a buffer holds no value: its op makes it on the way and frees it again."""
    return name.startswith(PASSING)


def l1_occupancy(subject: Subject) -> Occupancy:
    """Replay L1 under a result that verifies."""
    recorder = _Recorder(subject.device.worker_l1_bytes - subject.result.options.l1_small_bytes)
    memory_rules.replay(subject, recorder)
    return Occupancy(
        bank=Block(subject.device.cb_base_bytes, subject.bank_bytes),
        weights=recorder.weights,
        ops=recorder.finished(),
    )


class _Recorder(memory_rules.Watch):
    """Notes everything, with addresses."""

    def __init__(self, top_bytes: int) -> None:
        self._top_bytes = top_bytes
        self.weights: dict[str, Block] = {}
        self._op = ""
        self._residents: dict[str, Block] = {}
        self._events: list[Made | Ran | Gone] = []
        self._freed: list[str] | None = []
        """None while an op runs."""
        self._noted: list[tuple[str, dict[str, Block], list[Made | Ran | Gone], list[str]]] = []

    def begins(self, step: Beginning) -> None:
        self._op = step.op.id
        self._residents = {v: self._block(span) for v, span in step.residents.items()}
        self._events, self._freed = [], None

    def made(self, name: str, span: Span) -> None:
        if self._op:
            self._events.append(Made(name, self._block(span)))
        else:
            self.weights[name] = self._block(span)

    def ran(self, cb_bytes: int) -> None:
        self._events.append(Ran(cb_bytes))

    def returned(self) -> None:
        self._freed = []
        self._noted.append((self._op, self._residents, self._events, self._freed))

    def freed(self, name: str) -> None:
        if self._freed is None:
            self._events.append(Gone(name))
        else:
            self._freed.append(name)

    def _block(self, span: Span) -> Block:
        start, end = span
        return Block(self._top_bytes - end, end - start)

    def finished(self) -> tuple[OpMemory, ...]:
        return tuple(OpMemory(op, live, tuple(events), tuple(freed)) for op, live, events, freed in self._noted)


@dataclass(frozen=True)
class DramOccupancy:
    """DRAM banks during a run; blocks are those of the fullest bank."""

    weights: Mapping[str, Block]
    """What is there before the first op, and stays, by value; what is prepared once has a name of its own."""
    ops: Mapping[str, Mapping[str, Block]]
    """Op -> what is there besides when it has returned, by value."""
    prepared: Mapping[tuple[str, int], tuple[str, TensorSpec]]
    """(convolution, operand position) -> name and form in which it reads a weight that is prepared once."""


def dram_occupancy(subject: Subject) -> DramOccupancy:
    """Replay DRAM under a result that verifies."""
    recorder = _DramRecorder(subject.device.dram_alignment_bytes)
    dram_rules.replay(subject, recorder)
    return DramOccupancy(recorder.weights, recorder.ops, recorder.prepared)


class _DramRecorder(dram_rules.Watch):
    """Places what is made, and notes what is there at every op of a run."""

    def __init__(self, unit_bytes: int) -> None:
        self._allocator = L1Allocator(0, _DRAM_SPACE, unit_bytes)  # upside down: it allocates from the top
        self._live: dict[str, Block] = {}
        """Of what is made since the run began, or before."""
        self.weights: dict[str, Block] = {}
        self.ops: dict[str, dict[str, Block]] = {}
        self.prepared: dict[tuple[str, int], tuple[str, TensorSpec]] = {}

    def prepares(self, op: Op, position: int, name: str, form: TensorSpec) -> None:
        self.prepared[op.id, position] = name, form

    def run_begins(self) -> None:
        self.weights, self._live = self._live, {}

    def made(self, name: str, bank_bytes: int) -> None:
        if name in self._live or name in self.weights:
            return
        top = self._allocator.allocate(bank_bytes)
        assert top is not None  # the space has no end
        size = self._allocator.rounded(bank_bytes)
        self._live[name] = Block(_DRAM_SPACE - top - size, size)

    def ran(self, phase: str, op: str) -> None:
        if phase == dram_rules.RUN:
            self.ops[op] = dict(self._live)

    def freed(self, name: str) -> None:
        block = self._live.pop(name, None) or self.weights.pop(name)
        self._allocator.free(_DRAM_SPACE - block.address - block.size_bytes)


_DRAM_SPACE = 1 << 60
"""Bytes of a bank in which every allocation succeeds; whether it fits is the verifier's question."""
