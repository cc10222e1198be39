"""Our kernels as nodes of a `GlobalProblem`: one node per group of ops that one kernel could run.

The options of a node are no kernel, and every kernel of the group, or of a part of it, at a home (a sharding in L1)
that takes less time than its ops, and the copies of what it brings itself, could there. A kernel demands ways of its
ops whose tensors lie right, none in place. It costs what it takes, less what those ways and copies are charged; what
depends on the way of one op, or on the home of one operand, is the cost of that pair. A constant is added to all
options of a node so that no cost is below zero (`KernelNode.most_ns`); the problem's values are too high by it.

Of many kernels those that save most are options; what the best of the others could save (`left_out_ns`) is taken off
bounds. Groups that are alike (their ops ask the same questions, joined in the same way) share prices and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from optimizer.fusion.offers import KernelOffer, Kernels, Wanted, WantedOperand, WantedPlaces
from optimizer.ir.graph import Graph
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.op_config import overwritten_operand
from optimizer.opmodel.pricing import OpPricer
from optimizer.sharding.base import Plan
from optimizer.sharding.whole_graph.global_options import Home, Way
from optimizer.solver.graphs.graph_problem import FORBIDDEN
from optimizer.solver.graphs.usages import Table, Usage

Ways = tuple[Way, ...]
Mask = NDArray[np.bool_]
CopyNs = Callable[[str, TensorLayout, TensorLayout], int | None]

MOST_OFFERS = 256
"""Kernels of one group that are options."""
LEAST_OPS = 2
"""Ops and copies that a kernel stands for."""


@dataclass(frozen=True)
class KernelNode:
    """A group's kernels that may pay."""

    group: tuple[str, ...]
    offers: tuple[KernelOffer, ...]
    """Of the options from 1 on; 0 is no kernel."""
    saved_ns: tuple[int, ...]
    """Per offer, what it takes less than its ops in the slowest ways, and the longest copies, that they may have."""
    left_out_ns: int
    """What a kernel that is no option could save at most."""

    @property
    def most_ns(self) -> int:
        """What is added to all options."""
        return max(0, *self.saved_ns)

    @property
    def costs(self) -> Table:
        return np.asarray([self.most_ns, *(self.most_ns - saved for saved in self.saved_ns)], dtype=np.int64)

    def taken(self, graph: Graph) -> dict[str, int]:
        """Values whose copy in DRAM some offer makes -> the op of the group that gives each."""
        return {
            graph.op(op_id).outputs[0]: n
            for offer in self.offers
            for n, (op_id, wanted) in enumerate(zip(self.group, offer.wanted, strict=True))
            if wanted is not None and wanted.taken
        }

    def brought(self, graph: Graph) -> dict[str, tuple[int, int]]:
        """Values that some offer brings instead of copies -> the op of the group that reads each, and the operand."""
        return {
            graph.op(op_id).inputs[k]: (n, k)
            for offer in self.offers
            for n, (op_id, wanted) in enumerate(zip(self.group, offer.wanted, strict=True))
            for k, operand in enumerate(() if wanted is None else wanted.operands)
            if operand.copied
        }


@dataclass(frozen=True)
class _Spent:
    """What ops that may be a kernel take by themselves: in their fastest and slowest ways, and the copies for them."""

    fastest_ns: int
    slowest_ns: int
    shortest_ns: int
    longest_ns: int


class KernelOptions:
    """Finds the nodes of one problem, and what they cost together with ways of ops and homes of values."""

    def __init__(
        self,
        kernels: Kernels[Plan],
        pricer: OpPricer,
        ways: Mapping[str, Ways],
        homes: Mapping[str, tuple[Home, ...]],
        readers: Callable[[str], Sequence[str]],
        copy_ns: CopyNs,
    ) -> None:
        """`readers`: ops that read a value, in schedule order, as homes count them."""
        self._kernels, self._pricer, self._graph = kernels, pricer, pricer.graph
        self._ways, self._homes, self._readers, self._copy_ns = ways, homes, readers, copy_ns
        self._offers_known: dict[Hashable, tuple[KernelOffer, ...]] = {}
        self._masks_known: dict[Hashable, Mask] = {}
        self._tables_known: dict[Hashable, Table] = {}
        """By ways and homes, which are compared by object: the problem holds them."""

    def nodes(self, asked: Mapping[str, str]) -> Iterator[KernelNode]:
        """The groups of which a kernel may pay; `asked`: per op the op that was asked about for it."""
        for group in self._kernels.groups:
            if all(op_id in self._ways for op_id in group):
                node = self._node(group, [asked[op_id] for op_id in group])
                if node is not None:
                    yield node

    def _node(self, group: tuple[str, ...], asked: Sequence[str]) -> KernelNode | None:
        found: list[tuple[_Spent, KernelOffer]] = []
        for open_offer in self._offers(group, asked):
            offer = replace(open_offer, wanted=self._settled(group, open_offer.wanted))
            spent = self._spent(group, offer.wanted)
            if spent is not None and offer.time_ns < spent.fastest_ns + spent.longest_ns:
                found.append((spent, offer))
        if not found:
            return None
        found.sort(key=lambda entry: entry[1].time_ns - entry[0].fastest_ns - entry[0].shortest_ns)
        others = (spent.fastest_ns + spent.longest_ns - offer.time_ns for spent, offer in found[MOST_OFFERS:])
        kept = found[:MOST_OFFERS]
        saved = tuple(spent.slowest_ns + spent.longest_ns - offer.time_ns for spent, offer in kept)
        return KernelNode(group, tuple(offer for _, offer in kept), saved, max(others, default=0))

    def _is_of_use(self, group: Sequence[str], open_places: Wanted) -> bool:
        """Whether the ops can be as a kernel wants them, and it has no other form that is as good everywhere."""
        wanted = self._settled(group, open_places)
        others = self._without_copies(group, wanted)
        return self._spent(group, wanted) is not None and not any(self._spent(group, other) for other in others)

    def _without_copies(self, group: Sequence[str], wanted: Wanted) -> Iterator[Wanted]:
        """The same kernel where an op reads from DRAM, or writes there, what is copied otherwise: it takes as long and
        less L1, whatever is around it. None for an op and a single copy: the op alone is none of our kernels."""
        inside = {op_id for op_id, places in zip(group, wanted, strict=True) if places is not None}
        copies = sum(places.taken + sum(x.copied for x in places.operands) for places in wanted if places is not None)
        if len(inside) + copies <= LEAST_OPS:
            return
        for n, (op_id, places) in enumerate(zip(group, wanted, strict=True)):
            if places is None:
                continue
            found = [
                _with_operand(places, k, WantedOperand(None, x.source))
                for k, x in enumerate(places.operands)
                if x.copied and x.source is not None and x.source.is_dram
            ]
            v = self._graph.op(op_id).outputs[0]
            if places.taken and inside.isdisjoint(self._readers(v)):
                found.append(WantedPlaces(places.operands, self._pricer.default_layout(self._graph.value(v))))
            for other in found:
                yield (*wanted[:n], other, *wanted[n + 1 :])

    def _settled(self, group: Sequence[str], wanted: Wanted) -> Wanted:
        """With a layout for every copy that a kernel spares: that of the fastest way to read one."""
        found: list[WantedPlaces | None] = list(wanted)
        for n, (op_id, places) in enumerate(zip(group, wanted, strict=True)):
            for k, operand in enumerate(() if places is None else places.operands):
                known = found[n]
                if known is not None and operand.copied and operand.layout is None:
                    ways = [w for w, ok in zip(self._ways[op_id], self._at_home(op_id, known), strict=True) if ok]
                    if ways:
                        fastest = min(ways, key=lambda way: way.option.time_ns).option.operands[k]
                        found[n] = _with_operand(known, k, replace(operand, layout=fastest))
        return tuple(found)

    def _spent(self, group: Sequence[str], all_wanted: Wanted) -> _Spent | None:
        """What the ops and copies of a kernel take by themselves; None if they cannot be as it wants them."""
        found = _Spent(0, 0, 0, 0)
        for op_id, wanted in zip(group, all_wanted, strict=True):
            if wanted is None:
                continue
            times = _times(self._ways[op_id])[self._at_home(op_id, wanted)]
            copies = [self._copies(op_id, k, wanted) for k, x in enumerate(wanted.operands) if x.copied]
            copies += [self._copies_out(op_id, wanted)] if wanted.taken else []
            if not len(times) or not all(copies):
                return None
            found = _Spent(
                found.fastest_ns + int(times.min()),
                found.slowest_ns + int(times.max()),
                found.shortest_ns + sum(map(min, copies)),
                found.longest_ns + sum(map(max, copies)),
            )
        return found

    def _copies(self, op_id: str, k: int, wanted: WantedPlaces) -> list[int]:
        """Times of the copies that a kernel spares by bringing an operand from such a source."""
        v, operand = self._graph.op(op_id).inputs[k], wanted.operands[k]
        assert operand.source is not None
        sources = {x for x in self._layouts(v) if x.is_l1 is operand.source.is_l1}
        target = operand.layout
        found = (self._copy_ns(v, source, target) for source in sources if target is not None and source != target)
        return [ns for ns in found if ns is not None]

    def _copies_out(self, op_id: str, wanted: WantedPlaces) -> list[int]:
        """The time of the copy to DRAM that a kernel spares, if there can be one."""
        v = self._graph.op(op_id).outputs[0]
        if v not in self._homes or wanted.result not in {home.layout for home in self._homes[v] if home.in_dram}:
            return []
        copy = self._copy_ns(v, wanted.result, self._pricer.default_layout(self._graph.value(v)))
        return [] if copy is None else [copy]

    def _layouts(self, v: str) -> list[TensorLayout]:
        """Where a value may lie."""
        if v not in self._homes:
            return [self._pricer.default_layout(self._graph.value(v))]
        return list(dict.fromkeys(home.layout for home in self._homes[v]))

    # -- tables ------------------------------------------------------------------------------------------------
    def beside(self, node: KernelNode, op_id: str) -> Table:
        """Costs of a node's options with an op's ways: those it forbids, and what it saves less of the faster ones."""
        position = node.group.index(op_id)
        wanted = tuple(offer.wanted[position] for offer in node.offers)
        key = ("beside", id(self._ways[op_id]), wanted)
        if key not in self._tables_known:
            self._tables_known[key] = np.stack([self._row(op_id, places) for places in (None, *wanted)])
        return self._tables_known[key]

    def _row(self, op_id: str, wanted: WantedPlaces | None) -> Table:
        times = _times(self._ways[op_id])
        if wanted is None:
            return np.zeros_like(times)
        at_home = self._at_home(op_id, wanted)
        return np.where(at_home, int(times[at_home].max()) - times, FORBIDDEN)

    def fetching(self, node: KernelNode, v: str, reader: int, k: int) -> Table:
        """Costs of a node's options with a value's homes, of which operand `k` of an op of the group is brought."""
        op_id = node.group[reader]
        wanted = tuple(offer.wanted[reader] for offer in node.offers)
        value = self._graph.value(v)
        key = ("fetching", id(self._ways[op_id]), id(self._homes[v]), k, value.shape, value.dtype, wanted)
        if key not in self._tables_known:
            rows = [self._home_row(op_id, v, k, places) for places in (None, *wanted)]
            self._tables_known[key] = np.asarray(rows, dtype=np.int64)
        return self._tables_known[key]

    def _home_row(self, op_id: str, v: str, k: int, wanted: WantedPlaces | None) -> list[int]:
        homes, operand = self._homes[v], None if wanted is None else wanted.operands[k]
        if wanted is None or operand is None or operand.source is None or not operand.copied:
            return [0] * len(homes)
        longest = max(self._copies(op_id, k, wanted))
        row = []
        for home in homes:
            from_there, target = home.layout.is_l1 is operand.source.is_l1, operand.layout
            copy = None if target is None else self._copy_ns(v, home.layout, target)
            possible = from_there and home.layout != target and copy is not None
            row.append(longest - copy if possible and copy is not None else FORBIDDEN)
        return row

    def taking(self, node: KernelNode, v: str, maker: int) -> Table:
        """Costs of a node's options with a value's homes, of which a kernel writes the copy in DRAM."""
        rows = (tuple(self._taken_row(node.group, offer, v, maker)) for offer in node.offers)
        found = ((0,) * len(self._homes[v]), *rows)
        return self._tables_known.setdefault(("taking", found), np.asarray(found, dtype=np.int64))

    def _taken_row(self, group: Sequence[str], offer: KernelOffer, v: str, maker: int) -> Iterator[int]:
        """Forbidden are homes without that copy, and those where ops outside the kernel read the value itself."""
        wanted = offer.wanted[maker]
        inside = {op_id for op_id, places in zip(group, offer.wanted, strict=True) if places is not None}
        for home in self._homes[v]:
            if wanted is None or not wanted.taken:
                yield 0
            else:
                right = home.in_dram and home.layout == wanted.result
                yield 0 if right and inside.issuperset(self._readers(v)[: home.last]) else FORBIDDEN

    def _at_home(self, op_id: str, wanted: WantedPlaces) -> Mask:
        """Which ways of an op have its tensors where a kernel wants them, and write into none of them."""
        key = (id(self._ways[op_id]), wanted)
        if key not in self._masks_known:
            found = [_lies_right(way, wanted) for way in self._ways[op_id]]
            self._masks_known[key] = np.asarray(found, dtype=np.bool_)
        return self._masks_known[key]

    # -- memory ------------------------------------------------------------------------------------------------
    def usages(self, node: KernelNode, step: Mapping[str, int]) -> tuple[tuple[Usage, ...], ...]:
        """Of a node's options: the circular buffers of a kernel, as far as they take more than its last op does."""
        found: list[tuple[Usage, ...]] = [()]
        for offer in node.offers:
            members = [(op_id, w) for op_id, w in zip(node.group, offer.wanted, strict=True) if w is not None]
            op_id, wanted = members[-1]
            at_home = self._at_home(op_id, wanted)
            ways = (way for way, possible in zip(self._ways[op_id], at_home, strict=True) if possible)
            size = offer.buffer_bytes - max(self._spared_bytes(op_id, way) for way in ways)
            run = 2 * step[op_id] + 1
            found.append((Usage(run, run, size),) if size > 0 else ())
        return tuple(found)

    def _spared_bytes(self, op_id: str, way: Way) -> int:
        """L1 that an op takes while it runs, but not as part of a kernel: copies, temporaries, circular buffers."""
        op, option = self._graph.op(op_id), way.option
        size = self._pricer.value_bytes
        copies = sum(size(op.inputs[k], option.operands[k]) for k in way.copied)
        return copies + option.peak_bytes - size(op.outputs[0], option.candidate.output)

    # -- offers ------------------------------------------------------------------------------------------------
    def _offers(self, group: tuple[str, ...], asked: Sequence[str]) -> tuple[KernelOffer, ...]:
        """The kernels of a group; groups that are alike have the same."""
        homes = _homes([self._ways[op_id] for op_id in group])
        sources = tuple(
            tuple(self._sources(op_id, k) for k in range(len(self._graph.op(op_id).inputs))) for op_id in group
        )
        ways = tuple(id(self._ways[op_id]) for op_id in group)
        key = (tuple(asked), _joints(self._graph, group), ways, homes, sources)
        if key not in self._offers_known:
            of_use = partial(self._is_of_use, group)
            self._offers_known[key] = self._kernels.offers(group, homes, sources, of_use)
        return self._offers_known[key]

    def _sources(self, op_id: str, k: int) -> tuple[TensorLayout, ...]:
        """Of the places where an operand may lie one in DRAM, and of those in L1 the one that is spread widest; of a
        weight the shards as well, which may lie on the cores that read them."""
        v = self._graph.op(op_id).inputs[k]
        read = dict.fromkeys(way.option.operands[k] for way in self._ways[op_id])
        layouts = list(read) if self._pricer.is_weight(v) else self._layouts(v)
        in_dram = [layout for layout in layouts if layout.is_dram and not layout.is_over_banks][:1]
        in_l1 = sorted((x for x in layouts if x.is_l1), key=lambda x: (x.is_sharded, -x.num_shard_cores, x.describe()))
        shards = [x for x in in_l1[1:] if x.is_sharded and self._pricer.is_weight(v)]
        return (*in_dram, *in_l1[:1], *shards)


def _times(ways: Ways) -> Table:
    return np.asarray([way.option.time_ns for way in ways], dtype=np.int64)


def _with_operand(places: WantedPlaces, k: int, operand: WantedOperand) -> WantedPlaces:
    return replace(places, operands=(*places.operands[:k], operand, *places.operands[k + 1 :]))


def _lies_right(way: Way, wanted: WantedPlaces) -> bool:
    option = way.option
    if overwritten_operand(option.candidate.config) is not None:
        return False
    if wanted.result is not None and option.candidate.output != wanted.result:
        return False
    return all(_is_read_so(way, k, operand) for k, operand in enumerate(wanted.operands))


def _is_read_so(way: Way, k: int, operand: WantedOperand) -> bool:
    layout = way.option.operands[k]
    if layout.is_over_banks:
        return False
    if operand.source is not None:
        if operand.copied is not (k in way.copied):
            return False
        if not operand.copied:
            return layout.is_l1 is operand.source.is_l1
    return operand.layout is None or layout == operand.layout


def _homes(ways: Sequence[Ways]) -> tuple[TensorLayout, ...]:
    """Shardings in L1 that some op gives or reads, those on most cores first."""
    distinct = {id(row): row for row in ways}
    found = {x for row in distinct.values() for w in row for x in (*w.option.operands, w.option.candidate.output)}
    sharded = [layout for layout in found if layout.is_l1 and layout.is_sharded]
    return tuple(sorted(sharded, key=lambda layout: (-layout.num_shard_cores, layout.describe())))


def _joints(graph: Graph, group: Sequence[str]) -> tuple[tuple[tuple[int, ...], bool], ...]:
    """How ops of a group are joined: per op the numbers of the values it reads, and whether others read its result."""
    number: dict[str, int] = {}
    found = []
    for op_id in group:
        op = graph.op(op_id)
        reads = tuple(number.setdefault(v, len(number)) for v in op.inputs)
        number.update({v: len(number) + n for n, v in enumerate(op.outputs)})
        readers = {reader.id for v in op.outputs for reader in graph.consumers(v)}
        outside = any(map(graph.is_output, op.outputs)) or not readers <= set(group)
        found.append((reads, outside))
    return tuple(found)
