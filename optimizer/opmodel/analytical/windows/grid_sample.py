"""Bilinear sampling of [N, H, W, C] at the points of a grid.

Rule measured on mock devices (tt-metal 0.81.1, `pool/grid_sample`): one program. Its buffers hold a point of the grid,
twice the four pixels around one (of some tiles of channels at once), twice a tile of their weights and twice a
result. Both operands are rows; the result lies where the grid does unless another memory is asked for. TTNN also takes
grids in height shards, which are not offered.
"""

from __future__ import annotations

from math import prod

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import PageLayout
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.device_run.transfer import alignment
from optimizer.opmodel.analytical.ops.generic import result_shapes

MOST_CHANNEL_TILES = {False: 8, True: 4}
"""Tiles of channels weighted at once, in destination registers of 16 and of 32 bits."""
_FLOATS = (DType.BF16, DType.F32)


def grid_sample(case: Case) -> Usage:
    x, grid = case.inputs
    for what, tensor in (("Input", x), ("Grid", grid)):
        need(not tensor.layout.is_tile, f"{what} tensor must be ROW_MAJOR layout")
        need(tensor.dtype in _FLOATS, f"{what} tensor must be BFLOAT16 or FLOAT32")
        need(not tensor.layout.is_sharded, f"{case.query.op}: sharded operands are not supported")
    memory = grid.layout.memory if case.output is None else case.output
    need(not memory.is_sharded, f"{case.query.op}: sharded output is not supported")
    shape = result_shapes(case)[0]
    channels = x.shape[-1]
    need(channels % TILE == 0, f"Input channels must be a multiple of {TILE}, but got {channels}")
    out = case.result(shape, x.dtype, memory, PageLayout.ROW_MAJOR)
    point = round_up(grid.shape[-1] * grid.dtype.element_bytes, alignment(case.device, grid.layout.memory))
    compute = dict(case.attrs.get(COMPUTE) or ())
    tiles = min(ceil_div(channels, TILE), MOST_CHANNEL_TILES[bool(compute.get("fp32"))]) + 1
    cb = point + 2 * tiles * x.dtype.tile_bytes + 2 * channels * x.dtype.element_bytes
    return Usage((out,), cb=cb, cores=min(prod(grid.shape[:-1]), case.device.num_cores))
