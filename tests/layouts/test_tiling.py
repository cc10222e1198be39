"""Shapes to bytes, against figures of the real allocator and against counting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import L1_ROW_MAJOR, L1_TILE, PageLayout, TensorMemoryLayout
from optimizer.layouts.tiling import core_ranges_for, l1_bytes_per_core, physical_shape, sharded_layout

N150 = DeviceSpec.preset("n150")
P150 = DeviceSpec.preset("p150")
HEIGHT, WIDTH, BLOCK = (
    TensorMemoryLayout.HEIGHT_SHARDED,
    TensorMemoryLayout.WIDTH_SHARDED,
    TensorMemoryLayout.BLOCK_SHARDED,
)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 1, 1024, 512), (1024, 512)),
        ((2, 12, 197, 64), (2 * 12 * 224, 64)),
        ((5,), (32, 32)),
        ((3, 5), (32, 32)),
    ],
)
def test_tiles_pad_before_leading_dims_collapse(shape: tuple[int, ...], expected: tuple[int, int]) -> None:
    assert physical_shape(shape, PageLayout.TILE) == expected


@pytest.mark.parametrize(
    ("memory_layout", "grid_yx", "expected"),
    [
        (HEIGHT, (32, 1), ((0, 0, 7, 3),)),
        (HEIGHT, (63, 1), ((0, 0, 7, 6), (0, 7, 6, 7))),
        (WIDTH, (1, 5), ((0, 0, 4, 0),)),
        (BLOCK, (7, 8), ((0, 0, 7, 6),)),
    ],
)
def test_cores_fill_rows_first(
    memory_layout: TensorMemoryLayout, grid_yx: tuple[int, int], expected: tuple[tuple[int, int, int, int], ...]
) -> None:
    assert core_ranges_for(memory_layout, grid_yx, N150) == expected


def test_shards_of_the_documented_example() -> None:
    """tensor<1x1x1024x512xbf16>: 128x64 blocks on 8x8, 32x512 rows on 32 cores, 8 interleaved tiles a core."""
    shape = (1, 1, 1024, 512)
    block = sharded_layout(shape, BLOCK, (8, 8), N150)
    height = sharded_layout(shape, HEIGHT, (32, 1), N150)
    assert block.shard_spec is not None
    assert block.shard_spec.shape == (128, 64)
    assert height.shard_spec is not None
    assert height.shard_spec.shape == (32, 512)
    assert l1_bytes_per_core(shape, DType.BF16, block, N150) == 8 * 2048
    assert l1_bytes_per_core(shape, DType.BF16, height, N150) == 16 * 2048
    assert l1_bytes_per_core(shape, DType.BF16, L1_TILE, N150) == 8 * 2048


def test_row_major_pages_are_aligned() -> None:
    assert l1_bytes_per_core((1, 1, 65, 5), DType.BF16, L1_ROW_MAJOR, N150) == 2 * 16


@given(
    rows=st.integers(1, 400),
    cols=st.integers(1, 400),
    batch=st.integers(1, 3),
    cores=st.integers(1, 64),
    memory_layout=st.sampled_from([HEIGHT, WIDTH]),
)
def test_shards_cover_the_tensor_and_every_core_counts(
    rows: int, cols: int, batch: int, cores: int, memory_layout: TensorMemoryLayout
) -> None:
    shape = (batch, rows, cols)
    grid_yx = (cores, 1) if memory_layout is HEIGHT else (1, cores)
    layout = sharded_layout(shape, memory_layout, grid_yx, N150)
    spec = layout.shard_spec
    assert spec is not None
    height, width = physical_shape(shape, PageLayout.TILE)
    assert spec.shape[0] % 32 == 0
    assert spec.shape[1] % 32 == 0
    assert spec.shape[0] * grid_yx[0] >= height
    assert spec.shape[1] * grid_yx[1] >= width
    listed = [(x, y) for x0, y0, x1, y1 in spec.core_ranges for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)]
    assert len(listed) == len(set(listed)) == cores
    assert all(x < 8 and y < 8 for x, y in listed)


def test_blackhole_rows_are_eleven_cores_wide() -> None:
    assert core_ranges_for(HEIGHT, (23, 1), P150) == ((0, 0, 10, 1), (0, 2, 0, 2))
