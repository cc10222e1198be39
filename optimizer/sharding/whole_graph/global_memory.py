"""What the choices of a `GlobalProblem` take of L1, per core and step.

Steps 2t and 2t+1 are the copies for op t of the schedule, and op t itself. A home is charged up to the copies for its
last reader, since a value that is read from a copy is freed before the op runs; read in place, it is charged to the op.
A view lives in its source's buffer and is charged from where nobody reads the source any more.

Nothing is charged that a plan might not take, so that no plan that fits is forbidden and bounds hold for all. What some
plans take besides (a value that leaves L1 before its last reader, while it is read in place), the replay finds.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.l1.rules import may_be_view
from optimizer.layouts.memory_config import L1_TILE, TensorLayout
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.whole_graph.global_options import Home, Way
from optimizer.solver.graphs.usages import Usage

Uses = tuple[Usage, ...]


class MemoryUse:
    """Usages of ops and homes of one schedule. Ops that are alike share what is worked out."""

    def __init__(self, pricer: OpPricer, schedule: Sequence[str], readers: Mapping[str, Sequence[str]]) -> None:
        self._pricer = pricer
        self._schedule = schedule
        self._readers = readers
        """Value -> ops that read it, in schedule order."""
        self._step = {op_id: t for t, op_id in enumerate(schedule)}
        self._sizes_known: dict[Hashable, tuple[list[tuple[int, ...]], list[int]]] = {}

    def throughout(self, size: int) -> Uses:
        """Of something that is in L1 between runs too."""
        return (Usage(0, 2 * len(self._schedule) - 1, size),)

    def of_ways(self, t: int, ways: tuple[Way, ...], moving: Sequence[str], weights: Sequence[str]) -> tuple[Uses, ...]:
        """Per way of an op: its copies, then these and what the op takes and reads in place; at every step its weights.

        `moving` are values that have homes, `weights` those charged to this op.
        """
        op = self._pricer.graph.op(self._schedule[t])
        own = tuple(op.inputs.index(v) for v in weights)
        last = [op.inputs.index(v) for v in moving if self._readers[v][-1] == op.id]
        alone = tuple((k, t > self._alone_from(op.inputs[k])) for k in last)
        homed = frozenset(moving)
        freed = tuple(k for k, v in enumerate(op.inputs) if v in homed)
        key = (id(ways), own, alone, freed, tuple(self._view_kind(op.inputs[k]) for k in last))
        if key not in self._sizes_known:
            sizes = [self._way_bytes(op, way, own, alone, freed) for way in ways]
            distinct = {size: i for i, size in enumerate(dict.fromkeys(sizes))}
            self._sizes_known[key] = (list(distinct), [distinct[size] for size in sizes])
        distinct_sizes, index = self._sizes_known[key]
        uses = []
        for copies, running, kept in distinct_sizes:
            found = (Usage(2 * t, 2 * t, copies), Usage(2 * t + 1, 2 * t + 1, running), *self.throughout(kept))
            uses.append(tuple(use for use in found if use.size))
        return tuple(uses[i] for i in index)

    def _way_bytes(
        self, op: Op, way: Way, weights: Sequence[int], alone: Sequence[tuple[int, bool]], freed: Sequence[int]
    ) -> tuple[int, int, int]:
        """Copies beside their sources; copies, what is read in place for the last time, and the op; the own weights.

        Copies are made one after the other, and a source in L1 (at the positions `freed`) may go before the next one.
        """
        operands = way.option.operands
        sizes = [self._pricer.value_bytes(op.inputs[k], operands[k]) for k in way.copied]
        first = next((n for n, k in enumerate(way.copied) if k in freed), len(sizes))
        beside, copies = sum(sizes[: first + 1]), sum(sizes)
        kept = sum(self._pricer.value_bytes(op.inputs[k], operands[k]) for k in weights) if weights else 0
        running = copies + way.option.peak_bytes
        for k, whole in alone:
            if k not in way.copied and (whole or not self._may_be_view(op.inputs[k], operands[k])):
                running += self._pricer.value_bytes(op.inputs[k], operands[k])
        return beside, running, kept

    def of_homes(self, value_id: str, homes: tuple[Home, ...]) -> tuple[Uses, ...]:
        value, producer = self._pricer.graph.value(value_id), self._pricer.graph.producer(value_id)
        assert producer is not None
        key = (id(homes), value.shape, value.dtype)
        if key not in self._sizes_known:
            self._sizes_known[key] = ([], [self._pricer.value_bytes(value_id, home.layout) for home in homes])
        ends = (0, *(2 * self._step[reader] for reader in self._readers[value_id]))
        first, alone = 2 * self._step[producer.id] + 2, 2 * self._alone_from(value_id) + 2
        found: list[Uses] = []
        for home, size in zip(homes, self._sizes_known[key][1], strict=True):
            use = Usage(alone if self._may_be_view(value_id, home.layout) else first, ends[home.last], size)
            found.append((use,) if home.last and size and use.first <= use.last else ())
        return tuple(found)

    def _alone_from(self, value_id: str) -> int:
        """Step after which nothing but this value may lie in its buffer, if its producer may be a view."""
        producer = self._pricer.graph.producer(value_id)
        t = -1 if producer is None else self._step.get(producer.id, -1)
        while producer is not None and self._view_kind(producer.outputs[0]):
            source = producer.inputs[0]
            t = max((t, *(self._step[op_id] for op_id in self._readers.get(source, ()))))
            producer = self._pricer.graph.producer(source)
        return t

    def _view_kind(self, value_id: str) -> int:
        """In which placements the value may be a view: 0 none, 1 interleaved, 2 shards too."""
        producer = self._pricer.graph.producer(value_id)
        if producer is None or not may_be_view(self._pricer.graph, producer, L1_TILE):
            return 0
        return 2 if opdef(producer.op).view_of_shards else 1

    def _may_be_view(self, value_id: str, layout: TensorLayout) -> bool:
        return layout.is_l1 and layout.is_tile and self._view_kind(value_id) > layout.is_sharded
