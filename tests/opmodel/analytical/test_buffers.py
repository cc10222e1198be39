"""Bytes of buffers and of tensors, as tt-metal 0.81.1 reported them for n150 (`ttnn.graph` capture)."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.layouts.op_config import MatmulMultiCoreReuseMultiCast1DProgramConfig
from optimizer.opmodel.base import OpModel, OpQuery, TensorSpec

Attrs = tuple[tuple[str, Any], ...]
RM = PageLayout.ROW_MAJOR
SHAPE = (1, 1, 1024, 1024)
COLUMN, ROW = (1, 1, 1024, 1), (1, 1, 1, 1024)
TABLE = (30522, 768)


def _shards(layouts) -> MemoryConfig:
    memory: MemoryConfig = layouts.height(32, 32, 1024)
    return memory


def _asked(op: str, inputs: tuple[TensorSpec, ...], attrs: Attrs = (), **wanted) -> OpQuery:
    return OpQuery(f"ttnn.{op}", inputs, attrs, None, **wanted)


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "expected"),
    [
        ("multiply", (SHAPE, SHAPE), (), 12288),
        ("logical_and", (SHAPE, SHAPE), (), 16384),  # one more for what each operand is turned into
        ("maximum", (SHAPE, SHAPE), (), 12288),
        ("maximum", (SHAPE,), (("scalar", 0.0),), 8192),  # a unary op
        ("softmax", ((1, 1, 64, 3072),), (("dim", -1),), 423936),
        ("softmax", ((1, 1, 64, 3000),), (("dim", -1),), 440320),  # the mask of the last tile
        ("softmax", ((1, 1, 64, 12800),), (("dim", -1),), 532480),  # too wide to be kept
        ("softmax", ((1, 1, 512, 64),), (("dim", -2),), 215040),
        ("softmax", ((1, 1, 8192, 64),), (("dim", -2),), 38912),  # too tall to be kept
        ("attention_softmax", ((1, 12, 128, 128), (1, 1, 1, 128)), (("head_size", 64),), 90112),
        ("layer_norm", ((1, 1, 1024, 4096),), (("epsilon", 1e-5),), 651264),
    ],
)
def test_buffers_of_interleaved_tensors(
    analytical: OpModel, layouts, op: str, shapes: tuple[tuple[int, ...], ...], attrs: Attrs, expected: int
) -> None:
    answer = analytical.constraints(_asked(op, tuple(layouts.tensor(shape) for shape in shapes), attrs))
    assert (answer.error, answer.cb_bytes, answer.l1_peak_bytes) == (None, expected, 0)


def test_layer_norm_of_floats_reads_rows_in_smaller_parts(analytical: OpModel, layouts) -> None:
    x = layouts.tensor((1, 1, 1024, 4096), dtype=DType.F32)
    assert analytical.constraints(_asked("layer_norm", (x,), (("epsilon", 1e-5),))).cb_bytes == 438272


@pytest.mark.parametrize(("shape", "expected"), [(SHAPE, 0), (COLUMN, 8192), (ROW, 16384)])
def test_a_broadcast_operand_beside_shards_is_read_through_buffers(
    analytical: OpModel, layouts, shape: tuple[int, ...], expected: int
) -> None:
    shards = _shards(layouts)
    other = layouts.tensor(shape, shards if shape == SHAPE else layouts.dram)
    answer = analytical.constraints(_asked("add", (layouts.tensor(SHAPE, shards), other), output=shards))
    assert (answer.error, answer.cb_bytes, answer.l1_peak_bytes) == (None, expected, 65536)


@pytest.mark.parametrize(
    ("page", "ids", "expected"),
    [(PageLayout.TILE, RM, 196736), (RM, RM, 3328), (RM, PageLayout.TILE, 7168)],
)
def test_embedding_has_a_program_per_layout(
    analytical: OpModel, layouts, page: PageLayout, ids: PageLayout, expected: int
) -> None:
    inputs = (layouts.tensor((1, 128), dtype=DType.U32, page=ids), layouts.tensor(TABLE, page=RM))
    answer = analytical.constraints(_asked("embedding", inputs, (("layout", page.value),)))
    assert (answer.error, answer.cb_bytes) == (None, expected)


def test_a_clone_changes_the_dtype_of_tiles_only(analytical: OpModel, layouts) -> None:
    tiles = analytical.constraints(_asked("clone", (layouts.tensor(SHAPE),), output_dtype=DType.F32))
    rows = analytical.constraints(_asked("clone", (layouts.tensor(SHAPE, page=RM),), output_dtype=DType.F32))
    assert (tiles.error, tiles.cb_bytes) == (None, 12288)
    assert "only supported with tile layout" in str(rows.error)


def test_a_new_place_with_a_new_dtype_has_both_shards_in_l1(analytical: OpModel, layouts) -> None:
    shards = _shards(layouts)
    query = _asked("to_memory_config", (layouts.tensor(SHAPE),), output=shards, output_dtype=DType.F32)
    answer = analytical.constraints(query)
    assert (answer.error, answer.cb_bytes, answer.l1_peak_bytes) == (None, 65536, 131072)


def test_partial_sums_of_two_steps_are_wider_than_a_bfp8_result(analytical: OpModel, layouts) -> None:
    inputs = (layouts.tensor((1024, 128), dtype=DType.BFP8_B), layouts.tensor((128, 1024), dtype=DType.BFP8_B))
    assert analytical.constraints(_asked("matmul", inputs)).cb_bytes == 67584


@pytest.mark.parametrize(("op", "page", "expected"), [("untilize", PageLayout.TILE, 131072), ("tilize", RM, 131072)])
def test_changing_the_layout_buffers_rows_of_tiles(
    analytical: OpModel, layouts, op: str, page: PageLayout, expected: int
) -> None:
    assert analytical.constraints(_asked(op, (layouts.tensor(SHAPE, page=page),))).cb_bytes == expected


@pytest.mark.parametrize(("mcast_in0", "accepted"), [(True, True), (False, False)])
def test_blocks_taller_than_the_result_are_for_width_splits(
    analytical: OpModel, layouts, mcast_in0: bool, accepted: bool
) -> None:
    config = MatmulMultiCoreReuseMultiCast1DProgramConfig(
        compute_with_storage_grid_yx=(4, 4),
        in0_block_w=1,
        out_subblock_h=1,
        out_subblock_w=1,
        per_core_M=8,
        per_core_N=1 if mcast_in0 else 4,
        fuse_batch=True,
        fused_activation=None,
        mcast_in0=mcast_in0,
    )
    inputs = (layouts.tensor((1, 1, 128, 64)), layouts.tensor((1, 1, 64, 128)))
    answer = analytical.constraints(OpQuery("ttnn.matmul", inputs, config=config))
    assert answer.valid is accepted, answer.error


def test_shards_of_a_vector_are_rows(analytical: OpModel, layouts) -> None:
    x = layouts.tensor((32,), layouts.height(1, 32, 32))  # fine for tiles
    assert analytical.constraints(_asked("relu", (x,))).valid
    assert "1D tensor" in str(analytical.constraints(_asked("untilize", (x,))).error)


def test_unpadded_shards_are_not_derived(analytical: OpModel, layouts) -> None:
    x = layouts.tensor((1, 1, 250, 64), layouts.height(8, 32, 64))
    asked = MemoryConfig(x.layout.memory.memory_layout, x.layout.memory.buffer_type)
    answer = analytical.constraints(_asked("to_layout", (x,), (("layout", RM.value),), output=asked))
    assert "bad optional access" in str(answer.error)


@pytest.mark.parametrize(("rows", "accepted"), [(7, False), (8, True)])
def test_a_reshard_needs_an_aligned_row_of_bytes(analytical: OpModel, layouts, rows: int, accepted: bool) -> None:
    shards = layouts.height(1, rows, 1)
    answer = analytical.constraints(_asked("reshard", (layouts.tensor((rows, 1), shards, page=RM),), output=shards))
    assert answer.valid is accepted, answer.error


@pytest.mark.parametrize(
    ("rows", "channels", "groups", "columns", "expected"),
    [
        (64, 128, 1, None, 108544),
        (16, 128, 1, None, 124928),
        (48, 96, 2, None, 75776),
        (48, 96, 1, 1, 73728),
        (4, 512, 2, 1, 182272),
    ],
)
def test_a_group_norm_masks_rows_that_are_no_whole_tiles(
    analytical: OpModel, layouts, rows: int, channels: int, groups: int, columns: int | None, expected: int
) -> None:
    shape = (1, 1, rows, channels)
    memory = None if columns is None else layouts.height(1, -(-rows // 32) * 32, channels)
    x = layouts.tensor(shape) if memory is None else layouts.tensor(shape, memory)
    weights = (layouts.tensor((channels,)), layouts.tensor((channels,)))
    attrs = (("compute", (("fp32", True), ("l1acc", False))), ("epsilon", 1e-5), ("num_groups", groups))
    wanted = {"output": layouts.l1 if memory is None else memory}

    assert analytical.constraints(_asked("group_norm", (x, *weights), attrs, **wanted)).cb_bytes == expected


@pytest.mark.parametrize(("padded", "expected"), [(True, 14336), (False, 18432)])
def test_averages_that_leave_padding_out_have_divisors_of_their_own(
    analytical: OpModel, layouts, padded: bool, expected: int
) -> None:
    window = {"batch_size": 1, "input_height": 16, "input_width": 16, "channels": 24, "kernel_size": (3, 3)}
    window |= {"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "ceil_mode": False}
    attrs = tuple(sorted({**window, "count_include_pad": padded}.items()))

    assert analytical.constraints(_asked("avg_pool2d", (layouts.tensor((1, 1, 256, 24)),), attrs)).cb_bytes == expected
