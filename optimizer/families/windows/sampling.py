"""Upsampling of [N, H, W, C] by nearest neighbours or bilinearly, and sampling at the points of a grid.

Sources: tt-metal 0.81 `pool/upsample` (`bilinear_upsample` and its messages), buffers measured on mock devices.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import BufferType, MemoryConfig, PageLayout, ShardSpec
from optimizer.layouts.tiling import TILE, ceil_div, round_up
from optimizer.opmodel.analytical.case import Case, Usage, need
from optimizer.opmodel.analytical.derive import flat_spec
from optimizer.opmodel.analytical.device_run.session import Held, Session, scoped
from optimizer.opmodel.analytical.device_run.transfer import alignment, interleaved_to_sharded, to_memory_config
from optimizer.opmodel.analytical.device_run.upsampling import upsample as nearest
from optimizer.opmodel.analytical.generic import result_shapes
from optimizer.opmodel.analytical.tensors import HEIGHT

NEIGHBOURS = 4
MOST_CHANNELS = 256
"""Channels weighted at once: eight tiles."""


def upsample(case: Case) -> Usage:
    x = case.x
    need(len(x.shape) == 4, "input must be [N, H, W, C]")
    given = case.attrs["scale_factor"]
    sh, sw = given if isinstance(given, tuple) else (given, given)
    session = Session(case)
    held = session.inputs[0]
    if case.attrs.get("mode") == "bilinear":
        whole = float(sh).is_integer() and float(sw).is_integer()
        need(whole, "bilinear mode requires integer scale factors")
        need(not case.fp32(), "fp32_dest_acc_en as true not supported for upsample bilinear")
        return session.usage(_bilinear(session, held, (int(sh), int(sw)), case.output))
    return session.usage(nearest(session, held, (float(sh), float(sw)), case.output))


@scoped
def _bilinear(session: Session, held: Held, scale: tuple[int, int], memory: MemoryConfig | None) -> Held:
    """`bilinear_upsample`: rows over the cores, each with the rows around it, then four neighbours are weighted."""
    n, h, w, c = held.shape
    need(c % TILE == 0, "input channels should be divisible by 32")
    need(not held.is_tile, "Physical shard shape must be tile sized: bilinear upsampling of tiles")
    cores, width = min(session.device.num_cores, n * h * w), c
    if held.is_sharded:
        need(held.memory.memory_layout is HEIGHT, "bilinear upsampling supports height sharded input only")
        need(memory is None or memory.is_sharded, "bad optional access")
        need(memory is None or _cut_by_rows(memory), "the shards asked of sharded rows must be whole rows")
        cores, width = held.spec.num_cores, held.spec.shape[1]
    else:
        interleaved_to_sharded(session, held, _rows_over(session, n * h * w, c, cores))
    shape = (n, h * scale[0], w * scale[1], c)
    results = ceil_div(prod(shape[:3]), cores)
    target = MemoryConfig(HEIGHT, BufferType.L1, flat_spec(HEIGHT, cores, (results, c), session.device))
    if held.is_sharded:
        spec = held.spec
        cut = ShardSpec(spec.grid_yx, (results, c), spec.core_ranges, spec.orientation)
        target = MemoryConfig(HEIGHT, BufferType.L1, cut)
    sticks = _around((n, h, w), scale, results)
    around = MemoryConfig(HEIGHT, BufferType.L1, flat_spec(HEIGHT, cores, (sticks, width), session.device))
    session.make((1, 1, cores * sticks, width), held.dtype, PageLayout.ROW_MAJOR, around)
    session.run(cb=2 * c * held.dtype.element_bytes)
    out = session.make(shape, held.dtype, PageLayout.ROW_MAJOR, target)
    session.run(cb=NEIGHBOURS * 2 * 2 * (c + min(c, MOST_CHANNELS)) + 4 * TILE * TILE * 2)
    return out if memory is None else to_memory_config(session, out, memory)


def _cut_by_rows(memory: MemoryConfig) -> bool:
    """Whether a sharded result is cut in rows alone: TTNN divides its rows by all the cores that are asked for."""
    spec = memory.shard_spec
    return spec is None or memory.memory_layout is HEIGHT or spec.grid_yx[1] == 1


def _rows_over(session: Session, rows: int, channels: int, cores: int) -> MemoryConfig:
    size = ceil_div(rows, cores)
    return MemoryConfig(
        HEIGHT, BufferType.L1, flat_spec(HEIGHT, ceil_div(rows, size), (size, channels), session.device)
    )


@lru_cache(maxsize=1024)
def _around(image: tuple[int, int, int], scale: tuple[int, int], results: int) -> int:
    """Padded input elements between the first and the last neighbour of a core's results; the most of any core."""
    n, h, w = image
    high, wide = h * scale[0], w * scale[1]
    total, most = n * high * wide, 0

    def corner(index: int) -> int:
        """Position of a result's upper left neighbour in the padded input."""
        row, column = index // wide % high, index % wide
        y = (2 * row + 1 - scale[0]) // (2 * scale[0]) + 1
        x = (2 * column + 1 - scale[1]) // (2 * scale[1]) + 1
        return (index // (wide * high) * (h + 2) + y) * (w + 2) + x

    for first in range(0, total, results):
        last = min(first + results, total) - 1
        begins = range((first // wide + 1) * wide, last + 1, wide)  # a row may start left of the one before
        low = min(map(corner, (first, *begins)))
        high_end = max(map(corner, (last, *(index - 1 for index in begins))))
        most = max(most, high_end + w + 3 - low + 1)
    return most


MOST_CHANNEL_TILES = {False: 8, True: 4}
"""Tiles of channels weighted at once, in destination registers of 16 and of 32 bits."""
_FLOATS = (DType.BF16, DType.F32)


def grid_sample(case: Case) -> Usage:
    """Bilinear sampling of [N, H, W, C] at the points of a grid.

    Rule measured on mock devices (tt-metal 0.81.1, `pool/grid_sample`): one program. Its buffers hold a point of the
    grid, twice the four pixels around one (of some tiles of channels at once), twice a tile of their weights and twice
    a result. Both operands are rows; the result lies where the grid does unless another memory is asked for. TTNN also
    takes grids in height shards, which are not offered.
    """
    x, grid = case.inputs
    for what, tensor in (("Input", x), ("Grid", grid)):
        need(not tensor.layout.is_tile, f"{what} tensor must be ROW_MAJOR layout")
        need(tensor.dtype in _FLOATS, f"{what} tensor must be BFLOAT16 or FLOAT32")
        case.need_interleaved(tensor)
    memory = case.interleaved(grid.layout.memory if case.output is None else case.output)
    shape = result_shapes(case)[0]
    channels = x.shape[-1]
    need(channels % TILE == 0, f"Input channels must be a multiple of {TILE}, but got {channels}")
    out = case.result(shape, x.dtype, memory, PageLayout.ROW_MAJOR)
    point = round_up(grid.shape[-1] * grid.dtype.element_bytes, alignment(case.device, grid.layout.memory))
    tiles = min(ceil_div(channels, TILE), MOST_CHANNEL_TILES[case.fp32()]) + 1
    cb = point + 2 * tiles * x.dtype.tile_bytes + 2 * channels * x.dtype.element_bytes
    return Usage((out,), cb=cb, cores=min(prod(grid.shape[:-1]), case.device.num_cores))
