"""`ttnn.to_layout` on the device (tt-metal 0.81 `core/to_layout/to_layout_op.cpp`)."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout, TensorLayout
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.derive import BAD_ACCESS, tile_aligned
from optimizer.opmodel.analytical.device_run.padding import pad
from optimizer.opmodel.analytical.device_run.session import Held, Session, Shape, scoped, view
from optimizer.opmodel.analytical.device_run.tilize import tilize, tilize_with_padding
from optimizer.opmodel.analytical.device_run.untilize import tile_padded, untilize, untilize_with_unpadding
from optimizer.opmodel.analytical.tensors import HEIGHT, ROWS, TILED, spec_problem
from optimizer.opmodel.base import TensorSpec


@scoped
def to_layout(
    session: Session, held: Held, page: PageLayout, memory: MemoryConfig | None = None, dtype: DType | None = None
) -> Held:
    if held.page is page:
        return held
    wanted = held.memory if memory is None else memory
    if page is ROWS and held.is_sharded and wanted.shard_spec is not None:  # its shards are derived again
        need(tile_aligned(wanted.shard_spec), f"Physical shard shape {wanted.shard_spec.shape} must be tile sized!")
    else:
        _check_tiles(session, held, held.shape, wanted)
    if page is ROWS:
        kept = dtype in (None, held.dtype) or (held.dtype.is_block_float and dtype is DType.BF16)
        need(kept, "dtype cannot be different from tensor dtype when converting to ROW_MAJOR_LAYOUT on device")
        if held.shape == held.padded:
            return untilize(session, held, memory)
        need(not wanted.is_sharded or wanted.shard_spec is not None, BAD_ACCESS)
        return untilize_with_unpadding(session, held, memory)
    tensor = held
    if len(held.padded) < 2:
        need(not held.is_sharded, "Cannot convert a sharded device tensor with rank 1 to TILE_LAYOUT")
        tensor = view(held, held.shape, (1, *held.padded))
    _check_tiles(session, tensor, tensor.padded, tensor.memory)
    if tile_padded(tensor.padded) == tensor.padded:
        whole = not tensor.is_sharded or tile_aligned(tensor.spec)
        need(whole, "Sharded tensor must have shard shape that is a multiple of TILE_SIZE!")
        return tilize(session, tensor, memory, dtype)
    if tensor.memory.memory_layout is HEIGHT:  # padded first: height shards are tilized where they are
        missing = tuple((0, b - a) for a, b in zip(tensor.shape, tile_padded(tensor.shape), strict=True))
        return view(tilize(session, pad(session, tensor, missing), memory, dtype), held.shape)
    return tilize_with_padding(session, tensor, memory, dtype)


def _check_tiles(session: Session, held: Held, shape: Shape, memory: MemoryConfig) -> None:
    """The shards must be those of a tiled tensor: tt-metal builds its spec, even on the way to rows."""
    if memory.shard_spec is None:
        return
    dtype = DType.BF16 if held.dtype.is_block_float else held.dtype
    problem = spec_problem(TensorSpec(shape, dtype, TensorLayout(TILED, memory)), session.device)
    need(problem is None, problem or "")
