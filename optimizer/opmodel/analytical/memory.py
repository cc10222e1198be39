"""Layout and memory ops: to_memory_config, to_layout and the calls they stand for."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div, padded_shape
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.tensors import HEIGHT, INTERLEAVED, ROWS, TILED, row_bytes, row_parts, row_scratch
from optimizer.opmodel.base import TensorSpec


def _moved(case: Case, memory: MemoryConfig, page: PageLayout) -> Usage:
    x = case.x
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(x.shape, case.dtype(), memory, page)
    return Usage((out,), cb=_staging(case, x, out), cores=_moving_cores(case, out))


def _staging(case: Case, x: TensorSpec, out: TensorSpec) -> int:
    """Buffers of the copy kernel that moves `x` to where `out` is.

    Shards move straight from and to L1; tiles go one by one (double buffered) between interleaved tensors; a change
    of element type passes a whole shard; rows go through a scratch area of four.
    """
    spec = out.layout.shard_spec if out.layout.is_l1 else None
    if x.layout.is_sharded or spec is None:
        if x.layout.is_l1 and x.layout.is_sharded and out.dtype is x.dtype:
            return 0
        return 2 * (x.dtype.tile_bytes if x.layout.is_tile else row_bytes(x)) + 2 * _converted_bytes(x, out)
    if x.dtype is not out.dtype:
        return ceil_div(spec.shape[0], TILE) * ceil_div(spec.shape[1], TILE) * x.dtype.tile_bytes
    return 0 if x.layout.is_tile else row_scratch(spec.shape[1] * x.dtype.element_bytes, case.device)


def _converted_bytes(x: TensorSpec, out: TensorSpec) -> int:
    return 0 if out.dtype is x.dtype else out.dtype.tile_bytes


def _moving_cores(case: Case, out: TensorSpec) -> int:
    return out.layout.num_shard_cores if out.layout.is_sharded else case.device.num_cores


def to_memory_config(case: Case) -> Usage:
    memory = case.output
    need(memory is not None, "to_memory_config needs a memory config")
    assert memory is not None
    if memory == case.x.layout.memory and case.dtype() is case.x.dtype:
        return Usage((case.x,), cb=0, l1=0, cores=1, view=True)
    return _moved(case, memory, case.x.layout.page_layout)


def interleaved_to_sharded(case: Case) -> Usage:
    memory = case.output
    need(memory is not None and memory.is_sharded, "output must be sharded")
    need(case.x.layout.memory_layout is INTERLEAVED, "input must be interleaved")
    assert memory is not None
    return _moved(case, memory, case.x.layout.page_layout)


def sharded_to_interleaved(case: Case) -> Usage:
    memory = case.output
    need(memory is not None and not memory.is_sharded, "output must be interleaved")
    need(case.x.layout.is_sharded, "input must be sharded")
    need(case.x.layout.is_l1, "Input tensor must be in L1")
    assert memory is not None
    return _moved(case, memory, case.x.layout.page_layout)


def reshard(case: Case) -> Usage:
    memory = case.output
    need(memory is not None and memory.is_sharded, "output must be sharded")
    need(case.x.layout.is_sharded, "input must be sharded")
    assert memory is not None
    return _moved(case, memory, case.x.layout.page_layout)


def _converted(case: Case, page: PageLayout) -> Usage:
    """Tiling or untiling; shards follow the padded or the logical shape."""
    x = case.x
    dtype = DType.BF16 if page is ROWS and x.dtype.is_block_float else case.dtype()
    memory = case.follow()
    spec = memory.shard_spec
    if case.output is None and spec is not None:
        memory = _unpadded(memory, spec, x) if page is ROWS else memory
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(x.shape, dtype, memory, page)
    wide = ceil_div(x.shape[-1], TILE)
    if spec is not None and x.layout.is_sharded and memory.is_sharded:
        wide = ceil_div(spec.shape[1], TILE)
    cb = wide * (x.dtype.tile_bytes + dtype.tile_bytes)
    if page is ROWS and not x.layout.is_sharded and not memory.is_sharded and padded_shape(x.shape, TILED) == x.shape:
        cb = 2 * cb // row_parts(x.shape, case.device.num_cores)  # double buffered, rows split where there are few
    room = case.device.l1_bank_bytes(case.l1_small_bytes) - case.l1(x) - case.l1(out)
    if cb > room:  # a block of the row at a time
        cb = max(2 * x.dtype.tile_bytes, min(cb, room // 2))
    return Usage((out,), cb=cb, cores=case.device.num_cores)


def _unpadded(memory: MemoryConfig, spec: ShardSpec, x: TensorSpec) -> MemoryConfig:
    """Height shards of an untiled tensor are as wide as its logical rows."""
    if memory.memory_layout is not HEIGHT or spec.shape[1] == x.shape[-1]:
        return memory
    cut = ShardSpec(spec.grid_yx, (spec.shape[0], x.shape[-1]), spec.core_ranges, spec.orientation)
    return MemoryConfig(memory.memory_layout, memory.buffer_type, cut)


def to_layout(case: Case) -> Usage:
    page = PageLayout(str(case.attrs["layout"]))
    x = case.x
    if page is x.layout.page_layout:  # already so: given back as it is, whatever is asked
        out = case.result(x.shape, x.dtype, x.layout.memory, page)
        return Usage((out,), cb=0, l1=0, cores=1, view=True)
    if page is ROWS:
        asked = case.query.output_dtype
        same = asked is None or asked is x.dtype or (x.dtype.is_block_float and asked is DType.BF16)
        need(same, "dtype cannot be different from tensor dtype when converting to ROW_MAJOR_LAYOUT on device")
        spec = None if case.output is None else case.output.shard_spec
        whole = spec is None or (spec.shape[0] % TILE == 0 and spec.shape[1] % TILE == 0)
        need(whole, "Physical shard shape must be tile {32, 32} sized!")
    return _converted(case, page)


def tilize(case: Case) -> Usage:
    """Whole tiles only; padding is another op's work."""
    x = case.x
    rows = x.shape[-2] if len(x.shape) > 1 else 1
    need(rows % TILE == 0, f"Input tensor height ({rows}) must be divisible by tile height ({TILE})")
    need(x.shape[-1] % TILE == 0, f"Input tensor width ({x.shape[-1]}) must be divisible by tile width ({TILE})")
    return _converted(case, PageLayout.TILE)


def tilize_with_zero_padding(case: Case) -> Usage:
    need(not case.x.layout.is_sharded or case.output is not None, "sharded input must name an output")
    return _converted(case, PageLayout.TILE)


def untilize(case: Case) -> Usage:
    return _converted(case, ROWS)
