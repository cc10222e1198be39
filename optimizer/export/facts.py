"""Facts of a finished result that several artifacts state: tensors and calls, weights before the first run, the run.

Weights come to L1 last, when nothing else needs room: until then those that go there are in DRAM.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.opdef import Page
from optimizer.ir.vocabulary import CONVERT, COPY, FETCH, SEND, opdef
from optimizer.layouts.memory_config import HOST_ROW_MAJOR, BufferType, PageLayout, TensorLayout, interleaved
from optimizer.layouts.weight_forms import reshapes_on_host
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.pricing import op_query
from optimizer.opmodel.ttnn_calls.text import dtype_text
from optimizer.result import COPIES, OptimizedGraph, Role, attr_to_json

COPY_ROLES = (*COPIES, Role.TRANSFER)
"""Roles of ops that only bring a tensor to another place, for an op of the model."""
MOVES = (*COPY_ROLES, Role.LAYOUT)
"""Those, and what brings a tensor into other pages."""


# -- tensors and ops -----------------------------------------------------------------------------------------
def tensor_spec(result: OptimizedGraph, value_id: str) -> TensorSpec:
    """A value as a run has it."""
    value = result.graph.value(value_id)
    return TensorSpec(value.shape, value.dtype, result.layouts[value_id])


def query_of(result: OptimizedGraph, op: Op) -> OpQuery:
    """The call of an op of the run."""
    record = result.records[op.id]
    return op_query(result.graph, op, [result.layouts[v] for v in op.inputs], record.config, record.request)


def dtype_name(dtype: DType) -> str:
    """An element type as tt-metal's enumeration has it: `BFLOAT8_B`."""
    return dtype_text(dtype).removeprefix("ttnn.").upper()


def place_of(layout: TensorLayout) -> str:
    """Where a tensor lies: `host`, `dram` or `l1 height_sharded`."""
    if layout.is_host:
        return "host"
    return "dram" if layout.is_dram else f"l1 {layout.memory_layout.value}"


def attributes_of(op: Op) -> dict[str, Any]:
    """An op's own attributes as JSON, sorted."""
    return {name: attr_to_json(value) for name, value in sorted(op.attrs.items())}


def model_name(result: OptimizedGraph) -> str:
    """What its model is called."""
    return str(result.model.get("name") or result.graph.name)


def as_text(value: object) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# -- weights -------------------------------------------------------------------------------------------------
Move = tuple[TensorLayout, TensorLayout]
"""Where a tensor is, and where it has to be."""


@dataclass(frozen=True)
class Preparation:
    """What an op on weights does to them, before the first run."""

    last: bool
    """It only brings a weight to L1, when all others have run."""
    operands: tuple[Move, ...]
    """Each from where it is to where the op reads it."""
    results: tuple[Move, ...]
    """Each from where the op leaves it to where it is while weights are prepared."""


def while_prepared(layout: TensorLayout) -> TensorLayout:
    """Where a weight is while weights are prepared."""
    return _in_dram(layout.is_tile) if layout.is_l1 else layout


def given_spec(result: OptimizedGraph, value_id: str) -> TensorSpec:
    """A value as its maker or the caller gives it: of a weight, while weights are prepared."""
    spec = tensor_spec(result, value_id)
    return replace(spec, layout=while_prepared(spec.layout)) if result.graph.is_static(value_id) else spec


def preparation(result: OptimizedGraph, op: Op) -> Preparation:
    """An op on weights reads them in DRAM, and leaves its results there in the page layout that it gives; reshapes of
    weights whose tiles would be mostly padding do so on the host."""
    row, on_host = opdef(op.op), reshapes_on_host(result.graph, op)
    operands = []
    for position, v in enumerate(op.inputs):
        have, page = while_prepared(result.layouts[v]), row.required_page(op, position)
        tiled = page is Page.TILE or (page is Page.ANY and have.is_tile)
        at = have if row.opaque or not have.is_host else _in_dram(tiled)
        operands.append((have, HOST_ROW_MAJOR if on_host else at))
    tiled = row.gives_tiles(op, bool(operands) and operands[0][1].is_tile)
    left = HOST_ROW_MAJOR if on_host else _in_dram(tiled)
    wanted = [result.layouts[v] for v in op.outputs]
    results = tuple((layout if row.opaque else left, while_prepared(layout)) for layout in wanted)
    return Preparation(op.op == COPY and wanted[0].is_l1, tuple(operands), results)


def _in_dram(tiled: bool) -> TensorLayout:
    return interleaved(BufferType.DRAM, PageLayout.TILE if tiled else PageLayout.ROW_MAJOR)


def moves(source: TensorLayout, target: TensorLayout) -> tuple[tuple[str, TensorLayout], ...]:
    """The ops that bring a tensor from one placement and page layout into another, with what each gives."""
    found: list[tuple[str, TensorLayout]] = []
    at = source
    if source.page_layout is not target.page_layout:
        at = TensorLayout(target.page_layout, source.memory)
        found.append((CONVERT, at))
    if at.memory != target.memory and not (at.is_host and target.is_host):
        found.append((SEND if at.is_host else FETCH if target.is_host else COPY, target))
    return tuple(found)


# -- the run -------------------------------------------------------------------------------------------------
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
