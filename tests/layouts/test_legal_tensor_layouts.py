"""The layout pool of a tensor type: generation, deduplication and order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.device import DeviceSpec
from optimizer.errors import StateError
from optimizer.ir.dtype import DType
from optimizer.layouts.legal_tensor_layouts import LegalTensorLayoutAnalysis
from optimizer.layouts.memory_config import DRAM_TILE, L1_TILE, PageLayout, TensorMemoryLayout
from optimizer.layouts.tiling import ceil_div, physical_shape

N150 = DeviceSpec.preset("n150")
LIMIT = 1_300_000


def analysis_of(*dtypes: DType, device: DeviceSpec = N150) -> LegalTensorLayoutAnalysis:
    return LegalTensorLayoutAnalysis(device, dtypes or (DType.BF16,), LIMIT)


def pool(shape: tuple[int, ...]) -> list[str]:
    layouts = analysis_of().pool(shape, DType.BF16, PageLayout.TILE)
    return [layout.describe() for layout in layouts.sharded]


def test_a_two_by_two_tile_tensor_has_every_distinct_shard_once() -> None:
    assert pool((64, 64)) == [
        "l1 block_sharded 2x2 [32, 32] tile",
        "l1 block_sharded 1x2 [64, 32] tile",
        "l1 block_sharded 2x1 [32, 64] tile",
        "l1 height_sharded 2x1 [32, 64] tile",
        "l1 width_sharded 1x2 [64, 32] tile",
        "l1 block_sharded 1x1 [64, 64] tile",
        "l1 height_sharded 1x1 [64, 64] tile",
        "l1 width_sharded 1x1 [64, 64] tile",
    ]


def test_the_smallest_grid_of_a_shard_shape_stays() -> None:
    """10 rows of tiles on 9 cores would be 2 a core with 4 cores empty: 5 cores do."""
    grids = [line for line in pool((320, 32)) if "height" in line]
    assert [g.split()[2] for g in grids] == ["10x1", "5x1", "4x1", "3x1", "2x1", "1x1"]


def test_interleaved_layouts_come_first_dram_before_l1() -> None:
    layouts = analysis_of().pool((1, 1, 32, 32), DType.BF16, PageLayout.TILE)
    assert layouts.interleaved == (DRAM_TILE, L1_TILE)


def test_pools_are_shared_by_tensor_type() -> None:
    analysis = analysis_of(DType.BF16, DType.F32)
    first = analysis.pool((64, 64), DType.BF16, PageLayout.TILE)
    assert first is analysis.pool((64, 64), DType.BF16, PageLayout.TILE)
    assert first is not analysis.pool((64, 64), DType.F32, PageLayout.TILE)
    assert analysis.pool_count == 2


def test_only_scalar_types_of_the_graph_have_layouts() -> None:
    with pytest.raises(StateError, match="no layouts are generated for f32"):
        analysis_of(DType.BF16).pool((64, 64), DType.F32, PageLayout.TILE)


@pytest.mark.parametrize(("dtype", "cores"), [(DType.BF16, 4), (DType.F32, 8)])
def test_what_l1_cannot_hold_is_not_legal(dtype: DType, cores: int) -> None:
    """64 rows of tiles, 4 MiB in bf16: 1 MiB on each of 4 cores. In f32 7 cores would hold 1.25 MiB each."""
    layouts = analysis_of(dtype).pool((1, 2048, 1024), dtype, PageLayout.TILE)
    heights = [layout.num_shard_cores for layout in layouts.sharded if layout.memory_layout.value == "height_sharded"]
    assert min(heights) == cores
    assert layouts.interleaved == (DRAM_TILE, L1_TILE)
    sizes = [analysis_of(dtype).bytes_of((1, 2048, 1024), dtype, layout) for layout in layouts.too_large]
    assert min(sizes) > LIMIT


def test_a_tensor_larger_than_all_of_l1_stays_in_dram() -> None:
    layouts = analysis_of().pool((1, 65536, 4096), DType.BF16, PageLayout.TILE)
    assert (layouts.interleaved, layouts.sharded) == ((DRAM_TILE,), ())


@given(rows=st.integers(1, 3000), cols=st.integers(1, 3000), board=st.sampled_from(["n150", "p150"]))
def test_no_core_is_empty_and_no_grid_exceeds_the_tensor(rows: int, cols: int, board: str) -> None:
    device = DeviceSpec.preset(board)
    layouts = analysis_of(device=device).pool((1, rows, cols), DType.BF16, PageLayout.TILE).sharded
    height, width = physical_shape((1, rows, cols), PageLayout.TILE)
    volumes = [layout.num_shard_cores for layout in layouts]
    assert volumes == sorted(volumes, reverse=True)
    shards = [(layout.memory_layout, layout.shard_spec) for layout in layouts]
    assert len(shards) == len(set(shards))
    for layout in layouts:
        spec = layout.shard_spec
        assert spec is not None
        used = (ceil_div(height, spec.shape[0]), ceil_div(width, spec.shape[1]))
        if layout.memory_layout is not TensorMemoryLayout.BLOCK_SHARDED:
            assert used == spec.grid_yx
        else:
            assert used[0] <= spec.grid_yx[0] <= device.grid_yx[0]
            assert used[1] <= spec.grid_yx[1] <= device.grid_yx[1]


@pytest.mark.parametrize("page", list(PageLayout))
def test_row_major_shards_are_in_elements(page: PageLayout) -> None:
    layouts = analysis_of().pool((1, 1, 70, 64), DType.BF16, page).sharded
    heights = {layout.shard_spec.shape[0] for layout in layouts if layout.shard_spec is not None}
    assert (35 in heights) == (page is PageLayout.ROW_MAJOR)


@pytest.mark.parametrize(("columns", "widths"), [(24, {8, 24}), (40, {8, 40}), (37, {8, 37}), (6, {6})])
def test_rows_are_only_cut_into_pieces_of_the_alignment_of_l1(columns: int, widths: set[int]) -> None:
    layouts = analysis_of().pool((1, 1, 40, columns), DType.BF16, PageLayout.ROW_MAJOR).sharded

    assert {x.shard_spec.shape[1] for x in layouts if x.shard_spec is not None} == widths
