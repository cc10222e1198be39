"""Tensors over buffers that can be freed, and the machine that keeps count of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ttnn_standin.errors import Refused, Unmodelled, UseAfterFree
from ttnn_standin.placement import check_placement
from ttnn_standin.signatures import RECORD, bound
from ttnn_standin.values import (
    BFLOAT16,
    BLOCK_FLOATS,
    FLOATS,
    INTEGERS,
    ROW_MAJOR,
    TILE,
    BufferType,
    Member,
    Value,
)

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Buffer:
    """Elements in memory, which several tensors may share."""

    values: Array
    where: str
    """`dram`, `l1` or `host`."""
    made_by: str
    within: Buffer | None = None
    """The buffer whose memory these elements take, where a result of another size stays in its operand's tiles."""
    padding: float | None = None
    """What its tiles hold beyond the elements, where an op has filled that."""
    _freed_by: str | None = None

    @property
    def freed_by(self) -> str | None:
        """The op that freed the memory; None: nobody did."""
        return self._freed_by if self.within is None else self.within.freed_by

    def free(self, op: str) -> None:
        """Give the memory back; a second time does nothing."""
        owner = self if self.within is None else self.within
        if owner._freed_by is None:
            owner._freed_by = op


@dataclass(eq=False)
class Device:
    """An open device."""

    board: str
    grid_xy: tuple[int, int]
    queues: Any
    open: bool = True

    def enable_program_cache(self) -> None:
        """It always is."""

    def num_program_cache_entries(self) -> int:
        """How many different programs were compiled."""
        return len(self.queues.compiled)

    def arch(self) -> Member:
        """The architecture, as `ttnn.init_device_compute_kernel_config` wants it."""
        from ttnn_standin.values import ENUMS

        arch: Member = ENUMS["Arch"].BLACKHOLE if self.board.startswith("p") else ENUMS["Arch"].WORMHOLE_B0
        return arch


@dataclass
class Machine:
    """What a program runs on, and how exactly."""

    board: str
    grid_xy: tuple[int, int]
    real: Any = np.float32
    """numpy type of floating elements."""
    rounding: bool = False
    """Whether every result in bfloat16 is rounded to it; else floats keep all digits of `real`."""
    aliasing: bool = True
    """Whether ops that have nothing to do hand back their operand, where TTNN may do either."""
    buffers: list[Buffer] = field(default_factory=list)
    """All device buffers ever made."""
    op: str = "?"
    """The call under way."""
    queues: Any = None
    """`queues.Queues`, which order what is done."""
    replaying: bool = False
    """Whether a trace is computed again: its ops read what was freed after them."""

    def live(self) -> list[Buffer]:
        """Device buffers that nobody freed."""
        return [b for b in self.buffers if b.freed_by is None]

    def stored(self, values: Array, dtype: Member) -> Array:
        """Elements as a tensor of this type holds them; Refused for integers outside its range."""
        if dtype in FLOATS:
            kept = np.asarray(values).astype(self.real, copy=False)
            if self.rounding and dtype in BLOCK_FLOATS:
                raise Unmodelled(f"rounding to {dtype}")
            return to_bfloat16(kept) if self.rounding and dtype == BFLOAT16 else kept
        if dtype not in INTEGERS:
            raise Unmodelled(f"elements of type {dtype}")
        least, most = INTEGERS[dtype]
        kept = np.asarray(values)
        if kept.size and not (np.isfinite(kept).all() and least <= kept.min() and kept.max() <= most):
            raise Refused(f"ttnn.{self.op}: {kept.min()} to {kept.max()} are no {dtype}")
        if kept.dtype.kind == "f" and (kept != np.trunc(kept)).any():
            raise Refused(f"ttnn.{self.op}: fractions in {dtype}")
        return kept.astype(np.int64, copy=False)


def to_bfloat16(values: Array) -> Array:
    """Float32 rounded to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    made = rounded.view(np.float32)
    return np.where(np.isnan(values), np.float32(np.nan), made).astype(values.dtype, copy=False)


class Tensor:
    """A tensor; `Standin.Tensor` is a subclass that knows its machine, for the constructors."""

    machine: Machine
    shape: tuple[int, ...]
    dtype: Member
    layout: Member
    memory: Value | None
    buffer: Buffer
    pending: tuple[int, int] | None = None
    """Of a host tensor that a queue is still writing: the queue, and where in it that ends."""
    prepared: Any = None
    """What `ttnn.prepare_conv_...` was asked for: such a tensor is only for that convolution."""

    def __init__(self, *positional: Any, **named: Any) -> None:
        a = bound("Tensor", RECORD["types"]["Tensor"], positional, named)
        if "tensor" in a:
            array = np.asarray(a["tensor"])
            dtype = a["data_type"]
            if array.dtype not in (np.float32, np.int32, np.uint32, np.uint16, np.uint8) or not array.flags.writeable:
                raise Refused(f"ttnn.Tensor takes no array of {array.dtype}, writeable: {array.flags.writeable}")
            values, shape, memory = array, array.shape, a["mem_config"]
            if memory is not None and memory.is_sharded() and memory.buffer_type == BufferType.DRAM:
                raise Refused("ttnn.Tensor: parse_py_tensor: ndarray_import failed")
            layout = a["layout"] or ROW_MAJOR
        else:
            values, shape, dtype, layout = np.asarray(a["data"]), tuple(a["shape"]), a["data_type"], a["layout"]
            memory = a.get("memory_config")
            if values.size != prod(shape):
                raise Refused(f"ttnn.Tensor: {values.size} elements for {shape}")
        device = a.get("device")
        if (device is None) != (memory is None):
            raise Refused("ttnn.Tensor: a device and a memory config go together")
        if dtype is None:
            raise Refused("ttnn.Tensor: no element type")
        if dtype in FLOATS and values.dtype.kind not in "fiu":
            raise Refused(f"ttnn.Tensor: {values.dtype} elements for {dtype}")
        if dtype in INTEGERS and values.dtype.kind == "f":
            raise Refused(f"ttnn.Tensor: {values.dtype} elements for {dtype}")
        self.machine.op = "Tensor"
        _fill(self, self.machine, values.reshape(shape), dtype, layout, memory)
        if memory is not None:
            self.machine.queues.written(self)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def on_device(self) -> bool:
        return self.memory is not None

    @property
    def in_l1(self) -> bool:
        return self.memory is not None and self.memory.buffer_type == BufferType.L1

    def memory_config(self) -> Value:
        """The memory config, which only device tensors have."""
        if self.memory is None:
            raise Refused("a host tensor has no memory config")
        return self.memory

    def read(self) -> Array:
        """The elements. UseAfterFree when the buffer is freed."""
        if self.prepared is not None:
            raise Refused(f"ttnn.{self.machine.op} reads a weight that was prepared for a convolution")
        return self.raw()

    def raw(self) -> Array:
        """The elements, of prepared weights too."""
        self.machine.queues.complete(self)
        if self.buffer.freed_by is not None and not self.machine.replaying:
            raise UseAfterFree(
                f"ttnn.{self.machine.op} reads what ttnn.{self.buffer.made_by} made and "
                f"ttnn.{self.buffer.freed_by} freed, of shape {self.shape}"
            )
        return self.buffer.values.reshape(self.shape)

    def storage_type(self) -> str:
        """`host` or `device`."""
        return "device" if self.on_device else "host"

    def to_numpy(self) -> Array:
        """The elements of a host tensor in rows."""
        if self.on_device or self.layout != ROW_MAJOR:
            raise Refused("to_numpy: a tensor on the device, or in tiles")
        return self.read()

    def buffer_address(self) -> int:
        """Where it lies: no two buffers ever have the same place here."""
        owner = self.buffer.within or self.buffer
        return next(k for k, buffer in enumerate(self.machine.buffers) if buffer is owner)

    def to(self, device: Device, memory_config: Value) -> Tensor:
        """A copy on the device."""
        if self.on_device or not device.open:
            raise Refused("to: from the host to an open device")
        self.machine.op = "to"
        made = self._with(self.read().copy(), memory_config)
        self.machine.queues.written(made)
        return made

    def fetched(self) -> Tensor:
        """A copy on the host."""
        self.machine.op = "cpu"
        return self._with(self.read().copy(), None)

    def cpu(self, blocking: bool = True, cq_id: int = 0) -> Tensor:
        """A copy on the host, complete at once or once the host has waited for the queue."""
        made: Tensor = self.machine.queues.read(self, blocking, cq_id)
        return made

    def _with(self, values: Array, memory: Value | None) -> Tensor:
        made: Tensor = object.__new__(type(self))
        _fill(made, self.machine, values, self.dtype, self.layout, memory)
        return made

    def view(self, shape: Sequence[int]) -> Tensor:
        """Another shape of the same buffer."""
        made: Tensor = object.__new__(type(self))
        made.machine, made.shape, made.dtype, made.layout = self.machine, tuple(shape), self.dtype, self.layout
        made.memory, made.buffer = self.memory, self.buffer
        self.read()
        return made

    def inside(self, values: Array) -> Tensor:
        """Other elements of other sizes in the tiles of this tensor, in the same memory."""
        made = self.view(values.shape)
        owner = self.buffer if self.buffer.within is None else self.buffer.within
        made.buffer = Buffer(self.machine.stored(values, self.dtype), owner.where, self.machine.op, owner)
        return made

    def write(self, values: Array) -> Tensor:
        """These elements in the place of the present ones, for all tensors that share the buffer."""
        self.read()
        self.buffer.values = self.machine.stored(np.broadcast_to(values, self.shape), self.dtype)
        return self.view(self.shape)


def _fill(tensor: Tensor, machine: Machine, values: Array, dtype: Member, layout: Member, memory: Value | None) -> None:
    if dtype in BLOCK_FLOATS and layout != TILE:
        raise Refused(f"ttnn.{machine.op}: {dtype} has no row-major form")
    tensor.shape, tensor.dtype, tensor.layout, tensor.memory = tuple(values.shape), dtype, layout, memory
    if any(size < 1 for size in tensor.shape):
        raise Refused(f"ttnn.{machine.op}: shape {tensor.shape}")
    where = "host" if memory is None else "l1" if memory.buffer_type == BufferType.L1 else "dram"
    if memory is not None:
        try:
            check_placement(tensor.shape, layout, memory, machine.grid_xy)
        except Refused as error:
            raise Refused(f"ttnn.{machine.op}: {error}") from None
    tensor.buffer = Buffer(machine.stored(values, dtype), where, machine.op)
    if where != "host":
        machine.buffers.append(tensor.buffer)


Maker = Callable[..., Tensor]


def maker(machine: Machine, kind: type[Tensor]) -> Maker:
    """A function that makes tensors of the given class, of elements, type, page layout and memory config."""

    def make(values: Array, dtype: Member, layout: Member, memory: Value | None) -> Tensor:
        tensor: Tensor = object.__new__(kind)
        _fill(tensor, machine, np.asarray(values), dtype, layout, memory)
        return tensor

    return make
