"""Reductions over one or several dims."""

from __future__ import annotations

from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import tiles


def reduce(case: Case) -> Usage:
    x = case.x
    memory = case.follow()
    shape = result_shapes(case)[0]
    need(not memory.is_sharded or memory.shard_spec is not None, "bad optional access")
    out = case.result(shape, x.dtype, memory, x.layout.page_layout)
    rows, _ = tiles(x.shape)
    cb = 8 * x.dtype.tile_bytes + 2048 + 2 * x.dtype.tile_bytes
    return Usage((out,), cb=cb, cores=min(rows, case.device.num_cores))
