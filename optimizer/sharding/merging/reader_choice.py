"""What ops make of operands that move: the cheapest way to run each with the same result as before.

When a value gets a new home, each of its readers may take it as it is, through a copy (into the layout it reads now,
the sharding of its own result, or L1 interleaved), or from DRAM if the value is written there all the same. Every way
is put to the OpModel; the one with the least predicted time for the op and its copies wins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.legal_op_configs import OpCandidate
from optimizer.layouts.memory_config import BufferType, TensorLayout, TensorMemoryLayout, interleaved
from optimizer.opmodel.base import OpConstraints, Rejection
from optimizer.sharding.base import OpDecision
from optimizer.sharding.merging.plan_state import FastestWay, PlanState
from optimizer.sharding.overriding import laid_out_alike
from optimizer.sharding.refusals import Cause, Refusal

MIXED_WAYS = 64
"""Up to this many combinations of ways to read an op's operands, all are tried; beyond, only uniform ones."""


class ReaderChoice:
    """Chooses for one plan; `wanted` holds decisions whose result is given and whose operands are a start."""

    def __init__(
        self, state: PlanState, wanted: Mapping[str, OpDecision], dram_allowed: bool, as_wanted: bool = False
    ) -> None:
        """`as_wanted` keeps the operands of wanted ops but for values that move; else what is in L1 is open too."""
        self._state = state
        self._pricer = state.pricer
        self._wanted = wanted
        self._dram_allowed = dram_allowed
        self._as_wanted = as_wanted
        self._changes: dict[str, OpDecision] = {}
        self._noted = ""
        self._first = Refusal("", "", Cause.LAYOUT)

    def changes(self) -> dict[str, OpDecision] | Refusal:
        """Decisions of the wanted ops and of everything that reads what they give, or the first op that refuses."""
        for op_id in self._affected():
            refusal = self._choose(op_id)
            if refusal is not None:
                return refusal
        return self._changes

    def _affected(self) -> list[str]:
        found = set(self._wanted)
        for op_id in self._wanted:
            found |= {r for v in self._state.op(op_id).outputs for r in self._state.readers(v)}
        return sorted(found, key=lambda op_id: self._state.position[op_id])

    def _choose(self, op_id: str) -> Refusal | None:
        op = self._state.op(op_id)
        start = self._wanted.get(op_id, self._state.decisions[op_id])
        self._changes[op_id] = start
        if opdef(op.op).opaque:
            return None if self._dram_allowed else Refusal(op_id, "runs on the host and reads from DRAM", Cause.LAYOUT)
        moved = [v for v in dict.fromkeys(op.inputs) if self._is_open(op_id, v)]
        self._first = Refusal(op_id, "the operand can be neither read in place nor copied", Cause.LAYOUT)
        best: tuple[int, OpDecision] | None = None
        for layouts in _together([tuple(self._ways(op, start, v)) for v in moved]):
            found = self._cheapest(op, start, dict(zip(moved, layouts, strict=True)))
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        if best is None:
            shown = ", ".join(f"'{v}' as {self._layout(v).describe()}" for v in moved) or "its operands"
            return replace(self._first, message=f"does not run with {shown}: {self._first.message}")
        self._changes[op_id] = best[1]
        return None

    def _is_open(self, op_id: str, value_id: str) -> bool:
        """Whether the way an operand is read is to be chosen: the value moves, or the op changes and it is in L1."""
        producer = self._state.producer(value_id)
        if producer is None:
            return False
        if producer in self._wanted:
            return True
        now = self._state.decisions[op_id]
        return not self._as_wanted and self._wanted.get(op_id, now) != now and self._layout(value_id).is_l1

    def _layout(self, value_id: str) -> TensorLayout:
        return self._state.layout(value_id, self._changes)

    def _ways(self, op: Op, start: OpDecision, value_id: str) -> Iterator[TensorLayout]:
        """Layouts in which the op may read the value, no copy first."""
        given, k = self._layout(value_id), op.inputs.index(value_id)
        now, default = start.operands[k], self._pricer.default_layout(self._state.graph.value(value_id))
        ways = [given] if given.is_l1 else [default]
        if now.is_l1:
            ways.append(now)
        if given.is_l1:
            if start.candidate.output.is_sharded:
                ways.append(self._pricer.sharded_like(value_id, start.candidate.output))
            ways.append(interleaved(BufferType.L1, given.page_layout))
            if self._dram_allowed:
                ways.append(default)
        forced = k in self._state.problem.forced_reshards.get(op.id, ())
        for way in dict.fromkeys(ways):
            direct = way == given or way.is_dram
            if forced and (direct or not laid_out_alike(way, start.candidate.output)):
                continue
            if direct or self._pricer.copy_accepted(value_id, given, way):
                yield way

    def _cheapest(
        self, op: Op, start: OpDecision, layouts: Mapping[str, TensorLayout]
    ) -> tuple[int, OpDecision] | None:
        """Among candidates with the same result, the fastest that takes these operands; with its copies' time."""
        operands = tuple(layouts.get(v, now) for v, now in zip(op.inputs, start.operands, strict=True))
        copies = sum(
            self._pricer.copy_ns(v, self._layout(v), wanted)
            for v, wanted in zip(op.inputs, operands, strict=True)
            if v in layouts and wanted.is_l1
        )
        fastest = self._fastest(op, start.candidate, operands)
        if fastest.refusal is not None and self._noted != op.id:
            self._noted, self._first = op.id, fastest.refusal
        if fastest.candidate is None:
            return None
        return copies + fastest.time_ns, replace(start, candidate=fastest.candidate, operands=operands)

    def _fastest(self, op: Op, present: OpCandidate, operands: tuple[TensorLayout, ...]) -> FastestWay:
        """The fastest candidate with the result of the present one that takes these operands; asked once per plan."""
        key = (op.id, present, operands)
        known = self._state.fastest_ways
        if key not in known:
            known[key] = self._ask(op, present, operands)
        return known[key]

    def _ask(self, op: Op, present: OpCandidate, operands: tuple[TensorLayout, ...]) -> FastestWay:
        """The refusal kept is the first: what the present candidate says of these operands, if it refuses them."""
        best: tuple[int, OpCandidate] | None = None
        refusal: Refusal | None = None
        for candidate in self._candidates(op, present):
            answer = self._pricer.constraints(op, operands, candidate.config, candidate.request)
            if not answer.valid or answer.outputs[0].layout != candidate.output:
                refusal = refusal or _refusal(op.id, answer)
                continue
            time_ns = self._pricer.cost(op, operands, candidate.config, candidate.request).time_ns
            if best is None or time_ns < best[0]:
                best = time_ns, candidate
        return FastestWay(0, None, refusal) if best is None else FastestWay(*best, refusal)

    def _candidates(self, op: Op, present: OpCandidate) -> Iterator[OpCandidate]:
        """The present candidate first, then the others with the same result."""
        yield present
        legal = self._state.problem.legal[op.id]
        for candidate in (*legal.dram, *legal.l1_interleaved, *legal.sharded):
            if candidate.output == present.output and candidate != present:
                yield candidate


def _refusal(op_id: str, answer: OpConstraints) -> Refusal:
    message = answer.error or f"it gives {answer.outputs[0].layout.describe()}"
    cause = Cause.L1 if answer.kind is Rejection.OOM_L1 else Cause.LAYOUT
    return Refusal(op_id, message, cause)


def _together(ways: Sequence[Sequence[TensorLayout]]) -> Iterator[tuple[TensorLayout, ...]]:
    """Ways to read several operands at once: all combinations if they are few, else one kind of memory for all."""
    if not all(ways):
        return
    if math.prod(map(len, ways)) <= MIXED_WAYS:
        yield from product(*ways)
        return
    kinds = dict.fromkeys((way.memory_layout, way.is_l1) for row in ways for way in row)
    uniform = (tuple(_of_kind(row, *kind) for row in ways) for kind in kinds)
    yield from dict.fromkeys((tuple(row[0] for row in ways), *uniform))


def _of_kind(row: Sequence[TensorLayout], memory_layout: TensorMemoryLayout, is_l1: bool) -> TensorLayout:
    """The first way of a kind, or else the first of all."""
    return next((way for way in row if way.memory_layout is memory_layout and way.is_l1 is is_l1), row[0])
