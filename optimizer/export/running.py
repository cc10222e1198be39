"""What the emitted program runs, in order: ops of TTNN, and kernels of ours where their ops would run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.ir.graph import Op
from optimizer.result import OptimizedGraph

KERNEL_OP = "ttnn.generic_op"
"""What launches a kernel."""
KERNEL_PROGRAM = "GenericOpDeviceOperation"
"""What tt-metal's profiler calls its program (ttnn 0.81.1)."""


@dataclass(frozen=True)
class KernelRun:
    """A kernel as it stands in `fused_kernels` of a result."""

    name: str
    """Folder of its C++ and function of the emitted program."""
    ops: tuple[Op, ...]
    place: Op
    """The op in whose place it runs."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Results that ops outside read; the others are no tensors any more."""
    cores: int
    circular_buffers: int
    circular_buffer_bytes: int
    """Per core, of those that lie in no tensor."""
    time_ns: int | None
    """None where nothing is predicted of its ops."""
    bound: str
    dram_read_bytes: int
    dram_write_bytes: int

    @property
    def op_ids(self) -> tuple[str, ...]:
        return tuple(op.id for op in self.ops)

    @property
    def anchor(self) -> str:
        return self.place.id

    @property
    def made(self) -> tuple[str, ...]:
        return tuple(v for op in self.ops for v in op.outputs)

    @property
    def vanished(self) -> tuple[str, ...]:
        return tuple(v for v in self.made if v not in self.outputs)

    @property
    def title(self) -> str:
        """The program with the kernel's name."""
        return f"{KERNEL_PROGRAM} ({self.name})"


def kernel_runs(result: OptimizedGraph) -> tuple[KernelRun, ...]:
    """The kernels of a result, by its record of them."""
    return tuple(
        KernelRun(
            name=region["kernel"],
            ops=tuple(map(result.graph.op, region["ops"])),
            place=result.graph.op(region["place"]),
            inputs=tuple(region["inputs"]),
            outputs=tuple(region["outputs"]),
            cores=region["cores"],
            circular_buffers=region["circular_buffers"],
            circular_buffer_bytes=region["circular_buffer_bytes"],
            time_ns=region.get("predicted_ns"),
            bound=region.get("bound") or "",
            dram_read_bytes=region.get("dram_read_bytes") or 0,
            dram_write_bytes=region.get("dram_write_bytes") or 0,
        )
        for region in result.fused_kernels
    )


def as_run(result: OptimizedGraph) -> Iterator[Op | KernelRun]:
    """Every step of a run; what is done to weights only, once, is none."""
    kernels = {kernel.place.id: kernel for kernel in kernel_runs(result)}
    inside = {op.id for kernel in kernels.values() for op in kernel.ops}
    for op in result.graph.ops():
        if op.id in kernels:
            yield kernels[op.id]
        elif op.id not in inside and not result.graph.is_const_eval(op):
            yield op
