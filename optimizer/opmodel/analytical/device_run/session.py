"""One simulated run of an op: tensors in L1, programs, and the peaks tt-metal would report.

The counters follow tt-metal's resource report: circular buffers, dataflow buffers and scratchpads have a peak
each, and a program's buffers stay counted until the next program starts, so while that one's output is
allocated.

Lifetimes decide what coexists in L1, so they are written down. A function with `@scoped` is a function body of
tt-metal: tensors made in it die when it returns, but for those that it returns. `Session.replace` is an assignment
to a name that already holds a tensor, which dies then. A view keeps its buffer: it is returned or replaced as the
tensor that it reads. Operands, and what a caller made, are never freed so.

Room is asked as the run goes, or, of an `endless` one, afterwards: there every tensor fits and `usage` says how many
bytes must be free. Convolutions and pools run so, with tensors of which only the bytes are known (`hold`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from math import prod
from typing import Concatenate

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.l1.allocator import L1Allocator
from optimizer.l1.events import OPERAND, EventLog
from optimizer.layouts.memory_config import BufferType, CoreRange, MemoryConfig, PageLayout, ShardSpec, TensorLayout
from optimizer.layouts.tiling import padded_shape, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need, refuse
from optimizer.opmodel.analytical.derive import reshaped
from optimizer.opmodel.analytical.tensors import BLOCK, WIDTH, dram_bank_bytes, l1_bytes, spec_problem
from optimizer.opmodel.base import Rejection, TensorSpec

Shape = tuple[int, ...]
_ENDLESS = 1 << 40
"""Top of an address space in which every allocation succeeds."""


@dataclass(slots=True, eq=False)
class Buffer:
    """Bytes on every core, or on every DRAM bank when without an address."""

    size: int
    address: int | None
    number: int | None = None
    """Among the buffers that the run made in L1; None of others and of operands."""
    freed: bool = False


@dataclass(slots=True, eq=False)
class Held:
    """A device tensor of the run; views share its buffer. `padded` is tt-metal's padded shape."""

    shape: Shape
    padded: Shape
    dtype: DType
    page: PageLayout
    memory: MemoryConfig
    buffer: Buffer
    known: TensorSpec | None = None
    """What `tensor` gives, where it is at hand."""
    recut: int = 0
    """Bytes of a page as written, when a view cut the shards again."""

    @property
    def is_tile(self) -> bool:
        return self.page is PageLayout.TILE

    @property
    def is_sharded(self) -> bool:
        return self.memory.is_sharded

    @property
    def is_l1(self) -> bool:
        return self.memory.buffer_type is BufferType.L1

    @property
    def spec(self) -> ShardSpec:
        """Shards of the tensor; refused, as tt-metal's access would be, when it has none."""
        found = self.memory.shard_spec
        if found is None:
            refuse("bad optional access: the tensor is not sharded")
        return found

    @property
    def rows(self) -> int:
        """Physical rows: everything but the last padded dim."""
        return prod(self.padded[:-1])

    @property
    def volume(self) -> int:
        return prod(self.padded)

    @property
    def page_bytes(self) -> int:
        """A tile, a row, or the part of a row in one width or block shard."""
        if self.is_tile:
            return self.dtype.tile_bytes
        if self.memory.memory_layout in (WIDTH, BLOCK):
            return self.spec.shape[1] * self.dtype.element_bytes
        return self.padded[-1] * self.dtype.element_bytes

    def tensor(self) -> TensorSpec:
        if self.known is None:
            self.known = TensorSpec(self.shape, self.dtype, TensorLayout(self.page, self.memory))
        return self.known


class Session:
    """L1 and the counters while an op runs on otherwise empty cores."""

    def __init__(self, case: Case, endless: bool = False) -> None:
        self.device: DeviceSpec = case.device
        self.small_bytes = case.l1_small_bytes
        self.endless = endless
        self.bank = _ENDLESS if endless else case.device.l1_bank_bytes(case.l1_small_bytes)
        self.l1 = L1Allocator(0, self.bank, 1 if endless else case.device.l1_buffer_alignment_bytes)
        """Addresses count from where circular buffers start."""
        self.live: list[Buffer] = []
        """Of the tensors made in this run, in the order they were made."""
        self._mark = 0
        """How many of those were made before the function that is running began."""
        self.tensors = 0
        self.in_dram = 0
        """Bytes of the tensors in DRAM, per bank."""
        self.program = 0
        self.peak_tensors = 0
        self.peak_total = 0
        self.peaks = [0, 0, 0]
        """Peak of circular buffers, dataflow buffers and scratchpads."""
        self.small_peak = 0
        """Most bytes in L1_SMALL at once."""
        self.ran = 0
        """Programs so far."""
        self._deepest = 0
        """Most bytes in use at once on one core, from the top of the bank down; followed where that is endless."""
        self.inputs = [self._given(t) for t in case.inputs]
        self._operands = self._deepest
        self.log = EventLog()
        self.tensors = self.peak_tensors = self.peak_total = 0

    # -- memory -------------------------------------------------------------------------------------------
    def _given(self, tensor: TensorSpec) -> Held:
        page, memory = tensor.layout.page_layout, tensor.layout.memory
        padded = natural_padding(tensor.shape, page, memory)
        return Held(tensor.shape, padded, tensor.dtype, page, memory, self._place(tensor), tensor)

    def make(
        self, shape: Shape, dtype: DType, page: PageLayout, memory: MemoryConfig, padded: Shape | None = None
    ) -> Held:
        """A new tensor; refused when it cannot exist or does not fit. Padding of one's own is for interleaved ones."""
        natural = natural_padding(shape, page, memory)
        padded = natural if padded is None or memory.is_sharded else padded
        physical = shape if padded == natural else padded
        tensor = TensorSpec(physical, dtype, TensorLayout(page, memory))
        known = tensor if physical is shape else None
        buffer = self._place(tensor)
        if buffer.address is not None:
            buffer.number = self.log.made(buffer.size)
        self.live.append(buffer)
        return Held(shape, padded, dtype, page, memory, buffer, known)

    def hold(self, size: int) -> Buffer:
        """A new tensor in L1 of which only the bytes are known."""
        buffer = self._allocate(size) if size else Buffer(0, None)
        buffer.number = self.log.made(size)
        self.live.append(buffer)
        return buffer

    def move(self, buffer: Buffer) -> Buffer:
        """`ttnn.move`: freed and allocated again, higher up where there is room."""
        self.end(buffer)
        return self.hold(buffer.size)

    def _place(self, tensor: TensorSpec) -> Buffer:
        problem = None if self.endless else spec_problem(tensor, self.device)
        if problem is not None:
            refuse(problem)
        if tensor.layout.is_l1:
            return self._allocate(l1_bytes(tensor, self.device))
        return self._allocate_dram(tensor)

    def like(self, held: Held, memory: MemoryConfig, dtype: DType | None = None) -> Held:
        """A new tensor of the same shape and page layout somewhere else."""
        return self.make(held.shape, dtype or held.dtype, held.page, memory)

    def _allocate(self, size: int) -> Buffer:
        address = self.l1.allocate(size)
        if address is None:
            text = f"Out of Memory: Not enough space to allocate {size} B L1 buffer per bank of {self.bank} B"
            refuse(text, Rejection.OOM_L1)
        self.tensors += size
        self._count(self.tensors)
        if self.endless:
            self._deepen(0)
        return Buffer(size, address)

    @property
    def _depth(self) -> int:
        """Distance of the lowest tensor from the top of the bank."""
        lowest = self.l1.lowest_address
        return 0 if lowest is None else self.bank - lowest

    def _deepen(self, program: int) -> None:
        """Raise the bytes in use at once: a program's buffers lie below the lowest tensor."""
        self._deepest = max(self._deepest, self._depth + program)

    @property
    def room(self) -> int:
        """Bytes that must be free beside the operands, of an endless run; 0 of one that asked as it went."""
        return self._deepest - self._operands if self.endless else 0

    def _count(self, tensors: int) -> None:
        """Raise the peaks to so many bytes of tensors in L1 beside the program's buffers."""
        if tensors > self.peak_tensors:
            self.peak_tensors = tensors
        if tensors + self.program > self.peak_total:
            self.peak_total = tensors + self.program

    def _allocate_dram(self, tensor: TensorSpec) -> Buffer:
        """Counted only: fragments of DRAM are not followed."""
        size, most = dram_bank_bytes(tensor, self.device), self.device.dram_bank_bytes
        if self.in_dram + size > most:
            text = f"Out of Memory: Not enough space to allocate {size} B DRAM buffer per bank of {most} B"
            refuse(text, Rejection.OOM_DRAM)
        self.in_dram += size
        return Buffer(size, None)

    def free_l1(self) -> int:
        """`get_max_l1_space`: bytes between where circular buffers start and the lowest tensor in L1."""
        lowest = self.l1.lowest_address
        return self.device.cb_limit_bytes if lowest is None else lowest

    # -- lifetimes ----------------------------------------------------------------------------------------
    def free(self, held: Held) -> None:
        """End a tensor and its views. StateError unless the function that is running made it."""
        if not self.made(held.buffer):
            raise StateError(f"a tensor {held.shape} is freed that is gone, or that the caller made")
        self.end(held.buffer)

    def end(self, buffer: Buffer) -> None:
        """End a tensor, whoever made it: an operand, or the caller's own. StateError if it is gone already."""
        if buffer.freed:
            raise StateError(f"a tensor of {buffer.size} B is freed that is gone")
        if buffer in self.live:
            self._mark -= not self.made(buffer)
            self.live.remove(buffer)
        self._release(buffer)

    def replace(self, old: Held, new: Held) -> Held:
        """`new`, which takes the place of `old`: that one is freed unless `new` reads it or the caller made it."""
        if old.buffer.freed:
            raise StateError(f"a tensor {old.shape} is replaced that is gone")
        if new.buffer is not old.buffer and self.made(old.buffer):
            self.free(old)
        return new

    def enter(self) -> int:
        """Begin a function; returns what `leave` asks for."""
        outer, self._mark = self._mark, len(self.live)
        return outer

    def made(self, buffer: Buffer) -> bool:
        """Whether the function that is running made it."""
        return buffer in self.live[self._mark :]

    def leave(self, outer: int, returned: Sequence[Buffer]) -> None:
        """End it: what it made is freed but for what it returns."""
        mark, self._mark = self._mark, outer
        made = self.live[mark:]
        if not made:
            return
        self.live[mark:] = [buffer for buffer in made if buffer in returned]
        for buffer in made:
            if buffer not in returned:
                self._release(buffer)

    def _release(self, buffer: Buffer) -> None:
        buffer.freed = True
        if buffer.address is None:
            self.in_dram -= buffer.size
        else:
            self.l1.free(buffer.address)
            self.tensors -= buffer.size
            self.log.freed(OPERAND if buffer.number is None else buffer.number)

    # -- programs -----------------------------------------------------------------------------------------
    def run(
        self,
        dfb: int = 0,
        scratch: int = 0,
        cb: int = 0,
        per_core: int | None = None,
        ranges: tuple[CoreRange, ...] | None = None,
        small: int = 0,
    ) -> None:
        """A program with so many bytes of buffers per core; `per_core` where they never meet on one core.

        Buffers that borrow a tensor's memory take nothing. `ranges` are the cores when the op takes a shard
        grid as it is: they must be worker cores. `small`: index tensors in L1_SMALL, made just before, which tt-metal
        counts together with the other tensors.
        """
        if ranges is not None:
            rows, columns = self.device.grid_yx
            inside = all(x1 < columns and y1 < rows for _, _, x1, y1 in ranges)
            need(inside, f"WorkUnitSpec targets a node out of bounds of the {columns}x{rows} compute grid")
        self.ran += 1
        if small:
            self._small(small)
        self.program = dfb + scratch + cb
        for index, size in enumerate((cb, dfb, scratch)):
            if size > self.peaks[index]:
                self.peaks[index] = size
        self._count(self.tensors + small)
        together = self.program if per_core is None else per_core
        self.log.ran(together)
        if self.endless:
            self._deepen(together)
        else:
            self._fit(together)

    def _small(self, size: int) -> None:
        if size > self.small_bytes and not self.endless:
            text = f"Out of Memory: {size} B do not fit in the L1_SMALL region of {self.small_bytes} B"
            refuse(text, Rejection.OOM_L1)
        self.small_peak = max(self.small_peak, size)
        self._count(self.tensors + size)

    def _fit(self, size: int) -> None:
        if size > self.device.cb_limit_bytes:
            top = size + self.device.cb_base_bytes
            text = f"Statically allocated circular buffers grow to {top} B beyond {self.device.worker_l1_bytes} B"
            refuse(text, Rejection.CB_TOO_BIG)
        if size > self.free_l1():
            text = f"Statically allocated circular buffers ({size} B) clash with L1 buffers at {self.free_l1()} B"
            refuse(text, Rejection.CB_CLASH)

    def usage(self, *outputs: Held, view: bool = False) -> Usage:
        """What the run took. StateError for a result that is gone."""
        for held in outputs:
            if held.buffer.freed:
                raise StateError(f"a result {held.shape} of the op is freed before its end")
        made = [held.buffer.number for held in outputs]
        cores = 1 if view else self.device.num_cores
        return self.summed(tuple(held.tensor() for held in outputs), cores, *made, view=view)

    def summed(self, outputs: tuple[TensorSpec, ...], cores: int, *made: int | None, view: bool = False) -> Usage:
        """What a run took that gives these tensors, in buffers of these numbers."""
        return Usage(
            outputs, cb=sum(self.peaks), l1=self.peak_tensors, peak=self.peak_total, room=self.room, cores=cores,
            view=view, allocations=self.log.allocations(*made),
        )  # fmt: skip


def scoped[**P, Kept: Held | Sequence[Held] | None](
    function: Callable[Concatenate[Session, P], Kept],
) -> Callable[Concatenate[Session, P], Kept]:
    """The tensors that the function makes and does not return are freed when it returns.

    After a refusal nothing is: the run is over.
    """

    @wraps(function)
    def body(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> Kept:
        outer = session.enter()
        kept = function(session, *args, **kwargs)
        session.leave(outer, _buffers(kept))
        return kept

    return body


def _buffers(held: Held | Sequence[Held] | None) -> list[Buffer]:
    return [held.buffer] if isinstance(held, Held) else [each.buffer for each in held or ()]


def natural_padding(shape: Shape, page: PageLayout, memory: MemoryConfig) -> Shape:
    """Padded shape tt-metal gives a tensor: to tiles, or to the shard width of row-major shards."""
    if page is PageLayout.TILE:
        return padded_shape(shape, page)
    spec = memory.shard_spec
    if spec is None or not shape or spec.shape[1] <= 0:
        return shape
    return (*shape[:-1], round_up(shape[-1], spec.shape[1]))


def view(held: Held, shape: Shape, padded: Shape | None = None) -> Held:
    """The same bytes read as another shape (`ttnn.experimental.view`); refused when shards would be cut again."""
    memory, spec = held.memory, held.memory.shard_spec
    if padded is None:
        padded = padded_shape(shape, held.page)
    if spec is not None and padded[-1:] != held.padded[-1:]:
        need(
            spec.shape[1] == held.padded[-1],
            "Changing the last dimension of a sharded tensor is not supported unless the shard width matches it",
        )
        pages = held.is_tile or held.volume % padded[-1] == 0
        need(pages, f"page size of {padded[-1]} elements must divide the buffer's {held.volume}")
        tall = spec.shape[0] * spec.shape[1] // padded[-1]
        fits = memory.memory_layout is not WIDTH or tall == prod(padded[:-1])
        need(fits, f"Shard height {tall} must match physical height {prod(padded[:-1])} for width sharded")
        memory = MemoryConfig(memory.memory_layout, memory.buffer_type, reshaped(spec, (tall, padded[-1])))
    found = Held(shape, padded, held.dtype, held.page, memory, held.buffer)
    found.recut = held.recut if memory is held.memory else held.page_bytes
    return found
