"""Softmax: any layout in, any layout out; buffers hold whole rows of tiles."""

from __future__ import annotations

from optimizer.opmodel.analytical.case import Case, Usage
from optimizer.opmodel.analytical.eltwise import complete
from optimizer.opmodel.analytical.tensors import tiles


def softmax(case: Case) -> Usage:
    x = case.x
    memory = complete(case, case.follow(), x.shape, x)
    out = case.result(x.shape, x.dtype, memory, x.layout.page_layout)
    rows, wide = tiles(x.shape)
    tile = x.dtype.tile_bytes
    stable = bool(case.attrs.get("numeric_stable", True))
    cb = tile * (2 * wide + 15 if stable else wide + 22)
    return Usage((out,), cb=cb, cores=min(rows, case.device.num_cores))


def attention_softmax(case: Case) -> Usage:
    return softmax(case)
