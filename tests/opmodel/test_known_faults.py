"""Convolutions and element-wise ops that tt-metal accepts and computes wrongly (pools: `test_pool_values`).

Every case was run on tt-metal's simulator (`benchmarks/layout_values.py`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import (
    DRAM_ROW_MAJOR,
    DRAM_TILE,
    HOST_ROW_MAJOR,
    L1_ROW_MAJOR,
    PageLayout,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import Conv2dConfig, MatmulMultiCoreReuseMultiCast1DProgramConfig
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, Rejection, TensorSpec
from optimizer.opmodel.known_faults import fault
from optimizer.opmodel.registry import create

N150 = DeviceSpec.preset("n150")
BLOCK = TensorMemoryLayout.BLOCK_SHARDED
HEIGHT = TensorMemoryLayout.HEIGHT_SHARDED
WIDTH = TensorMemoryLayout.WIDTH_SHARDED


def rows(columns: int, kind: TensorMemoryLayout, grid: tuple[int, int], side: int = 10) -> TensorLayout:
    return sharded_layout((1, 1, side * side, columns), kind, grid, N150, PageLayout.ROW_MAJOR)


def convolved(
    model: OpModel, cin: int, kernel: int, layout: TensorLayout, cout: int = 64, side: int = 10, dilation: int = 1
) -> OpConstraints:
    attrs: dict[str, Any] = {
        "batch_size": 1,
        "input_height": side,
        "input_width": side,
        "kernel_size": (kernel, kernel),
        "stride": (1, 1),
        "padding": (kernel // 2,) * 4,
        "dilation": (dilation, dilation),
        "in_channels": cin,
        "out_channels": cout,
        "groups": 1,
    }
    inputs = (
        TensorSpec((1, 1, side * side, cin), DType.BF16, layout),
        TensorSpec((cout, cin, kernel, kernel), DType.BF16, HOST_ROW_MAJOR),
    )
    config = Conv2dConfig(weights_dtype="bf16", shard_layout=layout.memory_layout.value, slice="l1")
    return model.constraints(OpQuery("ttnn.conv2d", inputs, tuple(sorted(attrs.items())), config))


@pytest.mark.parametrize(
    ("cin", "kernel", "kind", "grid"),
    [
        (40, 3, BLOCK, (4, 2)),
        (48, 3, BLOCK, (4, 4)),
        (256, 3, BLOCK, (8, 7)),
        (20, 3, HEIGHT, (4, 1)),
        (20, 1, HEIGHT, (4, 1)),
        (40, 1, HEIGHT, (4, 1)),
        (16, 3, WIDTH, (1, 1)),
    ],
)
def test_rows_that_a_convolution_would_pad_and_spread_anew_are_not_legal(
    analytical: OpModel, cin: int, kernel: int, kind: TensorMemoryLayout, grid: tuple[int, int]
) -> None:
    answer = convolved(
        analytical, cin, kernel, rows(cin, kind, grid), 256 if cin == 256 else 64, 16 if cin == 256 else 10
    )

    assert answer.kind is Rejection.WRONG_VALUES


@pytest.mark.parametrize(
    ("cin", "kernel", "kind", "grid"),
    [
        (64, 3, BLOCK, (4, 2)),
        (64, 3, BLOCK, (4, 8)),
        (72, 3, BLOCK, (4, 3)),
        (40, 3, HEIGHT, (4, 1)),
        (64, 1, HEIGHT, (7, 1)),
    ],
)
def test_rows_that_a_convolution_takes_as_they_are_stay_legal(
    analytical: OpModel, cin: int, kernel: int, kind: TensorMemoryLayout, grid: tuple[int, int]
) -> None:
    assert convolved(analytical, cin, kernel, rows(cin, kind, grid)).valid


def test_a_dilated_kernel_of_one_pixel_is_a_convolution_and_no_matmul(analytical: OpModel) -> None:
    """tt-metal's `use_matmul_for_1x1_conv` asks for a dilation of 1."""
    layout = rows(40, HEIGHT, (4, 1))
    assert convolved(analytical, 40, 1, layout).kind is Rejection.WRONG_VALUES
    assert convolved(analytical, 40, 1, layout, dilation=2).valid


def eltwise(op: str, columns: int, given: tuple[TensorLayout, ...], result: TensorLayout, last: int = 0) -> str | None:
    inputs = [TensorSpec((1, 1, 100, columns), DType.BF16, layout) for layout in given]
    if last:
        inputs[-1] = TensorSpec((1, 1, 100, last), DType.BF16, given[-1])
    return fault(OpQuery(op, tuple(inputs), (), None, result.memory))


@pytest.mark.parametrize(
    ("op", "columns", "given", "result"),
    [
        ("ttnn.silu", 16, (rows(16, BLOCK, (8, 2)),), DRAM_ROW_MAJOR),
        ("ttnn.silu", 24, (rows(24, WIDTH, (1, 5)),), rows(24, WIDTH, (1, 24))),
        ("ttnn.silu", 24, (rows(24, HEIGHT, (34, 1)),), rows(24, BLOCK, (8, 8))),
        ("ttnn.add", 24, (L1_ROW_MAJOR, DRAM_ROW_MAJOR), rows(24, WIDTH, (1, 24))),
        ("ttnn.add", 16, (DRAM_ROW_MAJOR, rows(16, BLOCK, (8, 2))), DRAM_ROW_MAJOR),
    ],
)
def test_element_wise_ops_do_not_cut_rows_anew(
    op: str, columns: int, given: tuple[TensorLayout, ...], result: TensorLayout
) -> None:
    assert "elements out of place" in str(eltwise(op, columns, given, result))


@pytest.mark.parametrize(
    ("op", "columns", "given", "result", "last"),
    [
        ("ttnn.silu", 16, (rows(16, BLOCK, (5, 1)),), rows(16, BLOCK, (8, 1)), 0),
        ("ttnn.silu", 24, (L1_ROW_MAJOR,), rows(24, BLOCK, (8, 1)), 0),
        ("ttnn.add", 16, (L1_ROW_MAJOR, DRAM_ROW_MAJOR), rows(16, BLOCK, (8, 1)), 0),
        ("ttnn.multiply", 16, (L1_ROW_MAJOR, DRAM_ROW_MAJOR), rows(16, BLOCK, (8, 1)), 1),
    ],
)
def test_rows_in_equal_pieces_are_right_in_any_shards(
    op: str, columns: int, given: tuple[TensorLayout, ...], result: TensorLayout, last: int
) -> None:
    assert eltwise(op, columns, given, result, last) is None


def depthwise(
    kernel: int = 3, dilation: int = 1, stride: int = 1, bias: bool = False, kind: TensorMemoryLayout | None = None
) -> OpQuery:
    """A depthwise convolution of one row of 100 columns of 64 channels in DRAM."""
    attrs: dict[str, Any] = {
        "batch_size": 1,
        "input_height": 1,
        "input_width": 100,
        "kernel_size": (1, kernel),
        "stride": (1, stride),
        "dilation": (1, dilation),
        "in_channels": 64,
        "out_channels": 64,
        "groups": 64,
    }
    inputs = [
        TensorSpec((1, 1, 100, 64), DType.BF16, DRAM_ROW_MAJOR),
        TensorSpec((64, 1, 1, kernel), DType.BF16, HOST_ROW_MAJOR),
        TensorSpec((1, 1, 1, 64), DType.BF16, HOST_ROW_MAJOR),
    ]
    config = Conv2dConfig() if kind is None else Conv2dConfig(shard_layout=kind.value, slice="l1")
    return OpQuery("ttnn.conv2d", tuple(inputs[: 3 if bias else 2]), tuple(sorted(attrs.items())), config)


@pytest.mark.parametrize(
    "query",
    [depthwise(kind=BLOCK), depthwise(dilation=2), depthwise(7, 2, kind=HEIGHT), depthwise(kernel=4, stride=4)],
)
def test_depthwise_rows_without_a_bias_are_refused(query: OpQuery) -> None:
    assert "depthwise convolution of one row" in str(fault(query))


@pytest.mark.parametrize(
    "query",
    [depthwise(), depthwise(kind=HEIGHT), depthwise(kind=BLOCK, bias=True), depthwise(dilation=2, bias=True)],
)
def test_what_of_them_is_right_is_offered(query: OpQuery) -> None:
    assert fault(query) is None


@pytest.mark.parametrize(("positions", "right"), [(32, True), (64, True), (1, False), (50, False)])
def test_rotary_positions_are_whole_tiles(positions: int, right: bool) -> None:
    x = TensorSpec((1, 2, positions, 64), DType.BF16, DRAM_TILE)
    table = TensorSpec((1, 1, 64, 64), DType.BF16, DRAM_TILE)
    why = fault(OpQuery("ttnn.rotary_embedding", (x, table, table)))
    assert why is None if right else "whole tiles" in str(why)


def norm(
    width: int, rows: int, kind: TensorMemoryLayout, grid: tuple[int, int], op: str = "ttnn.layer_norm"
) -> OpQuery:
    layout = sharded_layout((1, rows, width), kind, grid, N150)
    return OpQuery(op, (TensorSpec((1, rows, width), DType.BF16, layout),), (("epsilon", 1e-5),), None, layout.memory)


@pytest.mark.parametrize("op", ["ttnn.layer_norm", "ttnn.rms_norm"])
@pytest.mark.parametrize(
    ("width", "rows", "kind", "grid", "right"),
    [
        (384, 64, WIDTH, (1, 12), False),
        (384, 128, WIDTH, (1, 12), False),
        (288, 64, WIDTH, (1, 9), False),
        (384, 32, WIDTH, (1, 12), True),
        (384, 64, WIDTH, (1, 6), True),
        (512, 64, WIDTH, (1, 16), True),
        (384, 384, HEIGHT, (12, 1), True),
        (384, 64, BLOCK, (2, 6), True),
    ],
)
def test_norms_of_width_shards_are_on_rectangles(
    op: str, width: int, rows: int, kind: TensorMemoryLayout, grid: tuple[int, int], right: bool
) -> None:
    why = fault(norm(width, rows, kind, grid, op))

    assert why is None if right else "no rectangle" in str(why)


@pytest.mark.parametrize(
    ("channels", "right"), [(8, False), (24, False), (40, False), (72, False), (16, True), (48, True)]
)
def test_pools_give_rows_of_whole_faces(channels: int, right: bool) -> None:
    layout = sharded_layout((1, 1, 576, channels), HEIGHT, (18, 1), N150, PageLayout.ROW_MAJOR)
    x = TensorSpec((1, 1, 2304, channels), DType.BF16, DRAM_TILE)

    why = fault(OpQuery("ttnn.max_pool2d", (x,), (), None, layout.memory))

    assert why is None if right else "whole faces" in str(why)


@pytest.mark.parametrize(
    ("kernel", "stride", "cin", "cout", "kind", "grid", "bias", "right"),
    [
        ((1, 3), 1, 48, 72, BLOCK, (8, 1), True, False),
        ((1, 5), 1, 64, 64, BLOCK, (4, 1), True, False),
        ((1, 1), 2, 64, 128, BLOCK, (2, 1), True, False),
        ((1, 1), 2, 64, 128, BLOCK, (2, 2), False, False),
        ((1, 5), 1, 96, 128, BLOCK, (2, 2), False, False),
        ((2, 2), 1, 64, 128, BLOCK, (2, 1), False, False),
        ((1, 3), 1, 64, 32, BLOCK, (8, 1), True, True),
        ((1, 3), 1, 64, 72, BLOCK, (8, 2), True, True),
        ((1, 3), 1, 64, 72, HEIGHT, (8, 1), True, True),
        ((1, 1), 2, 64, 96, BLOCK, (1, 1), False, True),
        ((1, 1), 2, 128, 256, BLOCK, (2, 4), False, True),
        ((2, 2), 1, 64, 128, BLOCK, (2, 1), True, True),
        ((3, 1), 1, 64, 72, BLOCK, (8, 1), True, True),
        ((3, 3), 1, 64, 72, BLOCK, (8, 1), True, True),
        ((1, 1), 1, 64, 72, BLOCK, (8, 1), True, True),
    ],
)
def test_convolutions_of_blocks_add_up_enough_of_them(
    kernel: tuple[int, int], stride: int, cin: int, cout: int, kind: TensorMemoryLayout, grid: tuple[int, int],
    bias: bool, right: bool,
) -> None:  # fmt: skip
    x = TensorSpec((1, 1, 256, cin), DType.BF16, sharded_layout((1, 1, 256, cin), kind, grid, N150))

    why = fault(convolution(x, kernel, cout, (stride, stride), bias, kind.value))

    assert why is None if right else "too few" in str(why)


def convolution(
    x: TensorSpec, kernel: tuple[int, int], cout: int, stride: tuple[int, int], bias: bool, shard_layout: str | None
) -> OpQuery:
    cin = x.shape[-1]
    attrs: dict[str, Any] = {
        "kernel_size": kernel, "stride": stride, "in_channels": cin, "out_channels": cout, "input_height": 32,
    }  # fmt: skip
    shapes = ((cout, cin, *kernel), (1, 1, 1, cout))[: 2 if bias else 1]
    weights = tuple(TensorSpec(shape, DType.BF16, HOST_ROW_MAJOR) for shape in shapes)
    return OpQuery("ttnn.conv2d", (x, *weights), tuple(sorted(attrs.items())), Conv2dConfig(shard_layout=shard_layout))


@pytest.mark.parametrize(("bias", "grid"), [(True, (2, 1)), (False, (2, 2))])
def test_a_product_that_width_shards_are_asked_of_adds_up_as_a_convolution(bias: bool, grid: tuple[int, int]) -> None:
    x = TensorSpec((1, 1, 256, 64), DType.BF16, sharded_layout((1, 1, 256, 64), BLOCK, grid, N150))

    assert "too few" in str(fault(convolution(x, (1, 1), 128, (1, 1), bias, WIDTH.value)))
    assert fault(convolution(x, (1, 1), 128, (1, 1), bias, BLOCK.value)) is None


@pytest.mark.parametrize(
    ("page", "cin", "asked", "right"),
    [
        (DRAM_TILE, 32, BLOCK.value, False),
        (DRAM_TILE, 48, BLOCK.value, True),
        (DRAM_ROW_MAJOR, 24, BLOCK.value, True),
        (DRAM_ROW_MAJOR, 8, BLOCK.value, False),
        (DRAM_ROW_MAJOR, 8, None, False),
        (DRAM_ROW_MAJOR, 8, HEIGHT.value, True),
    ],
)
def test_blocks_that_such_a_convolution_cuts_itself_are_judged_alike(
    page: TensorLayout, cin: int, asked: str | None, right: bool
) -> None:
    x = TensorSpec((1, 1, 256, cin), DType.BF16, page)

    why = fault(convolution(x, (1, 3), 72, (1, 1), True, asked))

    assert why is None if right else "too few" in str(why)


@pytest.mark.parametrize(
    ("held", "asked", "right"), [(64, 40, False), (64, 64, True), (40, 40, True), (64, None, True), (40, 64, True)]
)
def test_rows_wider_than_their_tensor_keep_their_width(held: int, asked: int | None, right: bool) -> None:
    def rows_of(columns: int, cores: int) -> TensorLayout:
        return sharded_layout((1, 1, 576, columns), HEIGHT, (cores, 1), N150, PageLayout.ROW_MAJOR)

    x = TensorSpec((1, 1, 576, 40), DType.BF16, rows_of(held, 36))
    memory = DRAM_ROW_MAJOR.memory if asked is None else rows_of(asked, 18).memory

    why = fault(OpQuery("ttnn.to_memory_config", (x,), (), None, memory))

    assert why is None if right else "moves them" in str(why)


@pytest.mark.parametrize(
    ("op", "channels", "grid", "wide", "right"),
    [
        ("avg_pool2d", 160, (1, 1), True, False),
        ("avg_pool2d", 384, (1, 2), True, False),
        ("avg_pool2d", 128, (1, 1), True, True),
        ("avg_pool2d", 192, (1, 1), False, True),
        ("avg_pool2d", 256, (1, 2), True, True),
        ("max_pool2d", 192, (1, 1), True, True),
    ],
)
def test_averages_with_wide_sums_are_of_four_tiles_of_channels(
    op: str, channels: int, grid: tuple[int, int], wide: bool, right: bool
) -> None:
    shape = (1, 1, 64, channels)
    x = TensorSpec(shape, DType.BF16, sharded_layout(shape, WIDTH, grid, N150))

    why = fault(OpQuery(f"ttnn.{op}", (x,), (("compute", (("fp32", wide),)),)))

    assert why is None if right else "32-bit sums" in str(why)


@pytest.mark.parametrize("op", ["ttnn.sum", "ttnn.mean", "ttnn.max"])
@pytest.mark.parametrize(
    ("kind", "grid", "other", "dim", "right"),
    [
        (WIDTH, (1, 4), HEIGHT, -2, False),
        (WIDTH, (1, 4), HEIGHT, -1, True),
        (WIDTH, (1, 4), BLOCK, -2, True),
        (WIDTH, (1, 4), WIDTH, -2, True),
        (HEIGHT, (2, 1), HEIGHT, -2, True),
        (BLOCK, (2, 4), HEIGHT, -2, True),
    ],
)
def test_sums_of_width_shards_along_their_rows_stay_in_such_shards(
    op: str, kind: TensorMemoryLayout, grid: tuple[int, int], other: TensorMemoryLayout, dim: int, right: bool
) -> None:
    x = TensorSpec((1, 1, 64, 128), DType.BF16, sharded_layout((1, 1, 64, 128), kind, grid, N150))
    result = (1, 1, 1, 128) if dim == -2 else (1, 1, 64, 1)
    asked = sharded_layout(result, other, (1, 1), N150).memory

    why = fault(OpQuery(op, (x,), (("dim", dim), ("keepdim", True)), output=asked))

    assert why is None if right else "height shards" in str(why)


@pytest.mark.parametrize("op", ["ttnn.layer_norm", "ttnn.rms_norm"])
@pytest.mark.parametrize(
    ("kind", "grid", "other", "right"),
    [
        (BLOCK, (2, 6), (2, 3), False),
        (BLOCK, (2, 6), (1, 6), False),
        (WIDTH, (1, 6), (1, 3), False),
        (BLOCK, (2, 6), (2, 6), True),
        (WIDTH, (1, 6), (1, 6), True),
    ],
)
def test_norms_leave_their_results_in_the_operands_shards(
    op: str, kind: TensorMemoryLayout, grid: tuple[int, int], other: tuple[int, int], right: bool
) -> None:
    query = replace(norm(384, 64, kind, grid, op), output=sharded_layout((1, 64, 384), kind, other, N150).memory)

    why = fault(query)

    assert why is None if right else "not in the shards asked for" in str(why)


def product(
    a: tuple[int, ...], b: tuple[int, ...], kind: TensorMemoryLayout | None, grid: tuple[int, int] = (2, 1)
) -> OpQuery:
    layout = DRAM_TILE if kind is None else sharded_layout(a, kind, grid, N150)
    return OpQuery("ttnn.matmul", (TensorSpec(a, DType.BF16, layout), TensorSpec(b, DType.BF16, DRAM_TILE)))


@pytest.mark.parametrize(
    ("a", "b", "kind", "right"),
    [
        ((1, 2, 64, 8), (1, 2, 8, 56), HEIGHT, False),
        ((1, 2, 64, 40), (1, 2, 40, 56), BLOCK, False),
        ((1, 3, 50, 50), (1, 3, 50, 64), HEIGHT, False),
        ((1, 2, 64, 40), (1, 2, 40, 56), None, True),
        ((1, 2, 64, 8), (1, 1, 8, 56), HEIGHT, True),
        ((1, 1, 64, 40), (1, 1, 40, 56), HEIGHT, True),
        ((1, 2, 64, 64), (1, 2, 64, 56), HEIGHT, True),
    ],
)
def test_batches_of_products_read_no_shards_of_partial_tiles(
    a: tuple[int, ...], b: tuple[int, ...], kind: TensorMemoryLayout | None, right: bool
) -> None:
    why = fault(product(a, b, kind))

    assert why is None if right else "beyond the" in str(why)


@pytest.mark.parametrize(("grid", "right"), [((1, 1), True), ((1, 3), True), ((2, 1), False), ((4, 1), False)])
def test_the_1d_config_fills_blocks_of_one_row_of_cores(grid: tuple[int, int], right: bool) -> None:
    config = MatmulMultiCoreReuseMultiCast1DProgramConfig((8, 8), 1, 1, 1, 2, 3, mcast_in0=grid[0] == 1)
    asked = sharded_layout((1, 1, 128, 96), BLOCK, grid, N150).memory

    why = fault(replace(product((1, 1, 128, 64), (1, 1, 64, 96), None), config=config, output=asked))

    assert why is None if right else "one row of them" in str(why)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize(
    ("kind", "grid", "asked", "right"),
    [
        (HEIGHT, (4, 1), (HEIGHT, (4, 1)), True),
        (HEIGHT, (4, 1), (HEIGHT, (8, 1)), False),
        (HEIGHT, (4, 1), (BLOCK, (2, 1)), False),
        (BLOCK, (4, 1), (HEIGHT, (4, 1)), False),
        (WIDTH, (1, 2), (HEIGHT, (8, 1)), True),
    ],
)
def test_upsampled_shards_stay_on_their_cores(
    mode: str, kind: TensorMemoryLayout, grid: tuple[int, int], asked: tuple[TensorMemoryLayout, tuple[int, int]],
    right: bool,
) -> None:  # fmt: skip
    shape, result = (1, 8, 8, 64), (1, 16, 16, 64)
    x = TensorSpec(shape, DType.BF16, sharded_layout(shape, kind, grid, N150, PageLayout.ROW_MAJOR))
    attrs = (("mode", mode), ("scale_factor", (2, 2)))

    why = fault(
        OpQuery("ttnn.upsample", (x,), attrs, None, sharded_layout(result, *asked, N150, PageLayout.ROW_MAJOR).memory)
    )

    assert why is None if right else "leaves the result there" in str(why)


@pytest.mark.parametrize(
    ("op", "columns", "dtype", "right"),
    [
        ("ttnn.max", 40, DType.BFP8_B, False),
        ("ttnn.max", 48, DType.BFP8_B, True),
        ("ttnn.min", 48, DType.BFP8_B, False),
        ("ttnn.min", 64, DType.BFP8_B, True),
        ("ttnn.max", 40, DType.BF16, True),
        ("ttnn.log", 40, DType.BFP8_B, False),
        ("ttnn.rsqrt", 1, DType.BFP8_B, False),
        ("ttnn.log", 48, DType.BFP8_B, True),
        ("ttnn.log", 40, DType.BF16, True),
        ("ttnn.exp2", 64, DType.BFP4_B, True),
        ("ttnn.tanh", 40, DType.BFP8_B, True),
    ],
)
def test_block_floats_share_no_exponent_with_an_infinity(op: str, columns: int, dtype: DType, right: bool) -> None:
    why = fault(OpQuery(op, (TensorSpec((1, 1, 64, columns), dtype, DRAM_TILE),), (("dim", -1),)))

    assert why is None if right else "infinity" in str(why)


@pytest.mark.parametrize(
    ("shapes", "kind", "grid", "dim", "right"),
    [
        (((1, 2, 64, 48), (1, 2, 7, 48)), HEIGHT, (4, 1), 2, False),
        (((1, 2, 128, 48), (1, 2, 7, 48)), HEIGHT, (2, 1), -2, False),
        (((1, 2, 128, 48), (1, 2, 7, 48)), HEIGHT, (1, 1), 2, True),
        (((1, 2, 128, 48), (1, 2, 7, 48)), WIDTH, (1, 2), 2, True),
        (((1, 1, 33, 72), (1, 1, 100, 72)), HEIGHT, (2, 1), 2, True),
        (((1, 2, 64, 48), (1, 2, 64, 48)), HEIGHT, (4, 1), 2, True),
        (((1, 2, 1, 80), (1, 2, 1, 32)), HEIGHT, (2, 1), 3, False),
        (((1, 2, 32, 80), (1, 2, 32, 32)), HEIGHT, (2, 1), 3, True),
        (((1, 2, 7, 48), (1, 2, 7, 48)), HEIGHT, (2, 1), 1, True),
    ],
)
def test_batches_of_partial_rows_are_not_joined_in_shards(
    shapes: tuple[tuple[int, ...], ...], kind: TensorMemoryLayout, grid: tuple[int, int], dim: int, right: bool
) -> None:
    inputs = tuple(TensorSpec(shape, DType.BF16, sharded_layout(shape, kind, grid, N150)) for shape in shapes)

    why = fault(OpQuery("ttnn.concat", inputs, (("dim", dim),)))

    assert why is None if right else "out of place" in str(why)


@pytest.mark.parametrize(
    ("layout", "keepdim", "right"),
    [(L1_ROW_MAJOR, True, False), (L1_ROW_MAJOR, False, True), (DRAM_ROW_MAJOR, True, True)],
)
def test_single_indices_are_written_to_dram(layout: TensorLayout, keepdim: bool, right: bool) -> None:
    x = TensorSpec((1, 3, 32, 100), DType.BF16, DRAM_ROW_MAJOR)

    why = fault(OpQuery("ttnn.argmax", (x,), (("dim", -1), ("keepdim", keepdim)), None, layout.memory))

    assert why is None if right else "beyond its result" in str(why)


@pytest.mark.parametrize(
    ("op", "attrs", "dtype", "right"),
    [
        ("ttnn.transpose", {"dim0": 1, "dim1": 2}, DType.BFP4_B, False),
        ("ttnn.transpose", {"dim0": -2, "dim1": 1}, DType.BFP4_B, False),
        ("ttnn.permute", {"dims": (0, 2, 1, 3)}, DType.BFP4_B, False),
        ("ttnn.transpose", {"dim0": 1, "dim1": 2}, DType.BFP8_B, True),
        ("ttnn.transpose", {"dim0": 2, "dim1": 3}, DType.BFP4_B, True),
        ("ttnn.permute", {"dims": (1, 0, 3, 2)}, DType.BFP4_B, True),
    ],
)
def test_rows_of_four_bits_are_not_turned(op: str, attrs: dict[str, Any], dtype: DType, right: bool) -> None:
    why = fault(OpQuery(op, (TensorSpec((1, 3, 1, 320), dtype, DRAM_TILE),), tuple(sorted(attrs.items()))))

    assert why is None if right else "out of place" in str(why)


@pytest.mark.parametrize(
    ("dims", "dtype", "kind", "right"),
    [
        ((1, 2, 3, 0), DType.BFP8_B, HEIGHT, False),
        ((2, 3, 0, 1), DType.BFP8_B, WIDTH, False),
        ((3, 0, 1, 2), DType.BFP8_B, HEIGHT, False),
        ((1, 2, 3, 0), DType.BFP8_B, None, True),
        ((1, 2, 3, 0), DType.BF16, HEIGHT, True),
        ((0, 2, 3, 1), DType.BFP8_B, HEIGHT, True),
        ((1, 0, 3, 2), DType.BFP8_B, WIDTH, True),
    ],
)
def test_block_floats_in_shards_keep_their_first_dim_outside(
    dims: tuple[int, ...], dtype: DType, kind: TensorMemoryLayout | None, right: bool
) -> None:
    grid = (3, 1) if kind is HEIGHT else (1, 1)
    layout = DRAM_TILE if kind is None else sharded_layout((1, 1, 96, 32), kind, grid, N150)

    why = fault(OpQuery("ttnn.permute", (TensorSpec((1, 1, 96, 32), dtype, layout),), (("dims", dims),)))

    assert why is None if right else "among rows and columns" in str(why)


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("ttnn.concat", {"dim": "x"}),
        ("ttnn.transpose", {}),
        ("ttnn.permute", {"dims": 3}),
        ("ttnn.conv2d", {"kernel_size": 3, "out_channels": 8}),
    ],
)
def test_attributes_of_no_op_are_refused_by_its_own_rule(op: str, attrs: dict[str, Any]) -> None:
    shape = (1, 2, 7, 64)
    x = TensorSpec(shape, DType.BFP4_B, sharded_layout(shape, HEIGHT, (2, 1), N150))

    answer = create("analytical", N150, 32768).constraints(OpQuery(op, (x, x), tuple(attrs.items())))

    assert (answer.valid, answer.kind) == (False, Rejection.VALIDATION)


@pytest.mark.parametrize(
    ("kind", "grid", "page", "right"),
    [
        (WIDTH, (1, 4), PageLayout.ROW_MAJOR, False),
        (WIDTH, (1, 3), PageLayout.TILE, True),
        (HEIGHT, (2, 1), PageLayout.ROW_MAJOR, True),
    ],
)
def test_rows_cut_in_columns_are_not_padded(
    kind: TensorMemoryLayout, grid: tuple[int, int], page: PageLayout, right: bool
) -> None:
    shape = (1, 1, 64, 96)
    x = TensorSpec(shape, DType.BF16, sharded_layout(shape, kind, grid, N150, page))

    why = fault(OpQuery("ttnn.pad", (x,), (("padding", ((0, 0), (0, 0), (0, 32), (0, 0))),)))

    assert why is None if right else "some columns" in str(why)
