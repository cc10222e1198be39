"""Rows of convolutions, pools, halos and normalisations: what one core goes through."""

from __future__ import annotations

import re
from math import gcd, isqrt, prod

from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.calibration import columns
from optimizer.opmodel.analytical.calibration.columns import Row
from optimizer.opmodel.analytical.calibration.products import fidelity
from optimizer.opmodel.analytical.work import Feed, Groups, Piece, Place, Product, Window, Work


def _kernel(row: Row) -> tuple[int, int]:
    found = re.search(r"k(\d+);(\d+)", row.get("variant") or "")
    return (int(found.group(1)), int(found.group(2))) if found else (1, 1)


def grid_of(cores: int) -> tuple[int, int]:
    """(rows, columns) of a block-sharded grid of so many cores."""
    known = {16: (4, 4), 20: (5, 4), 64: (8, 8), 80: (8, 10), 88: (8, 11), 110: (10, 11)}
    side = max(1, isqrt(cores))
    return known.get(cores, (side, max(1, cores // side)))


def conv(row: Row) -> Work:
    cores = columns.cores(row)
    m, k, n = (max(1, ceil_div(columns.number(row, c), TILE)) for c in ("M", "K", "N"))
    height, width = _kernel(row)
    shared = row.get("in0_mem") == "L1_BLOCK_SHARDED"
    down, across = grid_of(cores) if shared else (cores, 1)
    rows, wide = ceil_div(m, down), ceil_div(n, across)
    a, b = columns.dtype(row, "in0_dtype"), columns.dtype(row, "in1_dtype")
    block_h = columns.config_number(row, "act_block_h_ntiles") or 1
    k_block = columns.config_number(row, "act_block_w_ntiles") or k
    held = (
        columns.config_number(row, "out_subblock_h_ntiles") or 1,
        columns.config_number(row, "out_subblock_w_ntiles") or 1,
    )
    product = Product(
        rows, wide, k, max(1, k_block), (a.tile_bytes, b.tile_bytes), 1, block_h, wide,
        (Feed.LOCAL, Feed.DRAM_SHARED), fidelity(row), row.get("fp32_acc") in ("1", "1.0"), held,
    )  # fmt: skip
    channels = columns.number(row, "K") // max(1, height * width)
    given_back = (0, 0) if columns.is_tile(row, "out_layout") else (rows, rows * wide)
    window = Window(
        rows * TILE, 0, 0, height, width, ceil_div(channels, across) * columns.element_bytes(a),
        rows * ceil_div(k, across), block_h, shared, given_back,
    )  # fmt: skip
    return Work("conv", "conv2d", cores, *columns.pieces(row), product, window)


def pool(row: Row) -> Work:
    cores, op = columns.cores(row), row.get("op") or ""
    reads, writes = columns.pieces(row, ("in0",))
    if not op.startswith("Pool"):
        return _other(op, cores, reads, writes, row)
    height, width = _kernel(row)
    sizes = columns.given_shape(row, "out_shape")
    across = _across(row, cores)
    count = ceil_div(prod(sizes[:-1]), max(1, cores // across))
    size = ceil_div(sizes[-1], across) * columns.element_bytes(columns.dtype(row, "in0_dtype"))
    window = Window(count, height=height, width=width, stick_bytes=size)
    return Work("pool", "max_pool2d", cores, reads, writes, window=window)


def _across(row: Row, cores: int) -> int:
    """Cores that share the channels of a pixel."""
    memory = row.get("out_mem") or row.get("in0_mem") or ""
    if memory == "L1_WIDTH_SHARDED":
        return cores
    return grid_of(cores)[1] if memory == "L1_BLOCK_SHARDED" else 1


_SCANS = {"Accumulation": "cumsum", "IntImg": "integral_image", "Upsample": "upsample", "GridSample": "grid_sample"}


def _other(op: str, cores: int, reads: tuple[Piece, ...], writes: tuple[Piece, ...], row: Row) -> Work:
    """Upsampling and grid sampling write sticks, scans go through tiles."""
    name = next((short for prefix, short in _SCANS.items() if op.startswith(prefix)), op)
    if name == "grid_sample":
        points = prod(columns.given_shape(row, "in1_shape")) // 6
        channels = columns.given_shape(row, "in0_shape")[-1]
        window = Window(ceil_div(points, cores), height=2, width=2, stick_bytes=channels * 2)
        return Work("pool", name, cores, reads, writes, window=window)
    if name in ("cumsum", "integral_image"):
        return Work("scan", name, cores, reads, writes, share=_scanned(row, name, cores))
    return Work("movement", name, cores, reads, writes)


def _scanned(row: Row, name: str, cores: int) -> int:
    """Tiles of the busiest core: whole runs along the leading dim, which is the summed one."""
    sizes = columns.given_shape(row, "in0_shape")
    tiles = columns.tile_rows(sizes) * ceil_div(sizes[-1], TILE)
    if name == "integral_image" or len(sizes) < 3:
        return ceil_div(tiles, cores)
    return ceil_div(tiles // sizes[0], cores) * sizes[0]


def halo(row: Row) -> Work:
    cores = columns.cores(row)
    source, out = columns.given_shape(row, "in0_shape"), columns.given_shape(row, "out_shape")
    across = grid_of(cores)[1] if row.get("in0_mem") == "L1_BLOCK_SHARDED" else 1
    size = ceil_div(source[-1], across) * 2
    down = max(1, cores // across)
    inputs, outputs = ceil_div(prod(source[:-1]), down), ceil_div(prod(out[:-1]), down)
    tiled = columns.is_tile(row, "in0_layout")
    rows = ceil_div(inputs, TILE) if tiled else 0
    height, width = _kernel(row)
    untilized = (rows, rows * ceil_div(source[-1], TILE * across))
    window = Window(outputs, inputs, _padding(row, outputs), height, width, size, untilized=untilized)
    return Work("halo", "halo", cores, window=window)


def _padding(row: Row, outputs: int) -> int:
    """Of the pixels after a halo those that are padding, where the row says how the image is padded."""
    text = row.get("program_config") or ""
    size = re.search(r"input_hw=\((\d+);(\d+)\)", text)
    pads = re.search(r"padding=\(\((\d+); (\d+)\); \((\d+); (\d+)\)\)", text)
    if not size or not pads:
        return 0
    (height, width), (top, bottom, left, right) = map(int, size.groups()), map(int, pads.groups())
    whole = (height + top + bottom) * (width + left + right)
    return outputs * (whole - height * width) // whole


def norm(row: Row) -> Work:
    op, cores = row.get("op") or "", columns.cores(row)
    reads, writes = columns.pieces(row, ("in0",))
    if op.startswith("GroupNorm"):
        return Work("norm", "group_norm", cores, reads, writes, groups=_groups(row, cores))
    name = "softmax" if op.startswith("Softmax") else "layer_norm"
    return Work("norm", name, cores, reads, writes)


def _groups(row: Row, cores: int) -> Groups:
    found = re.search(r"g(\d+)", row.get("variant") or "")
    count = int(found.group(1)) if found else 32
    sizes = columns.given_shape(row, "in0_shape")
    rows, wide = columns.tile_rows(sizes), ceil_div(sizes[-1], TILE)
    across = 1
    if row.get("in0_mem") == "L1_BLOCK_SHARDED":
        across = grid_of(cores)[1]
    elif columns.place(row.get("in0_mem") or "") is not Place.SHARD:
        x = columns.config_number(row, "x") or cores
        across = gcd(gcd(x, wide), count)
    down = max(1, cores // across)
    return Groups(max(1, count // across), ceil_div(rows, down), down)
