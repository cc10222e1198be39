"""A network as a `solver.graph_problem`: a node per op (how it runs), one per value that may live in L1 (its home).

A home is DRAM, or a layout in L1 up to one of the value's readers, with or without a copy in DRAM; the copy is paid
once, however many read it. An operand in L1 is read in place or from a copy made for the reader. Steps 2t and 2t+1 of
the memory are the copies for op t of the schedule, and op t itself. A weight in L1 takes its bytes at every step: it is
charged to its only reader, or to a node of its own (in which layout, if any, it is there) if it has several.
Our kernels, where they are wanted, are nodes too (`kernel_options`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from optimizer.errors import OptionError
from optimizer.fusion.offers import Kernels
from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.precision.budget import ErrorBudget, OpNoise
from optimizer.sharding.base import OpDecision, Plan, PolicyInput
from optimizer.sharding.overriding import NOTHING_TO_COPY, laid_out_alike
from optimizer.sharding.whole_graph.global_memory import MemoryUse
from optimizer.sharding.whole_graph.global_options import MIXED_OPERANDS, Home, OptionTable, Seeds, Way
from optimizer.sharding.whole_graph.kernel_options import KernelNode, KernelOptions
from optimizer.sharding.whole_graph.option_fronts import OpOption
from optimizer.solver.graphs.graph_problem import FORBIDDEN, GraphProblem, PairCost
from optimizer.solver.graphs.usages import Table, Usage

Choice = tuple[int, ...]

MOST_UNITS = 1 << 40
"""Of the error budget that one way is charged: far more than there are."""
READERS = 4
"""A value with more readers may stay in L1 up to one of the first so many, or to the last."""


def _is_demanded_copy(way: Way, position: int) -> bool:
    """Whether an operand is copied as insert-memreconfig asks for."""
    return position in way.copied and laid_out_alike(way.option.operands[position], way.option.candidate.output)


class GlobalProblem:
    """Builds the integer problem, and reads decisions off its solutions."""

    def __init__(
        self,
        problem: PolicyInput,
        schedule: Sequence[str],
        seeds: Seeds,
        open_ops: Collection[str] | None = None,
        kernels: Kernels[Plan] | None = None,
    ) -> None:
        """With `open_ops`, all other ops run as in one of the seeds; with `kernels`, ops may be kernels together."""
        self._problem = problem
        self.poll = problem.poll
        self._pricer = problem.pricer
        self._graph = problem.graph
        self.schedule = tuple(schedule)
        self.table = self._table(seeds, open_ops)
        self._step = {op_id: t for t, op_id in enumerate(schedule)}
        self._returned = frozenset(self._graph.outputs)
        self._copy_known: dict[Hashable, int | None] = {}
        self._ways_known: dict[Hashable, tuple[Way, ...]] = {}
        self._twins_known: dict[Hashable, dict[int, tuple[int, ...]]] = {}
        self._homes_known: dict[Hashable, tuple[Home, ...]] = {}
        self._tables_known: dict[Hashable, Table] = {}
        """By what a table depends on: layers that are alike share theirs, which saves memory and work in the solver.
        Ways and homes are compared by object; both are shared and held by this problem."""
        self.ways: list[tuple[Way, ...]] = []
        self.homes: dict[str, tuple[Home, ...]] = {}
        self.node_of: dict[str, int] = {}
        """Value -> node of its home."""
        self._readers: dict[str, tuple[str, ...]] = {}
        self.weights: dict[str, tuple[TensorLayout, ...]] = {}
        """Weight with several readers -> layouts in L1 that some way of theirs reads."""
        self.kernels: tuple[KernelNode, ...] = ()
        """Their nodes come last."""
        self._pairs_of_kernel: dict[int, tuple[PairCost, ...]] = {}
        self._list_nodes()
        self._kernel_options = None if kernels is None else self._options_of(kernels)
        if self._kernel_options is not None:
            self.kernels = tuple(self._kernel_options.nodes(self.table.asked))
        self.added_ns = sum(node.most_ns for node in self.kernels)
        """What the integers are worth more than the plan that they stand for takes."""
        self.left_out_ns = sum(node.left_out_ns for node in self.kernels)
        """What kernels that are no options could save at most."""
        self.integers = self._integers()

    def _table(self, seeds: Seeds, open_ops: Collection[str] | None) -> OptionTable:
        """The options of all ops. Rounds within one budget differ in what errors count, not in the options."""
        problem, key = self._problem, (self.schedule, *map(id, seeds))
        if problem.budget is None or open_ops is not None:
            return OptionTable(problem, self.schedule, seeds, open_ops)
        if key not in problem.tables:
            # which keeps what the key names alive
            problem.tables[key] = (OptionTable(problem, self.schedule, seeds), seeds)
        known: OptionTable = problem.tables[key][0]
        return known

    def _options_of(self, kernels: Kernels[Plan]) -> KernelOptions:
        ways = dict(zip(self.schedule, self.ways, strict=True))
        return KernelOptions(kernels, self._pricer, ways, self.homes, self.readers, self._copy_ns)

    def promised_ns(self, chosen: Sequence[int]) -> int:
        """What the kernels of a choice save."""
        return sum(int(self._kernel_savings(v, node, chosen)[chosen[v]]) for v, node in self._kernel_nodes())

    def with_best_kernels(self, chosen: Sequence[int]) -> Choice:
        """A choice of all other nodes, with the options of the kernel nodes that save most beside them."""
        best = (int(self._kernel_savings(v, node, chosen).argmax()) for v, node in self._kernel_nodes())
        return (*chosen[: len(self.schedule) + len(self.node_of)], *best)

    def _kernel_savings(self, v: int, node: KernelNode, chosen: Sequence[int]) -> Table:
        """What each option of a kernel node saves beside a choice of the others; far below zero if it cannot be."""
        spent = self.integers.costs[v].copy()
        for pair in self._pairs_of_kernel[v]:
            spent += pair.matrix[:, chosen[pair.b]]
        return node.most_ns - spent

    def kernel_bytes(self, chosen: Sequence[int]) -> int:
        """The most L1 that a kernel of a choice takes besides what is there without it."""
        uses = (use.size for v, _ in self._kernel_nodes() for use in self.integers.usages[v][chosen[v]])
        return max(uses, default=0)

    def _kernel_nodes(self) -> Iterator[tuple[int, KernelNode]]:
        first = len(self.schedule) + len(self.node_of)
        return enumerate(self.kernels, first)

    def _kernel_pairs(self, v: int, node: KernelNode) -> Iterator[PairCost]:
        """What a group's kernel costs with the ways of its ops, and with the homes of what it brings and takes."""
        options = self._kernel_options
        assert options is not None
        for op_id in node.group:
            yield PairCost(v, self._step[op_id], options.beside(node, op_id))
        for value, (reader, k) in node.brought(self._graph).items():
            if value in self.homes:
                yield PairCost(v, self.node_of[value], options.fetching(node, value, reader, k))
        for value, maker in node.taken(self._graph).items():
            yield PairCost(v, self.node_of[value], options.taking(node, value, maker))

    def decisions(self, chosen: Sequence[int], reason: Mapping[str, Any]) -> dict[str, OpDecision]:
        """The decisions of a solution."""
        result = {}
        for t, op_id in enumerate(self.schedule):
            option = self.ways[t][chosen[t]].option
            result[op_id] = OpDecision(option.candidate, option.operands, None, reason)
        return result

    # -- nodes ---------------------------------------------------------------------------------------
    def _list_nodes(self) -> None:
        for op_id in self.schedule:
            self.poll()
            op = self._graph.op(op_id)
            for v in op.outputs:
                self._readers[v] = self.readers(v)
                if any(layout.is_l1 or layout.dtype for layout in self.table.produced[v]):
                    self.homes[v] = self._list_homes(v)
            self.ways.append(self._list_ways(op))
        self._list_weights()
        for v in (*self.homes, *self.weights):
            self.node_of[v] = len(self.schedule) + len(self.node_of)

    def _list_weights(self) -> None:
        wanted: dict[str, dict[TensorLayout, None]] = {}
        for t, op_id in enumerate(self.schedule):
            for k, v in self.weight_operands(op_id):
                layouts = (way.option.operands[k] for way in self.ways[t])
                wanted.setdefault(v, {}).update(dict.fromkeys(x for x in layouts if x.is_l1))
        for v, found in wanted.items():
            if found and len(self.readers(v)) > 1:
                self.weights[v] = tuple(found)

    def weight_operands(self, op_id: str) -> list[tuple[int, str]]:
        """(position, weight), each weight once."""
        op = self._graph.op(op_id)
        weights = dict.fromkeys(v for v in op.inputs if self._pricer.is_weight(v))
        return [(op.inputs.index(v), v) for v in weights]

    def readers(self, value_id: str) -> tuple[str, ...]:
        """Ops that read it, in schedule order."""
        found = {op.id for op in self._graph.consumers(value_id) if op.id in self._step}
        return tuple(sorted(found, key=lambda op_id: self._step[op_id]))

    def _list_homes(self, value_id: str) -> tuple[Home, ...]:
        count = len(self._readers[value_id])
        lasts = sorted({*range(min(count, READERS) + 1), count})
        returned = value_id in self._returned
        key = (self.table.produced[value_id], count, returned)
        if key in self._homes_known:
            return self._homes_known[key]
        homes = []
        for layout in self.table.produced[value_id]:
            if not layout.is_l1:
                homes.append(Home(layout, 0, True))
                continue
            for last in lasts:
                if last == count and not returned:
                    homes.append(Home(layout, last, False))
                homes.append(Home(layout, last, True))
        return self._homes_known.setdefault(key, tuple(homes))

    def _list_ways(self, op: Op) -> tuple[Way, ...]:
        options = self.table.options[op.id]
        positions = self.table.activations(op)
        forced = self._problem.forced_reshards.get(op.id, ())
        produced = tuple(self.table.produced.get(op.inputs[k]) for k in positions)
        key = (id(options), produced, tuple(forced))
        if key not in self._ways_known:
            ways = [way for option in options for way in self._ways_of(op, option, positions)]
            wanted = tuple(way for way in ways if all(_is_demanded_copy(way, k) for k in forced))
            if not wanted:
                raise OptionError(f"insert-memreconfig: {NOTHING_TO_COPY}", node=op.id)
            self._ways_known[key] = wanted
        return self._ways_known[key]

    def _ways_of(self, op: Op, option: OpOption, positions: Sequence[int]) -> list[Way]:
        modes: dict[str, list[bool]] = {}
        for k in positions:
            v, wanted = op.inputs[k], option.operands[k]
            if not wanted.is_l1:
                modes[v] = [False]
                continue
            sources = self.table.produced.get(v, (self._pricer.default_layout(self._graph.value(v)),))
            can_copy = any(s != wanted and self._copy_ns(v, s, wanted) is not None for s in sources)
            modes[v] = [mode for mode, open_ in ((False, wanted in sources), (True, can_copy)) if open_]
        if not all(modes.values()):
            return []
        ways = []
        if sum(len(row) > 1 for row in modes.values()) > MIXED_OPERANDS:
            mixed = list(dict.fromkeys(tuple(row[end] for row in modes.values()) for end in (0, -1)))
        else:
            mixed = list(product(*modes.values()))
        for chosen in mixed:
            copies = dict(zip(modes, chosen, strict=True))
            ways.append(Way(option, tuple(k for k in positions if copies[op.inputs[k]])))
        return ways

    def _copy_ns(self, value_id: str, source: TensorLayout, target: TensorLayout) -> int | None:
        """Time of a copy, None if it cannot be made. A copy keeps the element type: what is stored so is made so."""
        value = self._graph.value(value_id)
        if target.dtype is not source.dtype:
            return None
        key = (value.shape, value.dtype, source, target)
        if key not in self._copy_known:
            accepted = self._pricer.copy_accepted(value_id, source, target)
            self._copy_known[key] = self._pricer.copy_ns(value_id, source, target) if accepted else None
        return self._copy_known[key]

    # -- integers ------------------------------------------------------------------------------------
    def _integers(self) -> GraphProblem:
        costs = [self._op_costs(t) for t in range(len(self.schedule))]
        memory = MemoryUse(self._pricer, self.schedule, self._readers)
        usages = [self._op_usages(memory, t) for t in range(len(self.schedule))]
        pairs: list[PairCost] = []
        for v, homes in self.homes.items():
            self.poll()
            costs.append(self._home_costs(v, homes))
            usages.append(memory.of_homes(v, homes))
            producer = self._graph.producer(v)
            assert producer is not None
            pairs.append(self._produces(v, self._step[producer.id]))
            pairs += (self._reads(v, i, self._step[op_id]) for i, op_id in enumerate(self._readers[v]))
        for v, layouts in self.weights.items():
            costs.append(np.zeros(len(layouts) + 1, dtype=np.int64))
            usages.append(((), *(memory.throughout(self._pricer.value_bytes(v, layout)) for layout in layouts)))
            pairs += (self._takes(v, self._step[op_id]) for op_id in self.readers(v))
        for n, kernel in self._kernel_nodes():
            self.poll()
            costs.append(kernel.costs)
            assert self._kernel_options is not None
            usages.append(self._kernel_options.usages(kernel, self._step))
            self._pairs_of_kernel[n] = tuple(self._kernel_pairs(n, kernel))
            pairs += self._pairs_of_kernel[n]
        capacity = (self._pricer.l1_limit_bytes,) * (2 * len(self.schedule))
        if self._problem.budget is not None:
            capacity = (*capacity, self._problem.budget.capacity)
        return GraphProblem(tuple(costs), tuple(pairs), tuple(usages), capacity)

    def _op_costs(self, t: int) -> Table:
        """Times, with the loads of operands that have no other home than DRAM."""
        op = self._graph.op(self.schedule[t])
        key = ("op", id(self.ways[t]), tuple(v in self.homes for v in op.inputs))
        if key in self._tables_known:
            return self._tables_known[key]
        row = []
        for way in self.ways[t]:
            total = way.option.time_ns
            for k in way.copied:
                v = op.inputs[k]
                if v not in self.homes:
                    total += self._cost(v, self._pricer.default_layout(self._graph.value(v)), way.option.operands[k])
            row.append(total)
        return self._tables_known.setdefault(key, np.asarray(row, dtype=np.int64))

    def _cost(self, value_id: str, source: TensorLayout, target: TensorLayout) -> int:
        found = self._copy_ns(value_id, source, target)
        return FORBIDDEN if found is None else found

    def _op_usages(self, memory: MemoryUse, t: int) -> tuple[tuple[Usage, ...], ...]:
        self.poll()
        op_id = self.schedule[t]
        moving = [v for v in dict.fromkeys(self._graph.op(op_id).inputs) if v in self.homes]
        own = [v for _, v in self.weight_operands(op_id) if v not in self.weights]
        usages = memory.of_ways(t, self.ways[t], moving, own)
        return usages if self._problem.budget is None else self._with_errors(self._problem.budget, t, usages)

    def _with_errors(
        self, budget: ErrorBudget, t: int, usages: tuple[tuple[Usage, ...], ...]
    ) -> tuple[tuple[Usage, ...], ...]:
        """What ways take, the error that they add at the outputs included: at a step of its own, after all others."""
        step, result = 2 * len(self.schedule), self._graph.op(self.schedule[t]).outputs[0]
        known: dict[tuple[int, OpNoise], tuple[Usage, ...]] = {}
        found = []
        for way, uses in zip(self.ways[t], usages, strict=True):
            key = (id(uses), way.option.noise)
            if key not in known:
                units = min(budget.units(self.schedule[t], result, way.option.noise), MOST_UNITS)
                known[key] = (*uses, Usage(step, step, units)) if units else uses
            found.append(known[key])
        return tuple(found)

    def result(self, t: int) -> str:
        """The value that an op's error is in."""
        return self._graph.op(self.schedule[t]).outputs[0]

    def twins(self, t: int, option: int) -> tuple[int, ...]:
        """Ways of an op, ascending, of which the rest of the graph sees the same as of this one, weights left out."""
        weights = tuple(map(self._pricer.is_weight, self._graph.op(self.schedule[t]).inputs))
        key = (id(self.ways[t]), weights)
        if key not in self._twins_known:
            found: dict[Hashable, list[int]] = {}
            for i, way in enumerate(self.ways[t]):
                moving = (layout for layout, w in zip(way.option.operands, weights, strict=True) if not w)
                seen = (tuple(moving), way.option.candidate.output, way.copied)
                found.setdefault(seen, []).append(i)
            self._twins_known[key] = {i: tuple(same) for same in found.values() for i in same}
        return self._twins_known[key][option]

    def shared_weights(self, t: int) -> tuple[int, ...]:
        """Operands of an op that are weights which other ops may want in L1 too."""
        return tuple(k for k, v in self.weight_operands(self.schedule[t]) if v in self.weights)

    def within_budget(self, chosen: Sequence[int]) -> bool:
        """Whether the errors of a choice add up to no more than the budget."""
        budget = self._problem.budget
        return budget is None or int(self.integers.loads(chosen)[-1]) <= budget.capacity

    def _takes(self, value_id: str, t: int) -> PairCost:
        """Where a weight with several readers is in L1, and a reader that wants it there; in DRAM it always is."""
        layouts = self.weights[value_id]
        k = self._graph.op(self.schedule[t]).inputs.index(value_id)
        wanted = [way.option.operands[k] for way in self.ways[t]]
        rows = [
            [0 if not want.is_l1 or want == layout else FORBIDDEN for layout in (None, *layouts)] for want in wanted
        ]
        return PairCost(t, self.node_of[value_id], np.asarray(rows, dtype=np.int64))

    def _home_costs(self, value_id: str, homes: tuple[Home, ...]) -> Table:
        """The copies to DRAM."""
        value = self._graph.value(value_id)
        default = self._pricer.default_layout(value)
        key = ("home", id(homes), value.shape, value.dtype, default)
        if key not in self._tables_known:
            copied = (home.in_dram and not home.layout.is_dram for home in homes)
            row = [
                self._cost(value_id, h.layout, default.typed(h.layout.dtype)) if c else 0
                for h, c in zip(homes, copied, strict=True)
            ]
            self._tables_known[key] = np.asarray(row, dtype=np.int64)
        return self._tables_known[key]

    def _produces(self, value_id: str, t: int) -> PairCost:
        """An op and the home of its result: the same layout."""
        op, homes = self._graph.op(self.schedule[t]), self.homes[value_id]
        key = ("produces", id(self.ways[t]), id(homes), op.outputs.index(value_id), self._pricer.pages[value_id])
        if key in self._tables_known:
            return PairCost(t, self.node_of[value_id], self._tables_known[key])
        given = [self._pricer.result_layout(op, value_id, way.option.candidate.output) for way in self.ways[t]]
        ids = {layout: i for i, layout in enumerate(self.table.produced[value_id])}
        rows = np.asarray([ids[layout] for layout in given])
        columns = np.asarray([ids[home.layout] for home in homes])
        matrix = np.where(rows[:, None] == columns[None, :], 0, FORBIDDEN).astype(np.int64)
        return PairCost(t, self.node_of[value_id], self._tables_known.setdefault(key, matrix))

    def _reads(self, value_id: str, reader: int, t: int) -> PairCost:
        """The home of a value and the way its reader number `reader` takes it, with the copy that is made for it."""
        op, homes = self._graph.op(self.schedule[t]), self.homes[value_id]
        positions = tuple(k for k, v in enumerate(op.inputs) if v == value_id)
        value = self._graph.value(value_id)
        key = ("reads", id(self.ways[t]), id(homes), positions, reader, value.shape, value.dtype)
        if key in self._tables_known:
            return PairCost(self.node_of[value_id], t, self._tables_known[key])
        columns: dict[tuple[TensorLayout, bool], list[int]] = {}
        for j, way in enumerate(self.ways[t]):
            columns.setdefault((way.option.operands[positions[0]], positions[0] in way.copied), []).append(j)
        matrix = np.full((len(homes), len(self.ways[t])), FORBIDDEN, dtype=np.int64)
        for (wanted, copied), members in columns.items():
            column = [self._read_ns(value_id, home, reader, wanted, copied) for home in homes]
            column = [min(cost * len(positions), FORBIDDEN) for cost in column]
            matrix[:, members] = np.asarray(column, dtype=np.int64)[:, None]
        return PairCost(self.node_of[value_id], t, self._tables_known.setdefault(key, matrix))

    def _read_ns(self, value_id: str, home: Home, reader: int, wanted: TensorLayout, copied: bool) -> int:
        if not wanted.is_l1:
            return 0 if home.in_dram and home.layout.dtype is wanted.dtype else FORBIDDEN
        if home.layout.is_l1 and reader >= home.last:
            return FORBIDDEN
        if not copied:
            return 0 if home.layout == wanted else FORBIDDEN
        return FORBIDDEN if home.layout == wanted else self._cost(value_id, home.layout, wanted)
