"""DRAM replayed step by step, while weights are prepared and while the program runs.

The order is that of the emitted program (docs/emitted-program.md): all weights of the model are brought to the board,
ops on weights run, convolution weights are prepared, then a run takes its inputs. Buffers are counted as tt-metal
allocates them: pages dealt out over the banks, the fullest bank counts. What an op of a run allocates in DRAM and frees
again itself is not known, but for weights that a convolution prepares at every call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from optimizer.families.windows.calls import prepared_ahead
from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily, Page
from optimizer.ir.vocabulary import COPY, opdef
from optimizer.layouts.aliases import may_alias
from optimizer.layouts.memory_config import BufferType, PageLayout, TensorLayout, interleaved
from optimizer.layouts.op_config import overwritten_operand
from optimizer.layouts.weight_forms import reshapes_on_host
from optimizer.opmodel.analytical.tensors import dram_bank_bytes
from optimizer.opmodel.analytical.windows.conv_weights import prepared_weights
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.result import Role
from optimizer.verify.subject import DramStep, Error, Subject

PREPARE, RUN = "prepare", "run"
NAMED = 3
"""Tensors that an error names, largest first."""


def fits_the_banks(subject: Subject) -> Iterator[Error]:
    """What lies in DRAM fits its banks at every step, weights and their preparation included."""
    bank = subject.device.dram_bank_bytes
    worst = max(subject.dram_steps, key=lambda step: step.total_bytes, default=None)
    if worst is not None and worst.total_bytes > bank:
        total = subject.device.dram_banks
        named = ", ".join(f"'{v}' {size * total} B" for v, size in worst.largest)
        when = "weights are prepared" if worst.phase == PREPARE else "the program runs"
        yield (
            worst.op,
            f"DRAM does not hold what lies in it while {when}: {worst.total_bytes * total} B of "
            f"{bank * total} B over all banks; the largest: {named}",
        )


class Watch:
    """Told of everything that happens in DRAM, in order; this one listens to nothing.

    Tensors go by their values' ids. What a convolution reads a weight as, prepared once, has a name of its own.
    """

    def prepares(self, op: Op, position: int, name: str, form: TensorSpec) -> None:
        """A convolution reads its operand at this position in a form that is prepared once; told before all else."""

    def run_begins(self) -> None:
        """Weights are prepared, a run takes its inputs next."""

    def made(self, name: str, bank_bytes: int) -> None:
        """A tensor comes to life, with its bytes in the fullest bank."""

    def ran(self, phase: str, op: str) -> None:
        """An op has run; all that it makes is there."""

    def freed(self, name: str) -> None:
        """A tensor is gone."""


def replay(subject: Subject, watch: Watch | None = None) -> list[DramStep]:
    """DRAM per bank at every op on weights, every convolution that weights are prepared for, every op of a run."""
    watch = watch or Watch()
    events = list(_Events(subject, watch).all())
    groups = _groups(events)
    last: dict[str, int] = {}
    for at, event in enumerate(events):
        for name in (*event.reads, *event.makes, *event.stays):
            group = groups.get(name, name)
            last[group] = len(events) if name in event.stays else max(at, last.get(group, 0))
    ending: dict[int, list[str]] = {}
    for event in events:
        for name in event.makes:
            ending.setdefault(last[groups.get(name, name)], []).append(name)
    live: dict[str, int] = {}
    steps = []
    for at, event in enumerate(events):
        if event.phase == RUN and (not at or events[at - 1].phase == PREPARE):
            watch.run_begins()
        for name, size in event.makes.items():
            live[name] = size
            watch.made(name, size)
        if event.op is not None:
            watch.ran(event.phase, event.op)
            largest = sorted(live.items(), key=lambda item: (-item[1], item[0]))[:NAMED]
            steps.append(DramStep(event.phase, event.op, sum(live.values()) + event.passing_bytes, tuple(largest)))
        for name in ending.get(at, ()):
            if live.pop(name, None) is not None:
                watch.freed(name)
    return steps


@dataclass(frozen=True)
class _Event:
    """What one statement of the emitted program does to DRAM; sizes are bytes of the fullest bank."""

    phase: str
    op: str | None
    """None: nothing that a step is reported for."""
    reads: tuple[str, ...] = ()
    makes: Mapping[str, int] = field(default_factory=dict)
    shares: tuple[tuple[str, str], ...] = ()
    """(result, operand) that are freed together, since TTNN gives them one buffer, or may."""
    stays: tuple[str, ...] = ()
    """What is never freed from here on."""
    passing_bytes: int = 0
    """What is made and freed within the statement."""


def _groups(events: list[_Event]) -> dict[str, str]:
    """Name -> the first name of those that are freed together with it."""
    first: dict[str, str] = {}
    for event in events:
        for result, operand in event.shares:
            first[result] = first.get(operand, operand)
    return first


class _Events:
    """The emitted program as far as DRAM goes."""

    def __init__(self, subject: Subject, watch: Watch) -> None:
        self.subject, self.graph, self.watch = subject, subject.graph, watch
        ops = list(self.graph.ops())
        self.once = [op for op in ops if self.graph.is_const_eval(op)]
        self.run = [op for op in ops if not self.graph.is_const_eval(op)]
        self.prepared: dict[tuple[str, OpQuery], str] = {}
        """(value, question of a convolution) -> the first such convolution."""
        self.needed = {v for op in self.run for v in op.inputs}.union(self.graph.outputs)

    def all(self) -> Iterator[_Event]:
        """In the order of the program."""
        weights = [v for v in self.graph.values if self._is_weight(v)]
        sources = [v for v in weights if self.graph.producer(v) is None and self.graph.use_count(v)]
        yield _Event(PREPARE, None, makes=self._sizes(sources, self._made))
        for op in self.once:
            if not self._comes_to_l1(op):
                yield self._weight_event(op)
        convolutions = [(op, list(self._on_host(op))) for op in self.run]
        for op, forms in convolutions:
            made = {name: size for name, size, ahead in forms if ahead}
            if made:
                yield _Event(PREPARE, op.id, makes=made, stays=tuple(made))
        moved = tuple(v for v in weights if self.subject.layout(v).is_l1)
        copied = tuple(op.inputs[0] for op in self.once if self._comes_to_l1(op))
        kept = tuple(v for v in weights if v in self.needed and not self.subject.layout(v).is_l1)
        inputs = tuple(self.graph.inputs)
        yield _Event(PREPARE, None, reads=(*moved, *copied), stays=kept)
        yield _Event(RUN, None, makes=self._sizes(inputs, self.subject.layout), stays=inputs)
        for op, forms in convolutions:
            yield self._run_event(op, sum(size for _, size, ahead in forms if not ahead))

    def _weight_event(self, op: Op) -> _Event:
        """An op on weights: its results, and copies on the way between host and board."""
        shared = self._shared(op, self._made)
        made = self._separate(op, shared, self._made)
        return _Event(PREPARE, op.id, op.inputs, self._sizes(made, self._made), shared, passing_bytes=self._copies(op))

    def _run_event(self, op: Op, passing_bytes: int) -> _Event:
        shared = self._shared(op, self.subject.layout)
        made = self._separate(op, shared, self.subject.layout)
        stays = tuple(v for v in op.outputs if v in self.graph.outputs)
        sizes = self._sizes(made, self.subject.layout)
        return _Event(RUN, op.id, op.inputs, sizes, shared, stays, passing_bytes)

    def _shared(self, op: Op, layout: Callable[[str], TensorLayout]) -> tuple[tuple[str, str], ...]:
        """The result with the operand whose buffer it has."""
        into = overwritten_operand(self.subject.records[op.id].config)
        if into is not None:
            return ((op.outputs[0], op.inputs[into]),)
        if not op.inputs or not may_alias(self.graph, op, layout(op.inputs[0]), layout(op.outputs[0])):
            return ()
        return ((op.outputs[0], op.inputs[0]),)

    def _separate(
        self, op: Op, shared: tuple[tuple[str, str], ...], layout: Callable[[str], TensorLayout]
    ) -> list[str]:
        """Results with a buffer of their own, those that may or may not have one included."""
        certain = overwritten_operand(self.subject.records[op.id].config) is not None
        if shared and not certain:
            x, y = (self.graph.value(v) for v in (op.inputs[0], op.outputs[0]))
            certain = opdef(op.op).is_view(op, x.shape, y.shape, layout(op.inputs[0]).is_tile, x.dtype)
        return list(op.outputs[1:] if shared and certain else op.outputs)

    def _copies(self, op: Op) -> int:
        """Bytes that an op on weights takes besides its results: operands from the host, results on their way there."""
        row = opdef(op.op)
        if row.opaque or reshapes_on_host(self.graph, op):
            return 0
        total = 0
        for k, v in enumerate(op.inputs):
            have, page = self.subject.layout(v), row.required_page(op, k)
            if have.is_host:
                tiled = page is Page.TILE or (page is Page.ANY and have.is_tile)
                total += self._bytes(v, _in_dram(tiled))
        given = self._given(op)
        for v in op.outputs:
            wanted = self._made(v)
            if wanted.is_host or wanted.page_layout is not given.page_layout:
                total += self._bytes(v, given)
            if wanted.is_host and wanted.page_layout is not given.page_layout:
                total += self._bytes(v, _in_dram(wanted.is_tile))
        return total

    def _given(self, op: Op) -> TensorLayout:
        """Where an op on weights leaves its result, before that goes where its readers want it."""
        return _in_dram(opdef(op.op).gives_tiles(op, bool(op.inputs) and self._made(op.inputs[0]).is_tile))

    def _on_host(self, op: Op) -> Iterator[tuple[str, int, bool]]:
        """(name, bytes as the convolution reads it, whether it is prepared ahead) of its operands on the host."""
        if opdef(op.op).config is not ConfigFamily.CONV2D or self.subject.role(op) is Role.HOST:
            return
        query = self.subject.query(op)
        device = self.subject.device
        for k, spec in enumerate(prepared_weights(query, device, self.subject.result.options.l1_small_bytes), start=1):
            if query.inputs[k].layout.is_host:
                first = self.prepared.setdefault((op.inputs[k], query), op.id)  # equal calls are made once
                name, ahead = f"{op.inputs[k]} for {first}", prepared_ahead(query, k)
                if ahead:
                    self.watch.prepares(op, k, name, spec)
                yield name, dram_bank_bytes(spec, device), ahead

    def _comes_to_l1(self, op: Op) -> bool:
        return op.op == COPY and self.subject.layout(op.outputs[0]).is_l1

    def _is_weight(self, value_id: str) -> bool:
        maker = self.graph.producer(value_id)
        return value_id not in self.graph.inputs if maker is None else self.graph.is_const_eval(maker)

    def _made(self, value_id: str) -> TensorLayout:
        """Where a weight is while weights are prepared: those of L1 come there last."""
        layout = self.subject.layout(value_id)
        return _in_dram(layout.is_tile) if layout.is_l1 else layout

    def _sizes(self, values: Iterable[str], layout: Callable[[str], TensorLayout]) -> dict[str, int]:
        sizes = {v: self._bytes(v, layout(v)) for v in values}
        return {v: size for v, size in sizes.items() if size}

    def _bytes(self, value_id: str, layout: TensorLayout) -> int:
        value = self.graph.value(value_id)
        return dram_bank_bytes(TensorSpec(value.shape, value.dtype, layout), self.subject.device)


def _in_dram(tiled: bool) -> TensorLayout:
    return interleaved(BufferType.DRAM, PageLayout.TILE if tiled else PageLayout.ROW_MAJOR)
