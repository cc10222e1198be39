"""Every way to run an op that the whole-graph solver may choose from: what it reads where, what it produces, its price.

A value may be read from DRAM, from L1 interleaved, in a layout its producer gives it, or in one of the widest legal
shardings (by a reshard). An op's operand layouts are combined where ops accept them together: all in DRAM or L1
interleaved in any mixture, one sharded and the others interleaved, or all sharded alike. Every combination is put to
the OpModel; of options that read and give the same, only those on the Pareto front of time and L1 remain. The fastest
of those are asked again with their weights in L1 (`weight_placement`), where that is faster. An op that may write its
result into an operand does: that takes less L1 and no more time.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.l1.rules import may_be_view
from optimizer.layouts.in_place import in_place_config, writable_operands
from optimizer.layouts.legal_op_configs import LegalConfigs, OpCandidate, may_free_operand
from optimizer.layouts.memory_config import BufferType, TensorLayout, interleaved
from optimizer.precision.budget import NO_NOISE
from optimizer.sharding.base import OpDecision, PolicyInput
from optimizer.sharding.whole_graph.dram_sharded import dram_sharded_ways, reads_banks
from optimizer.sharding.whole_graph.option_fronts import Layouts, OpOption, pareto, thinned, worthwhile
from optimizer.sharding.whole_graph.precision_options import PrecisionOptions
from optimizer.sharding.whole_graph.precision_options import Way as TypedWay
from optimizer.sharding.whole_graph.weight_placement import weight_placements, weight_positions

WIDEST = 3
"""Layouts per kind of sharding (height, width, block) that any value may be resharded to."""
WEIGHT_TRIES = 3
"""Options of one interface that are asked again with weights in L1."""
WORTH_L1 = 0.005
"""Share of an op's time that weights in L1 must save to be considered."""
SLOWER_BLOCKS = 0.05
"""Share of an op's time by which operands or a result in blocks may make it slower: those who read them gain more."""
MIXED_OPERANDS = 4
"""Up to this many operands, DRAM and L1 interleaved are mixed freely."""
Seeds = Sequence[Mapping[str, OpDecision]]
"""Decisions of other plans, which are always among the options."""


@dataclass(frozen=True)
class Home:
    """Where a value lives."""

    layout: TensorLayout
    last: int
    """Readers that find it in L1, in schedule order; 0 in DRAM."""
    in_dram: bool


@dataclass(frozen=True)
class Way:
    """An op's option, with the operand positions that are copied first."""

    option: OpOption
    copied: tuple[int, ...] = ()


class OptionTable:
    """Options of all ops, in schedule order; ops that ask the same questions share them."""

    def __init__(
        self, problem: PolicyInput, schedule: Sequence[str], seeds: Seeds, open_ops: Collection[str] | None = None
    ) -> None:
        """With `open_ops`, all others keep the options of the seeds. TimeLimitError once the run has to end."""
        self._problem = problem
        self._open = open_ops
        self._pricer = problem.pricer
        model = problem.pricer.model
        bank_bytes = model.device.l1_bank_bytes(model.l1_small_bytes)
        self._above_limit_bytes = bank_bytes - problem.pricer.l1_limit_bytes
        """L1 that plans leave alone but TTNN counts on in its choices."""
        self._seeds = seeds
        self._known: dict[Hashable, tuple[OpOption, ...]] = {}
        self._widest_known: dict[int, set[TensorLayout]] = {}
        self._reads_known: dict[str, Layouts] = {}
        self._giving_known: dict[int, dict[TensorLayout, list[OpCandidate]]] = {}
        self.asked: dict[str, str] = {}
        """Op -> the op that was asked about for it: itself, or one of equal questions."""
        self._first: dict[Hashable, str] = {}
        self._precision = None if problem.budget is None else PrecisionOptions(problem.pricer, problem.options)
        self.produced: dict[str, Layouts] = {}
        """Value -> layouts in which some option of its producer gives it; graph inputs and weights are absent."""
        self.options: dict[str, tuple[OpOption, ...]] = {}
        for op_id in schedule:
            op = problem.graph.op(op_id)
            self.options[op_id] = options = self._options(op)
            for v in op.outputs:
                layouts = (self._pricer.result_layout(op, v, o.candidate.output) for o in options)
                self.produced[v] = tuple(dict.fromkeys(layouts))

    def activations(self, op: Op) -> tuple[int, ...]:
        """Positions of the operands whose layout is open."""
        if opdef(op.op).opaque:
            return ()
        default = self._pricer.default_operands(op)
        weight = self._pricer.is_weight
        return tuple(k for k, v in enumerate(op.inputs) if v in self.produced or (default[k].is_dram and not weight(v)))

    # -- options of one op ---------------------------------------------------------------------------
    def _options(self, op: Op) -> tuple[OpOption, ...]:
        seeds = tuple(plan[op.id] for plan in self._seeds if op.id in plan)
        chosen = tuple(dict.fromkeys((s.candidate, tuple(s.operands)) for s in seeds))
        legal = self._problem.legal[op.id]
        positions = self.activations(op)
        reads = tuple(self._reads(op.inputs[k]) for k in positions)
        forced = tuple(self._problem.forced_reshards.get(op.id, ()))
        shut = self._open is not None and op.id not in self._open
        free = self._overwritable(op, positions)
        from_banks = reads_banks(self._pricer, op)
        asked = (self._pricer.signature(op), id(legal), positions, reads, self._storable(op))
        key = (*asked, chosen, forced, shut, free, from_banks)
        self.asked[op.id] = self._first.setdefault(key, op.id)
        if key not in self._known:
            found = [self._ask(op, operands, candidate) for candidate, operands in chosen]
            found += [option for c, operands in chosen for option in self._in_place(op, operands, [c], free)]
            if not shut and not opdef(op.op).opaque:
                for operands in self._combinations(op, positions, reads):
                    found += [self._ask(op, operands, c) for c in self._candidates(op, operands)]
                    found += self._in_place(op, operands, self._giving(legal, operands, free), free)
                    if from_banks and operands[0].is_sharded:
                        found += self._from_banks(op, operands)
            options = [option for option in found if option is not None]
            if not shut and self._problem.options.weights_in_l1:
                options += self._with_weights(op, options)
            if self._precision is not None and not shut and not opdef(op.op).opaque:
                plain = pareto(options, positions)
                options = [*plain, *self._in_other_types(self._precision, op, positions, plain)]
            front = pareto(options, positions)
            self._known[key] = front if self._precision is None else thinned(front, positions)
        return self._known[key]

    def _overwritable(self, op: Op, positions: Sequence[int]) -> tuple[int, ...]:
        """Positions of the operands that the result may be written into: nobody else needs them, in any order of ops.

        The result may then be written into a copy of such an operand too.
        """
        options = self._problem.options
        if not options.in_place_ops or len(op.outputs) != 1:
            return ()
        return tuple(
            k for k in writable_operands(op) if k in positions and may_free_operand(self._problem.graph, op, k)
        )

    def _in_place(
        self, op: Op, operands: Layouts, candidates: Sequence[OpCandidate], free: Sequence[int]
    ) -> Iterator[OpOption | None]:
        """The candidates that can write their result into an operand, doing so: as fast, and possible where L1 has no
        room for a result of its own."""
        for k in free:
            for candidate in candidates:
                config = in_place_config(op, candidate.config, k) if candidate.output == operands[k] else None
                if config is not None and operands[k].is_l1:
                    yield self._ask(op, operands, replace(candidate, config=config))

    def _giving(self, legal: LegalConfigs, operands: Layouts, free: Sequence[int]) -> list[OpCandidate]:
        """Candidates whose result lies like one of these operands in L1."""
        if id(legal) not in self._giving_known:
            known: dict[TensorLayout, list[OpCandidate]] = {}
            for candidate in (*legal.l1_interleaved, *legal.sharded):
                known.setdefault(candidate.output, []).append(candidate)
            self._giving_known[id(legal)] = known
        wanted = dict.fromkeys(operands[k] for k in free)
        return [c for layout in wanted for c in self._giving_known[id(legal)].get(layout, ())]

    def _from_banks(self, op: Op, operands: Layouts) -> Iterator[OpOption | None]:
        """Matmuls of an operand in width shards that read their weights from shards in the DRAM banks."""
        legal = self._problem.legal[op.id]
        wide = None if legal.forced else self._widest_outputs(legal)
        results = [c for c in legal.sharded if wide is None or c.output in wide]
        for placed, candidate in dram_sharded_ways(self._pricer, op, operands, results):
            yield self._ask(op, placed, candidate)

    def _with_weights(self, op: Op, options: Sequence[OpOption]) -> Iterator[OpOption]:
        """The fastest options of the same interface with weights in L1, where that makes them faster than any is."""
        weights, legal = weight_positions(self._pricer, op), self._problem.legal[op.id]
        if not weights:
            return
        groups: dict[tuple[Layouts, TensorLayout], list[OpOption]] = {}
        for option in options:
            if not any(layout.is_over_banks for layout in option.operands):
                groups.setdefault((option.operands, option.candidate.output), []).append(option)
        for row in groups.values():
            row.sort(key=lambda o: (o.time_ns, o.peak_bytes))
            settled = [o for o in row if o.candidate.config is not None or not legal.by_room]
            for option in settled[:WEIGHT_TRIES]:
                for operands in weight_placements(self._pricer, op, weights, option.operands, option.candidate):
                    found = self._ask(op, operands, option.candidate)
                    if found is not None and found.time_ns < (1 - WORTH_L1) * row[0].time_ns:
                        yield found

    def _in_other_types(
        self, precision: PrecisionOptions, op: Op, positions: Sequence[int], options: Sequence[OpOption]
    ) -> Iterator[OpOption]:
        """The options in other element types and at other fidelities."""
        stored = {op.inputs[k]: self._stored(op.inputs[k]) for k in positions}
        known: dict[TypedWay, OpOption | None] = {(o.operands, o.candidate): o for o in options}

        def ask(way: TypedWay) -> OpOption | None:
            if way not in known:
                known[way] = self._ask(op, *way)
            return known[way]

        for option in options:
            own: OpOption | None = None
            for ladders in precision.variants(op, positions, stored, option.operands, option.candidate):
                fastest = ask(ladders[-1][-1])
                if own is None:
                    own = fastest or option  # the types of the graph come first
                elif fastest is None or fastest.time_ns > (1 + SLOWER_BLOCKS) * own.time_ns:
                    continue
                least = worthwhile([ladder[-1] for ladder in ladders], ask)
                for ladder in ladders:
                    if ladder[-1] in least:
                        yield from (o for way in worthwhile(ladder, ask) if (o := ask(way)) is not None)

    def _storable(self, op: Op) -> tuple[bool, ...]:
        """Of every result, whether it may be stored in blocks."""
        return () if self._precision is None else tuple(map(self._precision.storable, op.outputs))

    def _stored(self, value_id: str) -> tuple[DType | None, ...]:
        """Element types that a value may be read in: those in which its producer may give it."""
        return tuple(dict.fromkeys((None, *(layout.dtype for layout in self.produced.get(value_id, ())))))

    def _ask(self, op: Op, operands: Layouts, candidate: OpCandidate) -> OpOption | None:
        self._problem.poll()
        asked, output = candidate.of(op), candidate.output
        answer = self._pricer.constraints(asked, operands, candidate.config, candidate.request, output.dtype)
        if not answer.valid or answer.outputs[0].layout != output.plain:
            return None
        if any(
            given.layout != self._pricer.result_layout(op, v, output).plain
            for v, given in zip(op.outputs, answer.outputs, strict=False)
        ):
            return None
        cost = self._pricer.cost(asked, operands, candidate.config, candidate.request)
        noise = NO_NOISE
        if self._precision is not None and not opdef(op.op).opaque:
            query = self._pricer.query(asked, operands, candidate.config, candidate.request)
            noise = self._precision.noise(op, query, answer.outputs[0].dtype)
        kept = {v: layout for v, layout in zip(op.inputs, operands, strict=True) if self._pricer.is_weight(v)}
        size = sum(self._pricer.value_bytes(v, layout) for v, layout in kept.items())
        taken = max(answer.peak_bytes, answer.choice_room_bytes - self._above_limit_bytes)
        return OpOption(candidate, operands, cost.time_ns, taken, size, noise)

    def _candidates(self, op: Op, operands: Layouts) -> Iterator[OpCandidate]:
        """Candidates worth asking about with these operands."""
        legal = self._problem.legal[op.id]
        if _foreseeable(legal, operands):
            yield from () if legal.forced else legal.dram
            yield from legal.l1_interleaved
        yield from legal.programmed
        sharded = [layout for layout in operands if layout.is_sharded]
        follow = None
        if sharded and any(c.config is None for c in legal.sharded):
            follow = self._pricer.followed(op, operands)
        elif sharded and not legal.forced and may_be_view(self._pricer.graph, op, operands[0]):
            yield OpCandidate(operands[0], None, operands[0].memory)
        wide = None if legal.forced else self._widest_outputs(legal)
        for candidate in legal.sharded:
            if candidate.config is None and candidate.request is not None and sharded:
                if candidate.output == follow:
                    yield candidate
            elif candidate.request is None or wide is None or candidate.output in wide:
                kind = candidate.output.memory_layout
                alike = all(layout.memory_layout is kind for layout in sharded)
                if alike or not opdef(op.op).sharding_follows_operand:
                    yield candidate
        for candidate in legal.tuned:
            if candidate.output.is_l1 or operands[0].is_dram:
                yield candidate

    def _widest_outputs(self, legal: LegalConfigs) -> set[TensorLayout]:
        """Of the sharded candidates' results; ops that are alike share their legal configs."""
        if id(legal) not in self._widest_known:
            self._widest_known[id(legal)] = _widest([c.output for c in legal.sharded])
        return self._widest_known[id(legal)]

    # -- layouts of operands -------------------------------------------------------------------------
    def _reads(self, value_id: str) -> Layouts:
        """Layouts in which a value may be read, DRAM first. Its producer's options are known."""
        if value_id not in self._reads_known:
            self._reads_known[value_id] = self._readable(value_id)
        return self._reads_known[value_id]

    def _readable(self, value_id: str) -> Layouts:
        page = self._pricer.pages[value_id]
        value = self._problem.graph.value(value_id)
        pool = self._problem.pools.pool(value.shape, value.dtype, page)
        produced = tuple(layout.plain for layout in self.produced.get(value_id, ()) if not layout.is_host)
        own = (interleaved(BufferType.DRAM, page), interleaved(BufferType.L1, page))
        seeded = []
        for op in self._problem.graph.consumers(value_id):
            for plan in self._seeds:
                if op.id in plan:
                    seeded.append(plan[op.id].operands[op.inputs.index(value_id)])
        wanted = (layout.plain for layout in seeded if not layout.is_host)
        return tuple(dict.fromkeys((*own, *produced, *wanted, *sorted(_widest(pool.sharded), key=_order))))

    def _combinations(self, op: Op, positions: Sequence[int], reads: Sequence[Layouts]) -> Iterator[Layouts]:
        default = self._pricer.default_operands(op)
        seen: set[Layouts] = set()
        for chosen in self._joint(op, positions, reads):
            by_value: dict[str, TensorLayout] = {}
            operands = list(default)
            for k, layout in zip(positions, chosen, strict=True):
                operands[k] = by_value.setdefault(op.inputs[k], layout)
            result = tuple(operands)
            if result not in seen:
                seen.add(result)
                yield result

    def _joint(self, op: Op, positions: Sequence[int], reads: Sequence[Layouts]) -> Iterator[Layouts]:
        plain = [[layout for layout in row if not layout.is_sharded] for row in reads]
        if len(positions) <= MIXED_OPERANDS:
            yield from product(*plain)
        else:
            yield tuple(row[0] for row in plain)
            yield tuple(row[-1] for row in plain)
        alike, like = opdef(op.op).operands_sharded_alike, self._pricer.sharded_like
        shared: set[TensorLayout] = set()
        for i, row in enumerate(reads):
            for layout in (x for x in row if x.is_sharded):
                if not alike:
                    others = [p if n != i else [layout] for n, p in enumerate(plain)]
                    yield from product(*others) if len(positions) <= 2 else [tuple(o[0] for o in others)]
                own = like(op.inputs[positions[i]], layout)
                if own == layout and layout in shared:
                    continue  # another operand had all of them alike
                yield tuple(layout if k == positions[i] else like(op.inputs[k], layout) for k in positions)
                if own == layout:
                    shared.add(layout)


def _foreseeable(legal: LegalConfigs, operands: Layouts) -> bool:
    """Whether what TTNN chooses without a program config is known.

    For a matmul of interleaved operands in L1 it depends on what else lies there.
    """
    return not legal.by_room or all(layout.is_sharded or not layout.is_l1 for layout in operands)


def _widest(layouts: Sequence[TensorLayout]) -> set[TensorLayout]:
    """Of each kind of sharding, the layouts on most cores."""
    found: dict[str, list[TensorLayout]] = {}
    for layout in dict.fromkeys(layouts):
        found.setdefault(layout.memory_layout.value, []).append(layout)
    return {x for row in found.values() for x in sorted(row, key=lambda x: -x.num_shard_cores)[:WIDEST]}


def _order(layout: TensorLayout) -> tuple[int, str]:
    return (-layout.num_shard_cores, layout.describe())
