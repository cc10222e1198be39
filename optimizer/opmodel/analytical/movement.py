"""Data movement: reshape, permute, transpose, concat, slice, split, pad, repeat.

Sources: tt-metal 0.81's messages and the recorded results. Most accept any operand layout and any named output;
what a sharded operand turns into when no output is named is the operand's shard fitted to the new shape.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.ir.shape_rules import permute_is_view, reshape_is_view
from optimizer.layouts.memory_config import MemoryConfig, PageLayout, TensorLayout
from optimizer.layouts.tiling import TILE, padded_shape, physical_shape, round_up
from optimizer.opmodel.analytical.case import Case, Refused, Usage, need
from optimizer.opmodel.analytical.derive import fitted_memory, fitted_spec, whole_grid_spec
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import (
    BLOCK,
    DRAM_MEMORY,
    HEIGHT,
    L1_MEMORY,
    TILED,
    WIDTH,
    row_parts,
    spec_problem,
    tiles,
)
from optimizer.opmodel.base import TensorSpec

Shape = tuple[int, ...]
PAD_ROWS = 18
"""Rows of the result that the row-major pad kernel buffers."""


def produced(case: Case, shape: Shape) -> MemoryConfig:
    """Memory config of a result: as requested (shards derived when not given), else operand 0's fitted to it."""
    x, memory = case.x, case.output
    if memory is None:
        return fitted_memory(x, shape)
    if not memory.is_sharded or memory.shard_spec is not None:
        return memory
    held = x.layout.shard_spec
    if held is not None:
        spec = fitted_spec(memory.memory_layout, held, x.shape, shape, x.layout.is_tile)
        return MemoryConfig(memory.memory_layout, memory.buffer_type, spec)
    rows, columns = physical_shape(shape, x.layout.page_layout)
    spec = whole_grid_spec(memory.memory_layout, rows, columns, x.layout.is_tile, case.device)
    return MemoryConfig(memory.memory_layout, memory.buffer_type, spec)


def unit(tensor: TensorSpec) -> int:
    """Bytes moved at once: a tile, or a row of a row-major tensor."""
    if tensor.layout.is_tile:
        return tensor.dtype.tile_bytes
    return max(32, (tensor.shape[-1] if tensor.shape else 1) * tensor.dtype.element_bytes)


def moved(case: Case, memory: MemoryConfig | None = None, view: bool = False) -> Usage:
    """Usage of an op that only moves data into the memory config given (else the one `produced` finds)."""
    x = case.x
    outputs = tuple(
        case.result(s, x.dtype, memory or produced(case, s), x.layout.page_layout) for s in result_shapes(case)
    )
    cb = 0 if view else 2 * unit(x) + 2 * max(unit(t) for t in outputs)
    cores = case.device.num_cores
    return Usage(outputs, cb=cb, l1=0 if view else None, cores=cores, view=view)


def detour(case: Case, usage: Usage, shape: Shape, cb: int = 0) -> Usage:
    """Adds a temporary of `shape`, interleaved in L1, that an op keeps between its programs."""
    if case.x.layout.is_l1 or usage.outputs[0].layout.is_l1:
        held = TensorSpec(shape, case.x.dtype, TensorLayout(case.x.layout.page_layout, L1_MEMORY))
        usage.l1 = sum(case.l1(t) for t in usage.outputs) + case.l1(held)
    usage.cb = max(usage.cb, cb)
    return usage


def reshape(case: Case) -> Usage:
    """Views keep operand 0's bytes where they are; others repack tiles or rows."""
    x = case.x
    shape = result_shapes(case)[0]
    same_pages = x.shape[-1:] == shape[-1:]
    if reshape_is_view(case.attrs, x.shape, shape) if x.layout.is_tile else same_pages:
        return _reshape_view(case, shape)
    if x.layout.is_sharded:
        need(case.output is not None and not case.output.is_sharded, "reshape of shards: name an interleaved output")
    memory = case.follow()
    if not x.layout.is_tile:
        need(not memory.is_sharded, "row-major reshape into shards")
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    usage = moved(case, memory)
    if not x.layout.is_tile:
        usage.cb = 2 * (2 * unit(x) + 128) + 2 * (unit(usage.outputs[0]) + 16)
    return usage


def _reshape_view(case: Case, shape: Shape) -> Usage:
    x = case.x
    if x.layout.is_sharded:
        if case.output is None or case.output.is_sharded:
            return moved(case, x.layout.memory, view=True)
        return moved(case, case.output)
    memory = case.follow()
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    return moved(case, memory, view=memory == x.layout.memory)


def unsqueeze(case: Case) -> Usage:
    x = case.x
    dim = int(case.attrs["dim"])
    shape = list(x.shape)
    shape.insert(dim % (len(shape) + 1), 1)
    out = case.result(tuple(shape), x.dtype, x.layout.memory, x.layout.page_layout)
    return Usage((out,), cb=0, l1=0, cores=1, view=True)


def permute(case: Case) -> Usage:
    shape = result_shapes(case)[0]
    view = case.output in (None, case.x.layout.memory) and permute_is_view(case.attrs, case.x.shape, shape)
    if view and case.x.layout.is_sharded:
        view = False
    usage = _moved_or_interleaved(case, view)
    if view:
        return usage
    x = case.x
    staged = 6 * x.dtype.tile_bytes if not x.layout.is_tile else 0
    spec = usage.outputs[0].layout.shard_spec
    if spec is not None and not x.layout.is_tile and usage.outputs[0].layout.memory_layout is HEIGHT:
        whole = spec.shape[1] * x.dtype.element_bytes % case.device.l1_alignment_bytes == 0
        need(whole, "Shard page size must be aligned for L1 Tensor")
    dims = [int(d) % len(x.shape) for d in case.attrs["dims"]]
    several = sum(a != b for a, b in zip(dims, range(len(dims)), strict=True)) > 2
    if x.layout.is_tile and (several or x.dtype.is_block_float or x.layout.is_sharded):
        return detour(case, usage, shape, staged)
    usage.cb = max(usage.cb, staged)
    return usage


def transpose(case: Case) -> Usage:
    usage = _moved_or_interleaved(case, False)
    x = case.x
    rank = len(x.shape)
    pair = {int(case.attrs["dim0"]) % rank, int(case.attrs["dim1"]) % rank}
    if rank - 1 in pair and not x.layout.is_tile:
        usage.cb = max(usage.cb, 6 * x.dtype.tile_bytes)
    if rank - 1 in pair and rank - 2 not in pair and x.layout.is_tile:  # by way of other transpositions
        return detour(case, usage, usage.outputs[0].shape, 7 * x.dtype.tile_bytes)
    return usage


def _moved_or_interleaved(case: Case, view: bool) -> Usage:
    """A sharded operand whose shard cannot be fitted to the new shape gives an interleaved result."""
    if not case.x.layout.is_sharded or case.output is not None:
        return moved(case, view=view)
    try:
        return moved(case)
    except Refused:
        return moved(case, L1_MEMORY)


def concat(case: Case) -> Usage:
    inputs = case.inputs
    memory = DRAM_MEMORY if case.output is None else case.output
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    sharded = [t for t in inputs if t.layout.is_sharded]
    if sharded:
        need(len(sharded) == len(inputs), "All tensors must be sharded or all must be interleaved")
        _concat_shards(case, memory)
    usage = moved(case, memory)
    usage.cb = 0 if sharded else 2 * max(unit(usage.outputs[0]), unit(case.x))
    x, axis = case.x, int(case.attrs["dim"]) % max(1, len(case.x.shape))
    if x.layout.is_tile and axis >= len(x.shape) - 2 and any(t.shape[axis] % TILE for t in inputs):
        wide = max(padded_shape(t.shape, TILED)[-1] // TILE for t in (*inputs, *usage.outputs))
        return detour(case, usage, usage.outputs[0].shape, 2 * wide * x.dtype.tile_bytes)
    if sharded and not memory.is_sharded:
        usage.l1 = sum(case.l1(t) for t in (*inputs, *usage.outputs))
    return usage


def _concat_shards(case: Case, memory: MemoryConfig) -> None:
    first = case.x.layout
    rank, dim = len(case.x.shape), int(case.attrs["dim"])
    assert first.shard_spec is not None
    for tensor in case.inputs[1:]:
        spec = tensor.layout.shard_spec
        need(tensor.layout.memory_layout is first.memory_layout, "Sharded tensors must have the same memory layout.")
        assert spec is not None
        same = spec.core_ranges == first.shard_spec.core_ranges and spec.orientation == first.shard_spec.orientation
        need(same, "Sharded tensors must have the same grid.")
    if not memory.is_sharded:
        return
    need(memory.memory_layout is first.memory_layout, "Sharded output and inputs must have the same memory layout.")
    assert memory.shard_spec is not None
    need(memory.shard_spec.core_ranges == first.shard_spec.core_ranges, "Sharded output and inputs: same grid")
    last = dim % rank == rank - 1
    need(last or dim % rank == rank - 2, "Only width or height concat on sharded tensors")
    allowed = {HEIGHT: last, WIDTH: not last, BLOCK: True}[first.memory_layout]
    need(allowed, "concat along the sharded dim")


def _aligned(case: Case) -> bool:
    """Whether a slice of a tiled tensor takes whole tiles (its end may be the tensor's)."""
    x = case.x
    begins, ends = case.attrs["begins"], case.attrs["ends"]
    steps = case.attrs.get("steps") or (1,) * len(x.shape)
    rank = len(x.shape)
    for axis in range(max(0, rank - 2), rank):
        begin, end = int(begins[axis]), int(ends[axis])
        if begin % TILE or steps[axis] != 1 or (end % TILE and end != x.shape[axis]):
            return False
    return all(s == 1 for s in steps)


def slice_(case: Case) -> Usage:
    x = case.x
    shape = result_shapes(case)[0]
    if shape == x.shape and case.output in (None, x.layout.memory):
        return moved(case, x.layout.memory, view=True)
    memory = produced(case, shape)
    if x.layout.is_tile:
        if not _aligned(case):
            _check_untiled(case, shape, memory)
            need(not x.dtype.is_block_float, "Strided slice is not supported for block formats")
    elif memory.is_sharded:
        spec = memory.shard_spec
        whole = shape[-1] == x.shape[-1] or (spec is not None and spec.shape[1] == x.shape[-1])
        need(whole, "Changing the last dimension of a sharded tensor is not supported")
    if x.layout.memory_layout is BLOCK and memory.memory_layout is BLOCK and prod(x.shape[:-2]) > 1:
        need(x.shape[:-2] == shape[:-2], "Can only write unbatched output for BLOCK_SHARDED -> BLOCK_SHARDED")
    usage = moved(case, memory)
    if not x.layout.is_tile:
        usage.cb = max(2 * unit(usage.outputs[0]), 8192) + 4 * len(x.shape)
    elif _aligned(case):
        usage.cb = 2 * x.dtype.tile_bytes + 4 * len(x.shape)
    else:  # untilized, sliced, tilized
        wide = tiles(x.shape)[1]
        untilize = 4 * wide // _row_parts(case) if padded_shape(x.shape, TILED) == x.shape else 2 * wide
        usage.cb = max(untilize * x.dtype.tile_bytes, 8192 + 4 * len(x.shape))
    return usage


def _check_untiled(case: Case, shape: Shape, memory: MemoryConfig) -> None:
    """An unaligned slice is taken row-major, so its shards must also fit the unpadded result."""
    if memory.is_sharded:
        need(memory.memory_layout is not BLOCK, "unaligned slice into block shards")
        untiled = TensorSpec(shape, DType.BF16, TensorLayout(PageLayout.ROW_MAJOR, memory))
        problem = spec_problem(untiled, case.device)
        need(problem is None, f"unaligned slice: {problem}")


def _row_parts(case: Case) -> int:
    return 1 if case.x.layout.is_sharded else row_parts(case.x.shape, case.device.num_cores)


def split(case: Case) -> Usage:
    return moved(case)


def _padding(case: Case) -> tuple[tuple[int, int], ...]:
    return tuple((int(a), int(b)) for a, b in case.attrs["padding"])


def pad(case: Case) -> Usage:
    x = case.x
    padding = _padding(case)
    if not any(a or b for a, b in padding):
        return moved(case, x.layout.memory, view=True)
    memory = case.follow()
    need(not x.layout.is_sharded or case.output is not None, "sharded input must name an output")
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    if x.layout.is_tile:
        need(not any(a for a, _ in padding), "ttnn.pad: on device tile padding does not support front padding")
        check_fill(x)
        inside = padded_shape(result_shapes(case)[0], TILED) == padded_shape(x.shape, TILED)
        if inside and not x.layout.is_sharded and not memory.is_sharded:
            memory = x.layout.memory  # filled in place: the requested buffer type is not looked at
        return moved(case, memory)
    usage = moved(case, memory)
    usage.cb = PAD_ROWS * round_up(unit(usage.outputs[0]), 64)
    return usage


def check_fill(x: TensorSpec) -> None:
    """Tile padding of shards is filled in place, one slice at a time."""
    if not x.layout.is_sharded or not x.layout.is_tile:
        return
    partial = x.shape[-1] % TILE or (x.shape[-2] if len(x.shape) > 1 else 1) % TILE
    need(not partial or prod(x.shape[:-2]) <= 1, "FillPadL1ShardedProgramFactory: N_slices > 1 not yet supported")


def repeat(case: Case) -> Usage:
    """Shards go by interleaved copies, partly filled tiles by row-major ones."""
    usage = moved(case)
    x, out = case.x, usage.outputs[0]
    usage.cb = 8 * unit(out)
    padded = x.layout.is_tile and padded_shape(x.shape, TILED)[-2:] != x.shape[-2:]
    if padded or x.layout.is_sharded or out.layout.is_sharded:
        wide = padded_shape(out.shape, TILED)[-1] // TILE
        return detour(case, usage, out.shape, 4 * wide * x.dtype.tile_bytes if x.layout.is_tile else 0)
    return usage


def repeat_interleave(case: Case) -> Usage:
    if case.x.layout.is_sharded:
        need(case.output is not None, "repeat_interleave of shards: name an output")
    return moved(case)
