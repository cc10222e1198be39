"""Our kernels that ops could be if their tensors lay right: what each wants of them, and what it takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, compress, product

from optimizer.fusion.choosing import stretches
from optimizer.fusion.finding import Finder, compiles, groups_anywhere
from optimizer.fusion.grouping import Group
from optimizer.fusion.lowering import lowered, program_of
from optimizer.fusion.placement import Home, Kind
from optimizer.fusion.schedule import buffer_bytes
from optimizer.fusion.timing import cost_of
from optimizer.ir.graph import STATIC, Graph, Op
from optimizer.ir.vocabulary import COPY
from optimizer.layouts.memory_config import TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import sharded_layout
from optimizer.result import OptimizedGraph

MOST_BROUGHT = 2
"""Operands that a kernel gets from elsewhere, of those that may lie on its cores."""
_READ_BY_ALL = (Kind.RIGHT, Kind.ROW, Kind.SCALAR)
"""Parts of a frame that never lie on the cores of a kernel."""


@dataclass(frozen=True)
class WantedOperand:
    """Where an operand has to be for one of our kernels."""

    layout: TensorLayout | None = None
    """In which the op reads it, from a copy or not; None: any."""
    source: TensorLayout | None = None
    """Where the kernel gets it from, or a place as fast; None: it is on the kernel's cores, or what all cores read."""
    copied: bool = False
    """Whether the op would read a copy of what the kernel gets from the source, which then is not made."""


@dataclass(frozen=True)
class WantedPlaces:
    """Where the tensors of an op have to be for one of our kernels."""

    operands: tuple[WantedOperand, ...]
    result: TensorLayout | None
    """None: any."""
    taken: bool = False
    """Whether the kernel writes the result's copy in DRAM in place of the result, which then nothing outside reads."""


Wanted = tuple[WantedPlaces | None, ...]
"""Per op of a group; None: it is not in the kernel."""


@dataclass(frozen=True)
class KernelOffer:
    """One of our kernels that ops of a group could be, if their tensors lay as it wants them."""

    wanted: Wanted
    time_ns: int
    buffer_bytes: int
    """L1 per core of its circular buffers that lie in no tensor."""


Sources = tuple[tuple[tuple[TensorLayout, ...], ...], ...]
"""Per op and operand, layouts that it may be copied from: one for all that take as long."""


class Kernels[PlanT]:
    """What our kernels would make of plans for one graph."""

    def __init__(
        self,
        graph: Graph,
        in_dram: Callable[[], OptimizedGraph],
        saved_ns: Callable[[PlanT], int],
        poll: Callable[[], None],
    ) -> None:
        """`in_dram` writes the graph with everything in DRAM; `saved_ns` tells what a plan takes less with the
        kernels that pay; `poll` may end the run."""
        self._graph, self._write_in_dram, self._poll = graph, in_dram, poll
        self.saved_ns = saved_ns

    @cached_property
    def _in_dram(self) -> OptimizedGraph:
        return self._write_in_dram()

    @cached_property
    def _finder(self) -> Finder:
        return Finder(self._in_dram)

    @cached_property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Ops, in schedule order, that one kernel could run if their tensors lay right; no op is in two groups."""
        graph = self._graph
        found = groups_anywhere(self._in_dram)
        own = (tuple(op_id for op_id in group if graph.has_op(op_id)) for group in found)  # not that plan's copies
        return tuple(group for group in own if any(graph.op(op_id).op != COPY for op_id in group))

    def offers(
        self,
        group: tuple[str, ...],
        homes: Sequence[TensorLayout],
        sources: Sources,
        of_use: Callable[[Wanted], bool],
    ) -> tuple[KernelOffer, ...]:
        """Kernels for a group and for parts of it, with the tensors of their frame in one of these layouts each.

        Only those that are `of_use` are priced.

        Operands of that shape, and left ones of products, lie there too, or the kernel gets at most `MOST_BROUGHT` of
        them from where they are. Rows and numbers are in DRAM.
        """
        ops = [self._in_dram.graph.op(op_id) for op_id in group]
        found: list[KernelOffer] = []
        for members in stretches(ops, least=1):
            framed = self._finder.frame_of_group(members)
            homes_of = () if framed is None else [h for x in homes if (h := Home.of(x, framed.shape))]
            for home in homes_of:
                assert framed is not None
                self._poll()
                found += _Offers(self._in_dram, ops, framed, home, sources, of_use).offers()
        return tuple(found)


class _Offers:
    """Kernels of one stretch of a group at one home."""

    def __init__(
        self,
        result: OptimizedGraph,
        ops: Sequence[Op],
        framed: Group,
        home: Home,
        sources: Sources,
        of_use: Callable[[Wanted], bool],
    ) -> None:
        self._result, self._ops, self._framed, self._home, self._of_use = result, ops, framed, home, of_use
        self._members = {op.id for op in framed.ops}
        self._lying = dict(self._wanted())
        self._sources = {
            v: self._sources_of(v, layouts)
            for op, row in zip(ops, sources, strict=True)
            for v, layouts in zip(op.inputs, row, strict=True)
            if op.id in self._members and v in framed.inputs
        }

    def offers(self) -> list[KernelOffer]:
        """With every choice of operands that the kernel brings, copies or not, and of a result that it takes to DRAM.

        Of a single op only those that spare a copy besides.
        """
        kinds = self._framed.kinds
        readers = Counter(v for op in self._framed.ops for v in op.inputs)
        movable = [v for v in self._framed.inputs if readers[v] == 1 and self._is_movable(v)]
        strays = {v for v, kind in kinds.items() if kind is Kind.LEFT and v not in self._lying}
        weights = [v for v in self._framed.inputs if kinds[v] in _READ_BY_ALL]
        found: list[KernelOffer] = []
        for count in range(min(len(movable), MOST_BROUGHT) + 1):
            for brought in combinations(movable, count):
                if strays.issubset(brought):
                    values = (*weights, *brought)
                    for chosen in product(*(self._sources[v] for v in values)):
                        for taken in (None, *self._takable()):
                            found += self._offers(dict(zip(values, chosen, strict=True)), taken)
        return found

    def _takable(self) -> Iterator[str]:
        """Results that the kernel may write to DRAM."""
        return (v for v in self._framed.outputs if v in self._lying)

    def _wanted(self) -> Iterator[tuple[str, TensorLayout]]:
        """Where the tensors lie if none is brought."""
        group, home = self._framed, self._home.layout
        for v, kind in group.kinds.items():
            value = group.result.graph.value(v)
            if kind is Kind.FULL and value.kind not in STATIC:
                yield v, home
            elif kind is Kind.LEFT and home.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
                page, device = group.result.layouts[v].page_layout, group.result.device
                yield v, sharded_layout(value.shape, home.memory_layout, self._home.grid, device, page)

    def _sources_of(self, v: str, layouts: Sequence[TensorLayout]) -> tuple[TensorLayout, ...]:
        """Where an operand may come from: of several in L1 the first, and those that lie on the kernel's cores."""
        first = next((x for x in layouts if x.is_l1), None)
        return tuple(x for x in layouts if x.is_dram or x == first or self._holds(v, x))

    def _holds(self, v: str, layout: TensorLayout) -> bool:
        group = self._framed
        return self._home.holds(layout, group.kinds[v], group.depths.get(v, 0))

    def _is_movable(self, v: str) -> bool:
        weight = self._result.graph.is_static(v)
        return self._framed.kinds[v] in (Kind.FULL, Kind.LEFT) and not weight

    def _offers(self, brought: Mapping[str, TensorLayout], taken: str | None) -> Iterator[KernelOffer]:
        """Kernels that bring some of their operands, instead of any copies of them, and take a result to DRAM, instead
        of its op or of a copy."""
        in_dram = {} if taken is None else {taken: self._result.layouts[taken]}
        layouts = {**self._result.layouts, **self._lying, **brought, **in_dram}
        offered = [wanted for wanted in self._wanted_with(brought, in_dram) if self._of_use(wanted)]
        if not offered:
            return
        laid = replace(self._framed, result=replace(self._result, layouts=layouts))
        region = laid.at(self._home)
        device = self._result.device
        schemes = () if region is None else laid.schemes(region)
        region = next((scheme for scheme in schemes if compiles(scheme, device)), None)
        if region is None:
            return
        result = laid.result
        program = lowered(program_of(region), result.device)
        time_ns = cost_of(region, program, result.layouts, result.device).time_ns
        for wanted in offered:
            yield KernelOffer(wanted, time_ns, buffer_bytes(program))

    def _wanted_with(
        self, brought: Mapping[str, TensorLayout], in_dram: Mapping[str, TensorLayout]
    ) -> Iterator[Wanted]:
        """What such kernels want: in place of copies, to their cores or from there, or of ops that need none."""
        values = [*(v for v in brought if self._is_movable(v)), *in_dram]
        for flags in product((True, False), repeat=len(values)):
            copied = set(compress(values, flags))
            if len(self._members) + len(copied) > 1:
                operands = {v: self._brought(v, source, v in copied) for v, source in brought.items()}
                results = {v: (x, False) for v, x in {**self._lying, **in_dram}.items()}
                results |= {v: (self._lying[v], True) for v in copied.intersection(in_dram)}
                places = (self._places(op, operands, results) if op.id in self._members else None for op in self._ops)
                yield tuple(places)

    def _brought(self, v: str, source: TensorLayout, copied: bool) -> WantedOperand:
        """An operand that is read from elsewhere, or a weight on the kernel's cores.

        Of the frame's, a copy would be for those cores.
        """
        if not copied and self._holds(v, source):
            return WantedOperand(source)
        target = self._home.layout if copied and self._framed.kinds[v] is Kind.FULL else None
        return WantedOperand(target, source, copied)

    def _places(
        self, op: Op, brought: Mapping[str, WantedOperand], results: Mapping[str, tuple[TensorLayout, bool]]
    ) -> WantedPlaces:
        operands = (brought.get(v, WantedOperand(self._lying.get(v))) for v in op.inputs)
        return WantedPlaces(tuple(operands), *results.get(op.outputs[0], (None, False)))
