"""Reductions over one or several dims.

The last two dims are reduced in place of the tiles; leading dims by transposing, which only works interleaved.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, ShardSpec, TensorLayout
from optimizer.layouts.tiling import TILE, padded_shape, physical_shape
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import fitted_memory, fitted_spec, whole_grid_spec
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import HEIGHT, L1_MEMORY, TILED, WIDTH, tiles
from optimizer.opmodel.base import TensorSpec


def reduce(case: Case) -> Usage:
    x = case.x
    shape = result_shapes(case)[0]
    _check_fill(x)
    leading = _reduces_leading(case)
    memory = _memory(case, shape)
    if leading:
        need(not memory.is_sharded, "reducing a leading dim: the result must be interleaved")
    out = case.result(shape, case.dtype(), memory, x.layout.page_layout)
    rows, _ = tiles(x.shape)
    tile = x.dtype.tile_bytes
    cb = 10 * tile + (4096 if x.dtype is DType.F32 else 2048)
    return Usage((out,), cb=cb, l1=case.l1(out) + _temporary(case, out, leading), cores=_cores(case, rows))


def _cores(case: Case, rows: int) -> int:
    return max(1, min(rows, case.device.num_cores))


def _temporary(case: Case, out: TensorSpec, leading: bool) -> int:
    """L1 bytes of what lies between the steps: a permuted copy, or the first of two reductions."""
    x = case.x
    if not (x.layout.is_l1 or out.layout.is_l1):
        return 0
    interleaved = TensorLayout(x.layout.page_layout, L1_MEMORY)
    dims = case.attrs.get("dim")
    if leading:
        rank = len(x.shape)
        axis = next((int(d) % rank for d in (dims if isinstance(dims, tuple) else (dims or 0,))), 0)
        swapped = list(x.shape)
        swapped[axis], swapped[-2] = swapped[-2], swapped[axis]
        return case.l1(TensorSpec(tuple(swapped), x.dtype, interleaved))
    if dims is None or (isinstance(dims, tuple) and len(dims) > 1):
        return case.l1(TensorSpec((*x.shape[:-1], 1), x.dtype, interleaved))
    return 0


def _reduces_leading(case: Case) -> bool:
    rank = len(case.x.shape)
    dims = case.attrs.get("dim")
    shape = case.x.shape
    if dims is None:
        return rank > 2 and any(s > 1 for s in shape[:-2])
    listed = dims if isinstance(dims, tuple) else (dims,)
    summed = case.query.op == "ttnn.sum"  # of a size-1 dim it is the operand itself
    return any(int(d) % rank < rank - 2 and not (summed and shape[int(d) % rank] == 1) for d in listed)


def _memory(case: Case, shape: tuple[int, ...]) -> MemoryConfig:
    asked = case.output
    derivable = asked is None or not asked.is_sharded or asked.shard_spec is not None or case.x.layout.is_sharded
    need(derivable, "sharded memory layout requires either nd_shard_spec or shard_spec")
    memory = _produced(case, shape)
    spec = memory.shard_spec
    need(
        asked is not None or spec is None or case.attrs.get("dim") is not None, "reducing all of shards: name a result"
    )
    whole = padded_shape(shape, TILED)
    if spec is not None and memory.memory_layout is HEIGHT and prod(whole[:-1]) == TILE:
        return MemoryConfig(WIDTH, memory.buffer_type, spec)  # one row of tiles counts as width shards
    if spec is None or case.output is None:
        return memory
    if memory.memory_layout is HEIGHT and spec.shape[1] != whole[-1]:
        held = padded_shape(case.x.shape, TILED)
        if spec.shape[1] == held[-1]:  # asked for with the operand's shard: cut to the result
            spec = ShardSpec(spec.grid_yx, (spec.shape[0], whole[-1]), spec.core_ranges, spec.orientation)
            return MemoryConfig(memory.memory_layout, memory.buffer_type, spec)
    return memory


def _produced(case: Case, shape: tuple[int, ...]) -> MemoryConfig:
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


def _check_fill(x: TensorSpec) -> None:
    """Tile padding of shards is filled in place, one slice at a time."""
    if not x.layout.is_sharded or not x.layout.is_tile:
        return
    partial = x.shape[-1] % TILE or (x.shape[-2] if len(x.shape) > 1 else 1) % TILE
    need(not partial or prod(x.shape[:-2]) <= 1, "FillPadL1ShardedProgramFactory: N_slices > 1 not yet supported")
