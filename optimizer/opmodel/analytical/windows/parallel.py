"""How tt-metal spreads convolutions and pools over cores.

Source: tt-metal `conv2d_utils.cpp` (`determine_parallel_config`, `determine_input_memory_config`,
`create_sharded_memory_config_from_parallel_config`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    BufferType,
    CoreRange,
    MemoryConfig,
    ShardOrientation,
    ShardSpec,
    TensorMemoryLayout,
)
from optimizer.layouts.tiling import TILE, ceil_div, core_ranges_for, round_up
from optimizer.opmodel.analytical.case import need
from optimizer.opmodel.analytical.tensors import BLOCK, HEIGHT, WIDTH

Ints = NDArray[np.int64]
ROW = ShardOrientation.ROW_MAJOR
COL = ShardOrientation.COL_MAJOR


@dataclass(frozen=True, slots=True)
class Parallel:
    """`ParallelConfig`: the sharding of an input or output of a sliding-window op."""

    kind: TensorMemoryLayout
    ranges: tuple[CoreRange, ...]
    nhw: int
    """Cores along N*H*W."""
    channels: int
    """Cores along the channels."""
    orientation: ShardOrientation = ROW

    @property
    def cores(self) -> int:
        return sum((x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in self.ranges)

    def memory(self, shape: tuple[int, int]) -> MemoryConfig:
        """The L1 memory config with shards of `shape`."""
        if self.kind is HEIGHT:
            grid = (self.cores, 1)
        elif self.kind is WIDTH:
            grid = (1, self.cores)
        else:
            grid = (self.nhw, self.channels)
        return MemoryConfig(self.kind, BufferType.L1, ShardSpec(grid, shape, self.ranges, self.orientation))


def of_memory(memory: MemoryConfig) -> Parallel:
    """The parallel config that a sharded tensor already has."""
    spec = memory.shard_spec
    assert spec is not None
    rows, columns = spec.bounding_box_yx
    kind = memory.memory_layout
    if kind is HEIGHT:
        return Parallel(kind, spec.core_ranges, spec.num_cores, 1, spec.orientation)
    if kind is WIDTH:
        return Parallel(kind, spec.core_ranges, 1, spec.num_cores, spec.orientation)
    if spec.orientation is COL:
        return Parallel(kind, spec.core_ranges, columns, rows, COL)
    return Parallel(kind, spec.core_ranges, rows, columns, ROW)


def walks_rows(ranges: tuple[CoreRange, ...]) -> bool:
    """Whether the cores, in their order, are the first of a walk row by row over their bounding box from (0, 0)."""
    width = max(r[2] for r in ranges) + 1
    cores = [(x, y) for x0, y0, x1, y1 in ranges for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)]
    return all(core == (i % width, i // width) for i, core in enumerate(cores))


def divisor_with_padding(num: int, start: int, multiple: int = 1) -> int:
    """Largest divisor from `start` downwards that leaves no core idle once `num` is padded up to it."""
    divisor = start
    while divisor > 1:
        share = -(-num // (divisor * multiple)) * multiple
        if share * divisor - num < share:
            break
        divisor -= 1
    return divisor


def common_divisor(num1: int, num2: int, start: int) -> int:
    divisor = start
    while num1 % divisor or num2 % divisor:
        divisor -= 1
    return divisor


def _flat(kind: TensorMemoryLayout, cores: int, device: DeviceSpec) -> Parallel:
    grid = (cores, 1) if kind is HEIGHT else (1, cores)
    return Parallel(kind, core_ranges_for(kind, grid, device), grid[0], grid[1])


def _block(nhw: int, channels: int, orientation: ShardOrientation) -> Parallel:
    rows, columns = (nhw, channels) if orientation is ROW else (channels, nhw)
    return Parallel(BLOCK, ((0, 0, columns - 1, rows - 1),), nhw, channels, orientation)


@lru_cache(maxsize=16384)
def determine(
    kind: TensorMemoryLayout,
    in_channels: int,
    out_nhw: int,
    out_channels: int,
    alignment: int,
    device: DeviceSpec,
    orientation: ShardOrientation,
    pad_channels: bool,
    tile_height: int = TILE,
    tile_width: int = TILE,
    act_block_h: int = 0,
) -> Parallel:
    """`determine_parallel_config`. Refused for INTERLEAVED."""
    height = ceil_div(out_nhw, tile_height)
    override = max(1, act_block_h // TILE)
    rows, columns = device.grid_yx
    if kind is HEIGHT:
        return _flat(HEIGHT, divisor_with_padding(height, rows * columns, override), device)
    if kind is BLOCK:
        start_nhw, start_c = (columns, rows) if orientation is COL else (rows, columns)
        blocks = ceil_div(in_channels, alignment)
        nhw = divisor_with_padding(height, start_nhw, override)
        if pad_channels:
            channels = divisor_with_padding(blocks, start_c)
        else:
            channels = common_divisor(ceil_div(out_channels, tile_width), blocks, start_c)
        return _block(nhw, channels, orientation)
    need(kind is WIDTH, f"Conv2d supports Height, Block or Width Sharded Layouts but got {kind}")
    blocks = ceil_div(in_channels, tile_width)
    if pad_channels:
        return _flat(WIDTH, divisor_with_padding(blocks, rows * columns), device)
    return _flat(WIDTH, common_divisor(blocks, blocks, rows * columns), device)


@lru_cache(maxsize=16384)
def determine_output(source: Parallel, out_channels: int, device: DeviceSpec, matmul: bool) -> Parallel:
    """`determine_output_parallel_config`: the channels of the result are spread again, except for matmuls."""
    if matmul:
        return source
    blocks = ceil_div(out_channels, TILE)
    rows, columns = device.grid_yx
    if source.kind is WIDTH:
        return _flat(WIDTH, divisor_with_padding(blocks, rows * columns), device)
    if source.kind is BLOCK:
        start = rows if source.orientation is COL else columns
        return _block(source.nhw, divisor_with_padding(blocks, start), source.orientation)
    return source


def input_shard(source: Parallel, nhw: int, channels: int, alignment: int, row_major: bool) -> tuple[int, int]:
    """Shard shape of an input that is (re)sharded to `source` (`determine_input_memory_config`)."""
    unit = 1 if source.kind is WIDTH and row_major else TILE
    height = round_up(nhw, source.nhw * unit) // source.nhw
    width = round_up(channels, source.channels * alignment) // source.channels
    return (height, width)


def shard_bytes(shard: tuple[int, int], dtype: DType, row_major: bool) -> int:
    """Bytes of an L1 shard."""
    if row_major:
        return shard[0] * round_up(shard[1] * dtype.element_bytes, 16)
    return ceil_div(shard[0], TILE) * ceil_div(shard[1], TILE) * dtype.tile_bytes


def output_shard(target: Parallel, nhw: int, channels: int) -> tuple[int, int]:
    """Shard shape of a convolution's result."""
    height = round_up(nhw, TILE) if target.kind is WIDTH else round_up(nhw, target.nhw * TILE) // target.nhw
    width = round_up(channels, target.channels * TILE) // target.channels
    return (height, width)


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window over a batch of images. Padding is (top, bottom, left, right)."""

    batch: int
    height: int
    width: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int] = (1, 1)
    ceil: bool = False
    transposed: bool = False
    """A transposed convolution: rows and columns of zeros go between the input's, then the stride is 1."""
    output_padding: tuple[int, int] = (0, 0)
    """Extra (rows, columns) of a transposed convolution's result."""
    out_hw: tuple[int, int] = field(init=False, repr=False, compare=False)
    """(height, width) of the result."""
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "out_hw", self._results())
        key = (self.batch, self.height, self.width, self.kernel, self.stride, self.padding, self.dilation, self.ceil)
        object.__setattr__(self, "_hash", hash((key, self.transposed, self.output_padding)))

    def __hash__(self) -> int:
        return self._hash

    def _results(self) -> tuple[int, int]:
        top, bottom, left, right = self.padding
        if self.transposed:
            return (
                (self.height - 1) * self.stride[0] - top - bottom + self.reach_hw[0] + self.output_padding[0] + 1,
                (self.width - 1) * self.stride[1] - left - right + self.reach_hw[1] + self.output_padding[1] + 1,
            )
        return (
            _extent(self.height, top, bottom, self.kernel[0], self.stride[0], self.dilation[0], self.ceil),
            _extent(self.width, left, right, self.kernel[1], self.stride[1], self.dilation[1], self.ceil),
        )

    @property
    def reach_hw(self) -> tuple[int, int]:
        """Rows and columns from the first to the last element a window looks at."""
        return (self.dilation[0] * (self.kernel[0] - 1), self.dilation[1] * (self.kernel[1] - 1))

    @property
    def step(self) -> tuple[int, int]:
        """Rows and columns of padded input from one window to the next."""
        return (1, 1) if self.transposed else self.stride

    @property
    def spread(self) -> tuple[int, int]:
        """Distance of neighbouring input elements in the padded input."""
        return self.stride if self.transposed else (1, 1)

    @property
    def padded_hw(self) -> tuple[int, int]:
        """(height, width) of the padded input."""
        oh, ow = self.out_hw
        if self.transposed:
            return (oh + self.reach_hw[0], ow + self.reach_hw[1])
        top, bottom, left, right = self.padding
        height, width = self.height + top + bottom, self.width + left + right
        if self.ceil:
            height = max(height, (oh - 1) * self.stride[0] + self.reach_hw[0] + 1)
            width = max(width, (ow - 1) * self.stride[1] + self.reach_hw[1] + 1)
        return (height, width)

    @property
    def spread_out(self) -> Window:
        """The plain window over the input that a transposed convolution pads and spreads."""
        height, width = self.padded_hw
        return Window(self.batch, height, width, self.kernel, (1, 1), (0, 0, 0, 0), self.dilation)

    @property
    def first_data(self) -> tuple[int, int]:
        """Padded (row, column) of the first input element."""
        if not self.transposed:
            return (self.padding[0], self.padding[2])
        height, width = self.padded_hw
        rows = height - ((self.height - 1) * self.stride[0] + 1)
        columns = width - ((self.width - 1) * self.stride[1] + 1)
        return (rows // 2, columns // 2)

    @property
    def in_nhw(self) -> int:
        return self.batch * self.height * self.width

    @property
    def out_nhw(self) -> int:
        oh, ow = self.out_hw
        return self.batch * oh * ow


def _extent(size: int, before: int, after: int, kernel: int, stride: int, dilation: int, ceil: bool) -> int:
    span = size + before + after - dilation * (kernel - 1) - 1
    if not ceil:
        return span // stride + 1
    count = ceil_div(span, stride) + 1
    return count - 1 if (count - 1) * stride >= size + before else count


@lru_cache(maxsize=1024)
def boundaries(window: Window, cores: int, snap: bool = True) -> tuple[Ints, Ints, Ints, Ints]:
    """(first output, last output, first input, last input) of each core that has output; inputs are padded ones.

    `snap`: outputs are dealt in whole tiles, as convolutions do and pools do not.
    Source: tt-metal `sliding_window.cpp`, `generate_shard_boundaries`.
    """
    oh, ow = window.out_hw
    total = window.batch * oh * ow
    unit = cores * TILE if snap else cores
    shard = round_up(total, unit) // cores
    first = np.arange(0, total, shard, dtype=np.int64)
    last = first + (shard - 1)
    last[-1] = total - 1
    height, width = window.padded_hw
    sy, sx = window.step
    reach = window.reach_hw[0] * width + window.reach_hw[1]
    y, x = np.divmod(np.concatenate((first, last)), ow)
    corner = y * (sy * width) + x * sx
    if window.batch > 1 and height != oh * sy:
        corner += y // oh * ((height - oh * sy) * width)
    return first, last, corner[: len(first)], corner[len(first) :] + reach


@lru_cache(maxsize=16384)
def halo_sticks(window: Window, nhw_cores: int, snap: bool = True) -> int:
    """Rows of the largest halo shard: input rows, padding included, that one core's results need."""
    _, _, first, last = boundaries(window, nhw_cores, snap)
    return int((last - first).max()) + 1
