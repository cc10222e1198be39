"""Convolutions, pools and group norms: the programs they run and what one core goes through in each."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from optimizer.ir.dtype import DType
from optimizer.layouts.conv_configs import is_pointwise
from optimizer.layouts.group_norm import group_norm_arguments, virtual_columns
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import TILE, ceil_div
from optimizer.opmodel.analytical.costing.pieces import Job, across, fidelity, of_tensor
from optimizer.opmodel.analytical.costing.products import matmul
from optimizer.opmodel.analytical.tensors import HEIGHT, tiles
from optimizer.opmodel.analytical.work import Feed, Groups, Piece, Place, Product, Window, Work
from optimizer.opmodel.base import TensorSpec


def _shared_cores(job: Job, layout_name: str | None) -> int:
    """Cores that share a row of the output."""
    out, x = job.out, job.query.inputs[0]
    for tensor in (out, x):
        if tensor is not None and tensor.layout.is_l1 and tensor.layout.is_sharded:
            return max(1, min(across(tensor.layout), job.cores))
    if layout_name == "block_sharded":
        return min(job.cores, job.device.grid_yx[1])
    return job.cores if layout_name == "width_sharded" else 1


def _input(job: Job, pixels: int, wide: int, down: int, channels: int) -> tuple[list[Work], bool]:
    """What brings the input into row-major-able shards, and whether it is tiled then."""
    x = job.query.inputs[0]
    part = of_tensor(x)
    if part.place is Place.SHARD:
        return [], x.layout.is_tile
    shard = Piece(part.size, part.tiles, Place.SHARD, 0 if x.layout.is_tile else part.sticks * wide)
    source = Piece(part.size, part.tiles, part.place, shard.sticks)
    return [Work("reshard", "interleaved_to_sharded", job.cores, (source,), (shard,))], x.layout.is_tile


def _halo(job: Job, pixels: int, wide: int, channels: int, kernel: tuple[int, int], tiled: bool) -> Work:
    """The exchange of edges before a window slides over the shards."""
    attrs = job.attrs
    height, width = attrs["input_height"], attrs["input_width"]
    down = max(1, job.cores // wide)
    images = max(1, pixels // max(1, height * width))
    top, bottom, left, right = attrs["padding"]
    row = width + left + right
    padded = images * ((height + top + bottom) * row - height * width)
    dilation = attrs["dilation"]
    inputs = ceil_div(pixels, down)
    # Each core also needs the rows of the image that its last window reaches.
    reach = ((kernel[0] - 1) * dilation[0]) * row + (kernel[1] - 1) * dilation[1]
    padding = ceil_div(padded, down)
    outputs = inputs + padding + min(reach, pixels)
    rows = ceil_div(inputs, TILE) if tiled else 0
    size = ceil_div(channels, wide) * 2
    window = Window(outputs, inputs, padding, *kernel, size, untilized=(rows, rows * ceil_div(channels, TILE * wide)))
    return Work("halo", "halo", job.cores, window=window)


def _result(job: Job, cores: int) -> list[Work]:
    """The copy of a result that was asked for elsewhere than where the op leaves it."""
    out = job.out
    if out is None or (out.layout.is_l1 and out.layout.is_sharded):
        return []
    part = of_tensor(out)
    shard = Piece(part.size, part.tiles, Place.SHARD, part.sticks)
    return [Work("reshard", "sharded_to_interleaved", cores, (shard,), (part,))]


def conv(job: Job) -> tuple[Work, ...]:
    """Shards, halo, convolution, and the result's copy; from DRAM to DRAM slice by slice."""
    x, out = job.query.inputs[0], job.out
    assert out is not None, "a convolution has a result"
    if job.usage.plan is not None:  # a 1x1 convolution of an interleaved input runs as `ttnn.linear`
        return matmul(replace(job, reads=(*job.reads[:1], *map(_prepared, job.reads[1:]))))
    attrs = job.attrs
    config = job.query.config if isinstance(job.query.config, Conv2dConfig) else Conv2dConfig()
    kernel: tuple[int, int] = attrs["kernel_size"]
    channels = attrs["in_channels"]
    pixels = max(1, prod(x.shape[:-1]))
    pointwise = is_pointwise(attrs)
    wide = _shared_cores(job, config.shard_layout)
    slices = max(1, job.usage.slices)
    rows, columns = tiles(out.shape)
    down = max(1, job.cores // wide)
    spec = out.layout.shard_spec
    each = (ceil_div(rows, down * slices), ceil_div(columns, wide))
    if spec is not None and out.layout.is_l1:
        each = (ceil_div(spec.shape[0], TILE), ceil_div(spec.shape[1], TILE))
    product = _conv_product(job, config, kernel, channels, each, wide, pointwise)
    before, tiled = _input(job, pixels, wide, down, channels)
    # Block shards fetch the weights again for every block of rows.
    again = ceil_div(each[0], product.block_rows) if wide > 1 and not pointwise else 1
    weights = _conv_weights(product, columns, again)
    if pointwise:
        core = [Work("matmul", "conv2d", job.cores, (Piece(0, 0, Place.SHARD), weights), (), product)]
    else:
        gathered = each[0] * ceil_div(product.depth, wide)
        stick = ceil_div(channels, wide) * 2
        given_back = (0, 0) if out.layout.is_tile else (each[0], each[0] * each[1])
        window = Window(
            each[0] * TILE, 0, 0, *kernel, stick, gathered, product.block_rows, wide > 1, given_back,
            config.enable_act_double_buffer, config.enable_weights_double_buffer,
        )  # fmt: skip
        halo = _halo(job, pixels, wide, channels, kernel, tiled and slices == 1)
        core = [halo, Work("conv", "conv2d", job.cores, (weights,), (), product, window)]
    if slices == 1:
        return (*before, *core, *_result(job, job.cores))
    one = (_slice_read(job, kernel, slices), *(_part(w, slices) for w in core), _slice_write(job, slices))
    return slices * one


def _slice_read(job: Job, kernel: tuple[int, int], slices: int) -> Work:
    """The program that cuts a slice of the input out of DRAM, with the rows (or columns) that its windows share with
    those of the next slice (tt-metal's `padded_slice`)."""
    attrs, x = job.attrs, job.query.inputs[0]
    axis = 0 if job.usage.slices_along_height else 1
    extent = attrs[("input_height", "input_width")[axis]]
    reach = (kernel[axis] - 1) * attrs["dilation"][axis] + 1
    shared = 0 if job.name == "conv_transpose2d" else reach - attrs["stride"][axis]
    # A slice reads no more than there is.
    rows = min(extent, ceil_div(extent + (slices - 1) * shared, slices))
    whole = of_tensor(x)
    size, count, sticks = (max(1, ceil_div(n * rows, extent)) for n in (whole.size, whole.tiles, whole.sticks))
    source = Piece(size, count, whole.place, sticks if whole.sticks else 0)
    window = None
    if x.layout.is_tile:
        high, wide = tiles(x.shape)
        each = ceil_div(ceil_div(high * rows, extent), job.cores)
        window = Window(each * TILE, untilized=(each, each * wide))
    held = Piece(size, count, Place.SHARD, source.sticks)
    return Work("movement", "padded_slice", job.cores, (source,), (held,), window=window)


def _slice_write(job: Job, slices: int) -> Work:
    """A slice's result on its way to its place in DRAM (tt-metal's `slice_write`)."""
    assert job.out is not None, "a convolution has a result"
    whole = of_tensor(job.out)
    size, count, sticks = (ceil_div(n, slices) for n in (whole.size, whole.tiles, whole.sticks))
    held = Piece(size, count, Place.SHARD, sticks)
    return Work("movement", "slice_write", job.cores, (held,), (Piece(size, count, whole.place, sticks),))


def _prepared(weights: Piece) -> Piece:
    """Weights that a convolution was given on the host, as it reads them: prepared, in DRAM."""
    return replace(weights, place=Place.DRAM) if weights.place is Place.HOST else weights


def _conv_weights(product: Product, columns: int, times: int) -> Piece:
    """All columns of the weight matrix, read from DRAM so many times."""
    count = product.depth * columns * times
    return Piece(count * product.tile_bytes[1], count, Place.DRAM)


def _part(work: Work, slices: int) -> Work:
    """One slice's share of a program whose window spans the whole image."""
    w = work.window
    if work.family != "halo" or w is None:
        return work
    window = Window(
        ceil_div(w.sticks, slices), ceil_div(w.inputs, slices), ceil_div(w.padding, slices), w.height, w.width,
        w.stick_bytes,
    )  # fmt: skip
    return Work("halo", work.op, work.cores, window=window)


def _conv_product(
    job: Job, config: Conv2dConfig, kernel: tuple[int, int], channels: int, each: tuple[int, int], wide: int,
    pointwise: bool,
) -> Product:  # fmt: skip
    x, weight = job.query.inputs[0], job.query.inputs[1]
    dtype = DType(config.weights_dtype) if config.weights_dtype else weight.dtype
    groups = job.attrs["groups"]
    depth = ceil_div(channels * kernel[0] * kernel[1], TILE)
    if groups > 1 and groups == channels:  # depth-wise weights are spread over blocks of the diagonal
        depth = ceil_div(channels, TILE) * kernel[0] * kernel[1]
    fid, fp32 = fidelity(job.attrs, "HiFi4")
    block_h = config.act_block_h_override // TILE or each[0]
    k_block = max(1, ceil_div(depth, wide if wide > 1 else kernel[0]))
    held = next(n for n in (8, 6, 4, 3, 2, 1) if (n <= 4 or not fp32) and each[1] % n == 0)
    feeds = (Feed.LOCAL if wide == 1 else Feed.SHARED, Feed.DRAM_SHARED)
    a_bytes = x.dtype.tile_bytes if pointwise else 2048
    return Product(
        each[0], each[1], depth, k_block, (a_bytes, dtype.tile_bytes), 1, max(1, min(block_h, each[0])), each[1],
        feeds, fid, fp32, (1, held),
    )  # fmt: skip


def pool(job: Job) -> tuple[Work, ...]:
    """Shards, halo, and the reduction of every window."""
    x, out = job.query.inputs[0], job.out
    if out is None or len(x.shape) < 2:
        return (Work("movement", job.name, job.cores, job.reads, job.writes),)
    attrs = job.attrs
    channels, pixels = x.shape[-1], max(1, prod(x.shape[:-1]))
    kernel = attrs.get("kernel_size")
    results = max(1, prod(out.shape[:-1]))
    if kernel is None:  # over the whole image
        return (Work("reduce", job.name, job.cores, job.reads, job.writes),)
    wide = _shared_cores(job, None)
    before, tiled = _input(job, pixels, wide, max(1, job.cores // wide), channels)
    count = ceil_div(results, max(1, job.cores // wide))
    window = Window(count, height=kernel[0], width=kernel[1], stick_bytes=ceil_div(channels, wide) * 2)
    works = [*before, _halo(job, pixels, wide, channels, kernel, tiled)]
    works.append(Work("pool", job.name, job.cores, window=window))
    works += _result(job, job.cores)
    return tuple(works)


def sample(job: Job) -> tuple[Work, ...]:
    """Four pixels around every point of a grid, read where they lie and weighted."""
    x, grid = job.query.inputs
    count, size = ceil_div(prod(grid.shape[:-1]), job.cores), x.shape[-1] * x.dtype.element_bytes
    window = Window(count, height=2, width=2, stick_bytes=size)
    return (Work("pool", job.name, job.cores, job.reads, job.writes, window=window),)


def groups(job: Job) -> Groups:
    """Groups and rows of one core of a group norm."""
    x: TensorSpec = job.query.inputs[0]
    count = max(1, int(job.attrs.get("num_groups", 1) or 1))
    rows, _ = tiles(x.shape)
    spec = x.layout.shard_spec
    if spec is not None and x.layout.is_l1:
        shared = 1 if x.layout.memory_layout is HEIGHT else across(x.layout)
        down = max(1, spec.num_cores // shared)
        return Groups(max(1, count // shared), max(1, ceil_div(spec.shape[0], TILE)), down)
    shared = _group_columns(job, x, count)
    down = max(1, min(rows, job.cores // shared))
    return Groups(max(1, count // shared), ceil_div(rows, down), down)


def _group_columns(job: Job, x: TensorSpec, count: int) -> int:
    """Parts into which TTNN cuts the channels of an interleaved group norm; 1 where it refuses the call."""
    given: Any = job.attrs.get("core_grid")
    if given is not None:
        return virtual_columns(int(given[0]), count, x.shape[-1]) or 1
    chosen = group_norm_arguments(x.shape, count, job.device.grid_yx)
    return 1 if chosen is None else chosen.virtual_columns
