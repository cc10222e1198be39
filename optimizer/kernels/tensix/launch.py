"""A program compiled, and what the host hands to the device with its C++, as data: the one description that manifests,
launchers and the programs with fused kernels are written from.

The files that run on a core are the same on all of them: a core finds its tiles from its coordinates, and what else it
has to know is a run-time argument. Compile-time arguments are where the tensors' pages lie (`TensorAccessorArgs`),
common run-time arguments their addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.device import DeviceSpec
from optimizer.errors import LimitError
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix.buffers import backing
from optimizer.kernels.tensix.compute_config import ComputeConfig, compute_config
from optimizer.kernels.tensix.emit_cpp import KernelSource, emit_program, runtime_args, semaphores
from optimizer.kernels.tensix.grid import hardware_grid
from optimizer.kernels.tensix.ir import Op, walk
from optimizer.kernels.tensix.pipeline import KernelOptions, Observer, lower
from optimizer.kernels.tensix.types import TILE, CircularBufferType, TensorType
from optimizer.layouts.memory_config import DRAM_TILE, CoreRange, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import sharded_layout

_IN_DRAM = 2
"""tt-metal's `tensor_accessor::ArgConfig::IsDram`."""


@dataclass(frozen=True)
class LaunchTensor:
    """An argument of a kernel."""

    argument: str
    """Name of the program's argument."""
    shape: tuple[int, ...]
    """In elements."""
    dtype: DType
    layout: TensorLayout
    written: bool
    """Whether the kernel writes it; it makes such a tensor by itself unless it reads it, too."""
    read: bool


@dataclass(frozen=True)
class LaunchBuffer:
    """A circular buffer."""

    index: int
    dtype: DType
    pages: int
    """Tiles that it holds."""
    tensor: str | None
    """Argument whose shard it lies in."""

    @property
    def page_bytes(self) -> int:
        return self.dtype.tile_bytes

    @property
    def total_bytes(self) -> int:
        return self.pages * self.page_bytes


@dataclass(frozen=True)
class LaunchThread:
    """One C++ file."""

    kind: str
    """`compute`, `reader` or `writer`."""
    tensors: tuple[str, ...]
    """Arguments whose pages it knows at compile time, and whose addresses are its common run-time arguments."""

    @property
    def file(self) -> str:
        return f"{self.kind}.cpp"


@dataclass(frozen=True)
class Launch:
    """A kernel ready to be launched."""

    name: str
    arch: str
    cores: tuple[CoreRange, ...]
    tensors: tuple[LaunchTensor, ...]
    buffers: tuple[LaunchBuffer, ...]
    threads: tuple[LaunchThread, ...]
    config: ComputeConfig
    semaphores: tuple[int, ...] = ()
    """Value that each has when the kernel begins, by its number."""
    runtime_args: tuple[str, ...] = ()
    """Names of the numbers that every core is given, in the order in which all its threads have them."""

    @property
    def inputs(self) -> tuple[LaunchTensor, ...]:
        return tuple(t for t in self.tensors if t.read)

    @property
    def outputs(self) -> tuple[LaunchTensor, ...]:
        return tuple(t for t in self.tensors if t.written)

    def compile_time_args(self, thread: LaunchThread) -> list[int] | None:
        """What `TensorAccessorArgs` of its tensors give: two numbers for one that is interleaved. None where one is
        sharded: which cores hold it only a device knows."""
        known = {tensor.argument: tensor for tensor in self.tensors}
        found: list[int] = []
        for tensor in (known[name] for name in thread.tensors):
            if tensor.layout.is_sharded:
                return None
            found += [_IN_DRAM if tensor.layout.is_dram else 0, tensor.dtype.tile_bytes]
        return found

    @property
    def core_count(self) -> int:
        return sum((x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in self.cores)

    @property
    def l1_bytes(self) -> int:
        """What the circular buffers of a core take beside tensors."""
        return sum(b.total_bytes for b in self.buffers if b.tensor is None)


def launch_on(
    name: str,
    lowered: Op,
    sources: Sequence[KernelSource],
    cores: tuple[CoreRange, ...],
    tensors: tuple[LaunchTensor, ...],
    arch: str,
) -> Launch:
    """The launch of a lowered program on these cores and tensors."""
    threads = tuple(LaunchThread(source.kind, source.tensors) for source in sources)
    numbers = tuple(semaphores(lowered).values())
    config = compute_config(lowered, arch)
    return Launch(name, arch, cores, tensors, _buffers(lowered), threads, config, numbers, runtime_args(lowered))


def launch_of(program: Op, lowered: Op, sources: Sequence[KernelSource], board: DeviceSpec) -> Launch:
    """The launch of a program on the grid that it states, from the core that it states on.

    Tensors lie in DRAM; one that backs a circular buffer is block-sharded, a shard of its type on every core.
    LimitError if the board has no such grid.
    """
    left, top, right, bottom = _cores(program, board)
    tensors = tuple(_tensors(program, (bottom - top + 1, right - left + 1), board))
    name = program.string("sym_name")
    return launch_on(name, lowered, sources, ((left, top, right, bottom),), tensors, board.arch)


def _cores(program: Op, board: DeviceSpec) -> CoreRange:
    """First and last column and row of cores."""
    columns, rows = hardware_grid(program.integers("grid"))
    left, top = program.integers("origin", (0, 0))
    most_rows, most_columns = board.grid_yx
    if top + rows > most_rows or left + columns > most_columns:
        begins = f" from core ({left}, {top}) on" if left or top else ""
        message = f"a grid of {columns} x {rows} cores (columns, rows){begins}; '{board.name}' has {most_columns} x "
        place = f"{program.name} @{program.string('sym_name')}"
        raise LimitError(f"{message}{most_rows}", node=place, limit=board.num_cores)
    return left, top, left + columns - 1, top + rows - 1


def _tensors(program: Op, grid_yx: tuple[int, int], board: DeviceSpec) -> list[LaunchTensor]:
    """Every argument that a thread moves or a circular buffer lies in, inputs first."""
    ops = list(walk(program))
    backed = {tensor: cb for cb, tensor in backing(program).items()}
    pushed = _pushed_by_compute(program)
    read = {op.operands[0].name for op in ops if op.name == "ttl.copy_in"}
    written = {op.operands[1].name for op in ops if op.name == "ttl.copy_out"}
    read |= {tensor for tensor, cb in backed.items() if cb not in pushed}
    written |= {tensor for tensor, cb in backed.items() if cb in pushed}
    found = []
    for v in program.body.args:
        if v.name not in read | written:
            continue
        tensor = v.typed(TensorType)
        rows, columns = (n * TILE for n in tensor.shape)
        layout, shape = DRAM_TILE, (rows, columns)
        if v.name in backed:
            shape = (rows * grid_yx[0], columns * grid_yx[1])
            layout = sharded_layout(shape, TensorMemoryLayout.BLOCK_SHARDED, grid_yx, board)
        found.append(LaunchTensor(v.name, shape, tensor.dtype, layout, v.name in written, v.name in read))
    return sorted(found, key=lambda tensor: not tensor.read)


def _pushed_by_compute(program: Op) -> set[str]:
    threads = (op for op in program.body.ops if op.name == "ttl.compute_thread")
    return {op.operands[0].name for thread in threads for op in walk(thread) if op.name == "ttl.cb_push"}


def _buffers(lowered: Op) -> tuple[LaunchBuffer, ...]:
    """In the order of the program."""
    found = []
    for op in lowered.body.ops:
        if op.name == "ttl.bind_cb":
            cb = op.result.typed(CircularBufferType)
            tensor = op.string("tensor") if op.has_attr("tensor") else None
            found.append(LaunchBuffer(op.integer("index"), cb.dtype, cb.block.tiles * cb.block_count, tensor))
    return tuple(found)


# -- a program compiled -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class BuiltKernel:
    """One program and everything that was made of it."""

    program: Op
    """As given."""
    options: KernelOptions
    lowered: Op
    """As calls of the kernel API."""
    sources: tuple[KernelSource, ...]
    launch: Launch


def build(program: Op, options: KernelOptions, observe: Observer | None = None) -> BuiltKernel:
    """Compile a program. GraphError, LimitError or InfeasibleError if that cannot be, or the board has no such grid."""
    lowered = lower(program, options, observe)
    sources = emit_program(lowered)
    launch = launch_of(program, lowered, sources, options.board)
    return BuiltKernel(program, options, lowered, sources, launch)
