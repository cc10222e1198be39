"""Element-wise ops of one operand and those that mask or write one; what the ops of several operands share.

Acceptance: any operand layout to any output layout; without a requested layout the output follows the operand.
Buffers: two tiles per operand and result, none where operand and result are the buffers ("native" shards).
Sources: tt-metal 0.81 `eltwise/unary`, `copy/typecast`, `data_movement/clone`, and answers of mock devices.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from optimizer.ir.dtype import DType
from optimizer.ir.opdef import ON_HOST
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import MemoryConfig, ShardOrientation, ShardSpec
from optimizer.layouts.op_config import InPlaceConfig
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need, need_named, refuse
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


def clamp(case: Case) -> Usage:
    """Integers are clamped between two typecasts, which take shards of few kinds: none are offered."""
    is_plain = not any(layout.is_sharded for layout in (case.x.layout, case.follow()))
    need(case.x.dtype.is_float or is_plain, "ttnn.clamp takes no shards of integers")
    return unary(case)


# -- typecast and clone ----------------------------------------------------------------------------------
def typecast_buffers(x: TensorSpec, out: TensorSpec) -> int:
    """Dataflow buffers of a typecast; shards of tiles that keep their size are converted where they lie."""
    shards = x.layout.is_sharded and x.layout.is_l1 and x.layout.is_tile and x.layout == out.layout
    if shards and x.dtype.tile_bytes == out.dtype.tile_bytes:
        return 0
    return 2 * x.dtype.tile_bytes + 2 * out.dtype.tile_bytes


def typecast(case: Case) -> Usage:
    """The layout must stay: sharded input gives the same shards."""
    need(not case.attrs.get(ON_HOST), "ttnn.typecast: the host converts weights only, before the first run")
    x = case.x
    memory = case.follow()
    if memory.is_sharded or x.layout.is_sharded:
        same = memory.memory_layout is x.layout.memory_layout
        need(same, "Unary operation requires Input and Output memory layout to match")
        need_named(memory)
        given, wanted = x.layout.shard_spec, memory.shard_spec
        if given is not None and wanted is not None:
            message = (
                f"Output tensor should have same number of cores {wanted.num_cores} as input tensor {given.num_cores}"
            )
            need(given.num_cores == wanted.num_cores, message)
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


_MASKS = {
    DType.BF16: DType.BF16,
    DType.BFP8_B: DType.BF16,
    DType.F32: DType.BF16,
    DType.I32: DType.I32,
    DType.U32: DType.I32,
}


def triangle(case: Case) -> Usage:
    """tril and triu: a mask of zeros and ones is made, then multiplied with the operand.

    Rule measured on mock devices (tt-metal 0.81.1): the mask lies where the result lies, bf16 for floats and i32 for
    integers; the multiplication's buffers are two tiles of operand, mask and result.
    """
    x = case.x
    need(x.layout.is_tile, f"{case.query.op}: the operand must be in tiles")
    case.need_interleaved(x)
    need(x.dtype in _MASKS, f"{case.query.op}: no mask of element type {x.dtype}")
    memory = case.interleaved(case.follow())
    out = case.result(x.shape, x.dtype, memory)
    mask = TensorSpec(x.shape, _MASKS[x.dtype], out.layout)
    held = case.l1(out) + case.l1(mask) if memory.buffer_type.value == "l1" else 0
    cb = 2 * (x.dtype.tile_bytes + mask.dtype.tile_bytes + out.dtype.tile_bytes)
    return Usage((out,), cb=cb, l1=held, cores=case.device.num_cores)


FILLED = (DType.BF16, DType.F32)


def fill_padding(case: Case) -> Usage:
    """fill_implicit_tile_padding: what lies in the last tiles beyond a tensor's own elements, written in place.

    Rule measured on mock devices (tt-metal 0.81.1): bf16, f32 and integers are filled in the operand's buffer, and a
    memory config that says otherwise is ignored; block floats are unpacked and packed again, which also spoils elements
    that share an exponent with the filling, so they are refused here. Circular buffers: four tiles, and one for each of
    the two last dims that is no multiple of 32; a tensor of whole tiles is handed back as it is.
    """
    x = case.x
    need(x.layout.is_tile, f"{case.query.op}: the operand must be in tiles")
    case.need_interleaved(x)
    need(
        x.dtype in FILLED, f"{case.query.op}: elements of type {x.dtype} share exponents with the filling, or are none"
    )
    need(case.output in (None, x.layout.memory), f"{case.query.op}: the result stays in the operand's buffer")
    rows, columns = (1, 1, *x.shape)[-2:]
    partial = (rows % TILE > 0) + (columns % TILE > 0)
    cb = (4 + partial) * x.dtype.tile_bytes if partial else 0
    return Usage((x,), cb=cb, l1=0, cores=case.device.num_cores, view=not partial)


def in_place(case: Case, usage: Usage, config: InPlaceConfig) -> Usage:
    """Usage of an op that writes its result into an operand (`output_tensor=`); refused where it gives another one.

    The program, its buffers and its time are those of the op with a result of its own; nothing is allocated. Source:
    answers of mock devices for every unary and binary op, native and foreign shards, broadcasts, all three types.
    """
    name, k = case.query.op, config.operand
    need(opdef(name).in_place, f"{name} cannot write its result into an operand")
    need(k < len(case.inputs), f"{name} has no operand {k} to write its result into")
    need(all(t.layout.is_tile for t in case.inputs), "a result is written into an operand in tiles only")
    need(usage.outputs == (case.inputs[k],), f"the result of {name} is not laid out like operand {k}")
    made = case.l1(case.inputs[k])
    allocated = made if usage.l1 is None else usage.l1
    need(allocated == made, f"{name} makes other tensors before its result")
    peak = usage.cb + made if usage.peak is None else usage.peak
    return replace(usage, l1=0, peak=peak - made)
