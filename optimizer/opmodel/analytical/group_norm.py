"""Group norm.

Source: tt-metal 0.81's own messages.
"""

from __future__ import annotations

from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.tensors import DRAM_MEMORY, tiles


def group_norm(case: Case) -> Usage:
    """Interleaved input only (row-major on Wormhole alone); without a named output the result is in DRAM."""
    x = case.x
    attrs = case.attrs
    need(not x.layout.is_sharded, "group_norm of shards needs a matching core grid")
    page = PageLayout(str(attrs.get("output_layout") or x.layout.page_layout))
    wormhole = case.device.arch == "wormhole_b0"
    need(x.layout.is_tile or wormhole, "group_norm: interleaved (non-sharded) input must be in TILE layout")
    need(not attrs.get("inplace"), "inplace groupnorm not supported for unsharded tensors")
    grid = attrs.get("core_grid")
    need(grid is not None or not attrs.get("num_out_blocks"), "num_out_blocks cannot be specified without core_grid")
    memory = DRAM_MEMORY if case.output is None else case.output
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    if grid is not None:
        _check_group_grid(case, int(grid[0]), int(grid[1]))
    out = case.result(x.shape, x.dtype, memory, page)
    return Usage((out,), cb=(150 if grid is None else 400) * 1024, cores=case.device.num_cores)


def _check_group_grid(case: Case, columns: int, rows: int) -> None:
    groups = int(case.attrs.get("num_groups") or case.attrs.get("groups") or 1)
    tall, _ = tiles(case.x.shape)
    wide = case.x.shape[-1]
    across = max(1, min(columns, groups))
    while across > 1 and ((wide // across) % TILE or groups % across):
        across -= 1
    down = columns // across * rows
    need(down <= tall and tall % down == 0, "group_norm: Requested core_grid is invalid for the input dimensions")
