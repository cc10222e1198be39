"""The tensors of a run: one row per value, and per weight as a convolution reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optimizer.export.facts import dtype_name, tensor_spec
from optimizer.export.memory.occupancy import Block, DramOccupancy, Occupancy
from optimizer.export.memory.visualizer.captured import DEVICE, L1Tensor
from optimizer.export.memory.visualizer.chunks import Chunk, chunks
from optimizer.export.memory.visualizer.spelling import BUFFER_LAYOUTS, BUFFER_TYPES, memory_config_text, shape_text
from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import TensorLayout
from optimizer.layouts.tiling import l1_bytes_per_core, tensor_bytes
from optimizer.opmodel.analytical.tensors import dram_bank_bytes
from optimizer.opmodel.base import TensorSpec
from optimizer.result import OptimizedGraph

FIRST_DRAM_ADDRESS = 1 << 20
"""Where DRAM addresses start: the allocator's own base is not part of a board, and 0 stands for none in viewers."""


@dataclass
class Tensor:
    """One tensor of the report."""

    number: int
    name: str
    """The value, or what a convolution reads a weight as."""
    spec: TensorSpec
    address: int | None
    """None for what lies on the host, and for what is nowhere before its op runs."""
    producers: list[tuple[int, int]]
    """(operation, output index)."""
    consumers: list[tuple[int, int]]
    """(operation, input index)."""
    deallocated_by: int | None = None


class Tensors:
    """Tensors by name, in the order in which they are first met."""

    def __init__(self, result: OptimizedGraph, l1: Occupancy, dram: DramOccupancy) -> None:
        self._result = result
        self._dram = dram
        self._by_name: dict[str, Tensor] = {}
        self._l1_blocks = dict(l1.weights)
        self._dram_blocks = dict(dram.weights)
        self._forms = dict(dram.prepared.values())
        for op in l1.ops:
            self._l1_blocks |= op.after()
        for blocks in dram.ops.values():
            self._dram_blocks |= blocks

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._by_name.values())

    def operand(self, op: Op, position: int) -> Tensor:
        """What an op reads at a position: a convolution reads its weights in a form that is prepared once."""
        prepared = self._dram.prepared.get((op.id, position))
        return self.named(op.inputs[position] if prepared is None else prepared[0])

    def named(self, name: str) -> Tensor:
        if name not in self._by_name:
            spec = self._spec(name)
            self._by_name[name] = Tensor(len(self._by_name) + 1, name, spec, self._address(name, spec.layout), [], [])
        return self._by_name[name]

    def _spec(self, name: str) -> TensorSpec:
        if name in self._forms:
            return self._forms[name]
        return tensor_spec(self._result, name)

    def _address(self, name: str, layout: TensorLayout) -> int | None:
        if layout.is_l1:
            block = self._l1_blocks.get(self._result.program.homes[name])
            return None if block is None else block.address
        block = self._dram_blocks.get(name)
        return None if block is None else FIRST_DRAM_ADDRESS + block.address

    # -- rows ----------------------------------------------------------------------------------------
    def row(self, tensor: Tensor) -> tuple[object, ...]:
        """Of the table `tensors`."""
        spec = tensor.spec
        layout = spec.layout
        on_device = not layout.is_host
        size = tensor_bytes(spec.shape, spec.dtype, layout.page_layout)
        return (
            tensor.number, shape_text(spec.shape), f"DataType.{dtype_name(spec.dtype)}",
            f"Layout.{layout.page_layout.value.upper()}",
            memory_config_text(layout.memory) if on_device else None, DEVICE if on_device else None, tensor.address,
            BUFFER_TYPES.get(layout.memory.buffer_type), 0, "DEVICE" if on_device else "HOST", size,
        )  # fmt: skip

    def buffer(self, name: str, block: Block) -> tuple[int, int, int, int]:
        """(address, bytes per bank, type, layout) of the buffer of a value, for the table `buffers`."""
        spec = self._spec(name)
        layout = spec.layout
        kind, form = BUFFER_TYPES[layout.memory.buffer_type], BUFFER_LAYOUTS[layout.memory_layout]
        if layout.is_l1:
            device = self._result.device
            return (block.address, l1_bytes_per_core(spec.shape, spec.dtype, layout, device), kind, form)
        return (FIRST_DRAM_ADDRESS + block.address, dram_bank_bytes(spec, self._result.device), kind, form)

    def chunks(self, name: str) -> tuple[Chunk, ...]:
        """The parts of an L1 buffer, core by core."""
        spec = self._spec(name)
        return chunks(spec.shape, spec.dtype, spec.layout, self._result.device)

    def in_l1(self, name: str) -> L1Tensor:
        parts = self.chunks(name)
        memory_layout = self._spec(name).layout.memory_layout
        return L1Tensor(memory_layout.value.upper(), len(parts), parts[0].page_bytes)
