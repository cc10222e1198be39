"""Element-wise ops of one operand: unary, typecast, clone; what the ops of several operands share.

Acceptance: any operand layout to any output layout; without a requested layout the output follows the operand.
Buffers: two tiles per operand and result, none where operand and result are the buffers ("native" shards).
Sources: tt-metal 0.81 `eltwise/unary`, `copy/typecast`, `data_movement/clone`, and answers of mock devices.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, ShardOrientation, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need, refuse
from optimizer.opmodel.analytical.derive import flat_spec, scaled_memory, synthesized
from optimizer.opmodel.analytical.tensors import ROWS, WIDTH, row_bytes
from optimizer.opmodel.base import TensorSpec


def is_uneven(tensor: TensorSpec) -> bool:
    """Whether the last shards of a sharded tensor are partly empty (`is_uneven`); False when interleaved."""
    spec = tensor.layout.shard_spec
    if spec is None:
        return False
    height, width = spec.shape
    padded = padded_shape(tensor.shape, tensor.layout.page_layout)
    columns = padded[-1] if tensor.layout.is_tile else round_up(padded[-1], width)
    return prod(padded[:-1]) % height != 0 or columns % width != 0


def same_cores(a: ShardSpec | None, b: ShardSpec | None) -> bool:
    return a is not None and b is not None and a.core_ranges == b.core_ranges


def whole_tiles(tensor: TensorSpec) -> bool:
    """Whether a shard holds a whole number of tiles' elements: row-major ones may not."""
    spec = tensor.layout.shard_spec
    return spec is not None and spec.shape[0] * spec.shape[1] % (TILE * TILE) == 0


def complete(case: Case, memory: MemoryConfig, shape: tuple[int, ...], source: TensorSpec) -> MemoryConfig:
    """A requested sharded config without spec: the source's spec if it is sharded, else the whole grid."""
    if not memory.is_sharded or memory.shard_spec is not None:
        return memory
    given = source.layout.shard_spec
    if given is None:
        rows, tiled = prod(padded_shape(shape, source.layout.page_layout)[:-1]), source.layout.is_tile
        spec = synthesized((rows, shape[-1]), memory.memory_layout, case.device, tiled=tiled)
    else:
        found = scaled_memory(source, shape).shard_spec
        assert found is not None
        least = (max(found.shape[0], TILE), max(found.shape[1], TILE))
        spec = ShardSpec(found.grid_yx, least, found.core_ranges, found.orientation)
    return MemoryConfig(memory.memory_layout, memory.buffer_type, spec)


# -- unary -----------------------------------------------------------------------------------------------
def _unary_memory(case: Case, x: TensorSpec, memory: MemoryConfig) -> MemoryConfig:
    """As `complete`, but row-major width shards are cut at aligned divisors of the row, or at tiles."""
    plain = x.layout.is_tile or x.layout.is_sharded or memory.memory_layout is not WIDTH
    if plain or memory.shard_spec is not None:
        return complete(case, memory, x.shape, x)
    unit, columns = max(1, case.device.l1_alignment_bytes // x.dtype.element_bytes), x.shape[-1]
    least = ceil_div(columns, case.device.num_cores)
    cuts = (w for w in range(round_up(least, unit), columns + 1, unit) if columns % w == 0)
    width = next(cuts, round_up(least, TILE))
    spec = flat_spec(WIDTH, ceil_div(columns, width), (prod(x.shape[:-1]), width), case.device)
    return MemoryConfig(memory.memory_layout, memory.buffer_type, spec)


def unary_output(case: Case, memory: MemoryConfig | None, dtype: DType) -> TensorSpec:
    x = case.x
    memory = _unary_memory(case, x, x.layout.memory if memory is None else memory)
    out = case.result(x.shape, dtype, memory, x.layout.page_layout)
    if out.layout.is_sharded and x.layout.is_sharded:
        need(len(x.shape) > 1 or x.layout.is_tile, "Rank must be at least 2")
    return out


def unary_buffers(case: Case, x: TensorSpec, out: TensorSpec) -> int:
    """Dataflow buffers of a unary program."""
    spec = x.layout.shard_spec
    native = x.layout.is_l1 and x.layout.memory == out.layout.memory and whole_tiles(x) and not is_uneven(x)
    if not native:
        return 2 * x.dtype.tile_bytes + 2 * out.dtype.tile_bytes
    assert spec is not None
    need(_kernel_runs(case, spec), "Kernel 'reader' is setting runtime_arg_values for a node it does not run on")
    return 0


def _kernel_runs(case: Case, spec: ShardSpec) -> bool:
    """Arguments go to as many cores of the shard grid as the chip has, in order: they must be the chip's cores."""
    rows, columns = case.device.grid_yx
    if all(x1 < columns and y1 < rows for _, _, x1, y1 in spec.core_ranges):
        return True
    x0, _, x1, _ = spec.core_ranges[0]
    return spec.orientation is ShardOrientation.ROW_MAJOR and (x0, x1) == (0, columns - 1)


def unary(case: Case) -> Usage:
    out = unary_output(case, case.output, case.dtype())
    return Usage((out,), cb=unary_buffers(case, case.x, out), cores=case.device.num_cores)


# -- typecast and clone ----------------------------------------------------------------------------------
def typecast_buffers(x: TensorSpec, out: TensorSpec) -> int:
    """Dataflow buffers of a typecast; shards of tiles that keep their size are converted where they lie."""
    shards = x.layout.is_sharded and x.layout.is_l1 and x.layout.is_tile and x.layout == out.layout
    if shards and x.dtype.tile_bytes == out.dtype.tile_bytes:
        return 0
    return 2 * x.dtype.tile_bytes + 2 * out.dtype.tile_bytes


def typecast(case: Case) -> Usage:
    """The layout must stay: sharded input gives the same shards."""
    x = case.x
    memory = case.follow()
    if memory.is_sharded or x.layout.is_sharded:
        same = memory.memory_layout is x.layout.memory_layout
        need(same, "Unary operation requires Input and Output memory layout to match")
        need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    name = case.attrs.get("dtype") or case.query.output_dtype or x.dtype
    dtype = DType(str(name))
    if x.layout.page_layout is ROWS:
        need(not dtype.is_block_float, "block formats need tile layout")
        if x.layout.shard_spec is not None:
            page = x.layout.shard_spec.shape[1] * x.dtype.element_bytes
            aligned = page % case.device.l1_alignment_bytes == 0
            need(aligned, f"Typecast operation requires sharded input tensor page size ({page} bytes) to be aligned")
    out = case.result(x.shape, dtype, memory, x.layout.page_layout)
    return Usage((out,), cb=typecast_buffers(x, out), cores=case.device.num_cores)


def clone(case: Case) -> Usage:
    """A copy page by page; another element type only in tiles, through buffers of both."""
    x = case.x
    memory = case.follow()
    if memory.is_sharded or x.layout.is_sharded:
        need(memory == x.layout.memory, "Clone: input and output memory layout must match")
    if not x.layout.is_tile and case.dtype() is not x.dtype:
        refuse("Clone: data type conversion is only supported with tile layout")
    out = case.result(x.shape, case.dtype(), memory, x.layout.page_layout)
    cb = 2 * (x.dtype.tile_bytes if x.layout.is_tile else _row_page(case, x, out))
    if out.dtype is not x.dtype:
        cb += 2 * out.dtype.tile_bytes
    return Usage((out,), cb=cb, cores=case.device.num_cores)


def _row_page(case: Case, x: TensorSpec, out: TensorSpec) -> int:
    """Bytes of a row (of a shard), as aligned where it comes from and goes to."""
    spec = x.layout.shard_spec
    size = row_bytes(x) if spec is None else spec.shape[1] * x.dtype.element_bytes
    device = case.device
    steps = [device.l1_alignment_bytes if t.layout.is_l1 else device.dram_alignment_bytes for t in (x, out)]
    return round_up(size, max(steps))
