"""Embedding: a row of the table per index.

The result is tiled by the kernel itself where rows and width are whole tiles, by an op of its own otherwise;
then the kernel writes row-major, which shards by height only.
"""

from __future__ import annotations

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import PageLayout, TensorLayout
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.tensors import HEIGHT, L1_MEMORY
from optimizer.opmodel.base import TensorSpec

MOST_UNTILIZED = 512 * 1024
"""Most bytes that the untilize kernel buffers of a wide table."""


def embedding(case: Case) -> Usage:
    ids, table = case.inputs[0], case.inputs[1]
    for tensor in (ids, table):
        need(not tensor.layout.is_sharded, "embedding: operands must be interleaved")
    need(table.dtype is DType.BF16, "Weights tensor must have BFLOAT16")
    memory = ids.layout.memory if case.output is None else case.output
    need(not memory.is_sharded or memory.shard_spec is not None, "MemoryConfig must have Shard Spec specified")
    page = PageLayout(str(case.attrs.get("layout", "tile")))
    width = table.shape[-1]
    tiled = page is PageLayout.TILE and ids.shape[-1] % TILE == 0 and width % TILE == 0 and not ids.layout.is_tile
    kind = memory.memory_layout
    need(not memory.is_sharded or tiled or kind is HEIGHT, "Embedding only supports height sharded Row Major outputs")
    out = case.result((*ids.shape, width), table.dtype, memory, page)
    cb = 4 * width * 2 * (TILE if tiled else 1) + 4 * ids.shape[-1]
    wide = ceil_div(width, TILE)
    tensors = case.l1(out)
    if table.layout.is_tile:  # the table is untilized first
        cb = max(cb, min(4 * wide * table.dtype.tile_bytes, MOST_UNTILIZED))
        rows = TensorLayout(PageLayout.ROW_MAJOR, table.layout.memory)
        tensors += case.l1(TensorSpec(table.shape, table.dtype, rows)) if table.layout.is_l1 else 0
    if page is PageLayout.TILE and not tiled:  # the rows are tilized afterwards
        cb = max(cb, 2 * wide * table.dtype.tile_bytes)
        rows = TensorLayout(PageLayout.ROW_MAJOR, L1_MEMORY if out.layout.is_sharded else memory)
        tensors += case.l1(TensorSpec(out.shape, out.dtype, rows)) if out.layout.is_l1 else 0
    return Usage((out,), l1=tensors, cb=cb, cores=case.device.num_cores)
