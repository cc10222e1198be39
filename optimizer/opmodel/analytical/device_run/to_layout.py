"""`ttnn.to_layout` on the device (tt-metal 0.81 `core/to_layout/to_layout_op.cpp`)."""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.device_run.padding import pad
from optimizer.opmodel.analytical.device_run.session import Held, Session, view
from optimizer.opmodel.analytical.device_run.shards import tile_aligned
from optimizer.opmodel.analytical.device_run.tilize import tilize, tilize_with_padding
from optimizer.opmodel.analytical.device_run.untilize import tile_padded, untilize, untilize_with_unpadding
from optimizer.opmodel.analytical.tensors import HEIGHT, ROWS


def to_layout(
    session: Session, held: Held, page: PageLayout, memory: MemoryConfig | None = None, dtype: DType | None = None
) -> Held:
    if held.page is page:
        return held
    if page is ROWS:
        if held.shape == held.padded:
            return untilize(session, held, memory)
        return untilize_with_unpadding(session, held, memory)
    tensor = held
    if len(held.padded) < 2:
        need(not held.is_sharded, "Cannot convert a sharded device tensor with rank 1 to TILE_LAYOUT")
        tensor = view(held, held.shape, (1, *held.padded))
    if tile_padded(tensor.padded) == tensor.padded:
        whole = not tensor.is_sharded or tile_aligned(tensor.spec)
        need(whole, "Sharded tensor must have shard shape that is a multiple of TILE_SIZE!")
        return tilize(session, tensor, memory, dtype)
    if tensor.memory.memory_layout is HEIGHT:  # padded first: height shards are tilized where they are
        missing = tuple((0, b - a) for a, b in zip(tensor.shape, tile_padded(tensor.shape), strict=True))
        return view(tilize(session, pad(session, tensor, missing), memory, dtype), held.shape)
    return tilize_with_padding(session, tensor, memory, dtype)
