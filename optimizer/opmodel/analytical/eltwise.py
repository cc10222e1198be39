"""Elementwise ops: unary, binary (BinaryNg), ternary, typecast, clone, rotary embedding's neighbours.

Acceptance: any operand layout to any output layout; without a requested layout the output follows operand 0
(a sharded second operand when operand 0 is interleaved). Buffers: two tiles per operand and result, none when
operands and result share one shard spec (they are then the tensors themselves).
"""

from __future__ import annotations

from math import prod

from optimizer.errors import ShapeError
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import DTypeRule
from optimizer.ir.shape_rules import broadcast
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.tiling import physical_shape
from optimizer.opmodel.analytical.case import Case, Usage, need, refuse
from optimizer.opmodel.analytical.derive import scaled_memory, whole_grid_spec
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY, ROWS
from optimizer.opmodel.base import TensorSpec


def page_bytes(case: Case, tensor: TensorSpec) -> int:
    """Bytes of the unit an elementwise kernel moves: a tile, or 32x32 elements of a row-major tensor."""
    return tensor.dtype.tile_bytes


def complete(case: Case, memory: MemoryConfig, shape: tuple[int, ...], source: TensorSpec) -> MemoryConfig:
    """A requested sharded config without spec: the source's spec if it is sharded, else the whole grid."""
    if not memory.is_sharded or memory.shard_spec is not None:
        return memory
    spec = source.layout.shard_spec
    if spec is None:
        rows, columns = physical_shape(shape, source.layout.page_layout)
        spec = whole_grid_spec(memory.memory_layout, rows, columns, source.layout.is_tile, case.device)
    else:
        spec = scaled_memory(source, shape).shard_spec
    return MemoryConfig(memory.memory_layout, memory.buffer_type, spec)


def unary(case: Case) -> Usage:
    x = case.x
    memory = complete(case, case.follow(), x.shape, x)
    out = case.result(x.shape, case.dtype(), memory, x.layout.page_layout)
    cores = case.device.num_cores
    if memory.is_sharded and memory == x.layout.memory and x.layout.is_l1:
        return Usage((out,), cb=0, cores=cores)
    return Usage((out,), cb=2 * x.dtype.tile_bytes + 2 * out.dtype.tile_bytes, cores=cores)


def typecast(case: Case) -> Usage:
    """The layout must stay: sharded input gives the same shards."""
    x = case.x
    memory = case.follow()
    if memory.is_sharded or x.layout.is_sharded:
        same = memory.memory_layout is x.layout.memory_layout
        need(same, "Unary operation requires Input and Output memory layout to match")
        if memory.shard_spec is None:
            memory = x.layout.memory
    name = case.attrs.get("dtype") or case.query.output_dtype or x.dtype
    dtype = DType(str(name))
    if x.layout.page_layout is ROWS:
        need(not dtype.is_block_float, "block formats need tile layout")
    out = case.result(x.shape, dtype, memory, x.layout.page_layout)
    if memory.is_sharded and memory == x.layout.memory:
        return Usage((out,), cb=0, cores=x.layout.num_shard_cores)
    return Usage((out,), cb=2 * x.dtype.tile_bytes + 2 * dtype.tile_bytes, cores=case.device.num_cores)


def _broadcast_shape(case: Case) -> tuple[int, ...]:
    try:
        return broadcast(*(t.shape for t in case.inputs))
    except ShapeError as error:
        refuse(f"Invalid subtile broadcast type: {error.message}")


_ONE_TYPE = frozenset({"ttnn.maximum", "ttnn.minimum", "ttnn.pow"})
"""Binary ops that refuse operands of different types."""


def binary(case: Case) -> Usage:
    a = case.x
    shape = _broadcast_shape(case)
    b = case.operand(1)
    if b is not None and case.query.op in _ONE_TYPE:
        need(a.dtype is b.dtype, "Mixed dtype is not supported for this binary operation")
    memory = case.output
    source = a
    if b is not None and b.layout.is_sharded and not a.layout.is_sharded and (a.layout.is_dram or memory is not None):
        source = b
    unspecified = memory is not None and memory.is_sharded and memory.shard_spec is None
    derived = memory is None or (unspecified and source.layout.is_sharded and b is not None)
    memory = scaled_memory(source, shape) if derived else complete(case, memory or DRAM_MEMORY, shape, source)
    page = a.layout.page_layout
    dtype = case.query.output_dtype or a.dtype
    if page is ROWS:
        dtype = _row_major_rules(case, a, b, memory, dtype)
    out = case.result(shape, dtype, memory, page)
    return _binary_usage(case, a, b, out)


def _row_major_rules(case: Case, a: TensorSpec, b: TensorSpec | None, memory: MemoryConfig, dtype: DType) -> DType:
    """Row-major operands: shards must be whole tiles."""
    for tensor in (a, b):
        spec = None if tensor is None else tensor.layout.shard_spec
        if spec is not None and (spec.shape[0] % 32 or spec.shape[1] % 32):
            refuse(f"Physical shard shape ({spec.shape[0]}, {spec.shape[1]}) must be tile {{32, 32}} sized!")
    return dtype


def _binary_usage(case: Case, a: TensorSpec, b: TensorSpec | None, out: TensorSpec) -> Usage:
    cores = case.device.num_cores
    same = out.layout.is_sharded and out.layout.memory == a.layout.memory and out.layout.is_l1
    if b is None:
        if same:
            return Usage((out,), cb=a.dtype.tile_bytes, cores=cores)
        return Usage((out,), cb=3 * a.dtype.tile_bytes + 2 * out.dtype.tile_bytes, cores=cores)
    if same and a.shape == b.shape and b.layout.memory == a.layout.memory:
        return Usage((out,), cb=0, cores=cores)
    cb = 2 * a.dtype.tile_bytes + 2 * b.dtype.tile_bytes + 2 * out.dtype.tile_bytes
    for operand in (a, b):
        if operand.shape[-1:] != out.shape[-1:] or operand.shape[-2:-1] != out.shape[-2:-1]:
            cb += 2 * operand.dtype.tile_bytes
    return Usage((out,), cb=cb, cores=cores)


def ternary(case: Case) -> Usage:
    """where, addcmul, addcdiv, lerp, mac: tensor or scalar second and third operands."""
    shape = _broadcast_shape(case)
    a = case.x
    memory = case.output
    source = next((t for t in case.inputs if t.layout.is_sharded), a)
    memory = scaled_memory(source, shape) if memory is None else complete(case, memory, shape, source)
    sources = case.inputs[1:] or case.inputs
    dtype = case.query.output_dtype or sources[0].dtype
    out = case.result(shape, dtype, memory, a.layout.page_layout)
    if len(case.inputs) == 1:
        return Usage((out,), cb=2 * a.dtype.tile_bytes + 2 * out.dtype.tile_bytes, cores=case.device.num_cores)
    cb = sum(2 * t.dtype.tile_bytes for t in case.inputs) + 2 * out.dtype.tile_bytes
    if any(t.shape[-2:] != shape[-2:] for t in case.inputs):
        cb += sum(2 * t.dtype.tile_bytes for t in case.inputs)
    return Usage((out,), cb=cb, cores=case.device.num_cores)


def clone(case: Case) -> Usage:
    x = case.x
    memory = case.follow()
    if memory.is_sharded or x.layout.is_sharded:
        need(memory == x.layout.memory, "Clone: input and output memory layout must match")
    out = case.result(x.shape, case.dtype(), memory, x.layout.page_layout)
    return Usage((out,), cb=2 * x.dtype.tile_bytes, cores=case.device.num_cores)


def result_dtype(case: Case) -> DType:
    """The element type by the vocabulary's rule; the requested type wins."""
    if case.query.output_dtype is not None:
        return case.query.output_dtype
    rule = opdef(case.query.op).dtype
    if rule is DTypeRule.ATTR:
        return DType(str(case.attrs.get("dtype", "bf16")))
    if rule is DTypeRule.U32:
        return DType.U32
    if rule is DTypeRule.SECOND and len(case.inputs) > 1:
        return case.inputs[1].dtype
    return case.x.dtype if case.inputs else DType.BF16


def volume(shape: tuple[int, ...]) -> int:
    return prod(shape)
