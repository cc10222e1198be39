"""Weights prepared ahead are those that a convolution makes itself, also where it spreads its input again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from optimizer.device import DeviceSpec
from optimizer.export.ttnn_py.prelude import placeholder_text
from optimizer.export.ttnn_py.preparation import prepared_text
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import (
    HOST_ROW_MAJOR,
    BufferType,
    MemoryConfig,
    PageLayout,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
    interleaved,
)
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.layouts.tiling import core_ranges_for
from optimizer.opmodel import registry
from optimizer.opmodel.analytical.windows.conv_weights import prepared_weights, read_from
from optimizer.opmodel.base import OpQuery, ProgramRunner, ProgramSession, Rejection, TensorSpec
from optimizer.opmodel.ttnn_calls import call_text

BLOCK, HEIGHT, WIDTH = "block_sharded", "height_sharded", "width_sharded"
L1_SMALL = 32768
Case = tuple[str, tuple[int, int], tuple[int, int], tuple[int, int], str, int, tuple[int, int]]
"""Sharding, grid, shard, (rows, channels), sharding to convolve in, output channels, kernel."""
NO_WHOLE_TILES: list[Case] = [
    (BLOCK, (8, 6), (rows // 8 + 1, 32), (rows, 192), wanted, cout, (1, 1))
    for rows in (255, 256, 729)
    for wanted in (HEIGHT, BLOCK)
    for cout in (32, 64, 192)
]
"""1x1 convolutions of block shards in rows, most of them no whole tiles (256 rows with one more: 33)."""
UNALIGNED: list[Case] = [
    (kind, grid, shard, (rows, channels), wanted, cout, (1, 3))
    for kind, grid, shard, rows, channels in (
        (BLOCK, (8, 8), (2, 9), 15, 71),
        (BLOCK, (8, 8), (2, 8), 16, 64),
        (BLOCK, (4, 6), (49, 16), 196, 96),
        (WIDTH, (1, 7), (20, 9), 20, 63),
        (WIDTH, (1, 7), (20, 32), 20, 224),
    )
    for wanted in (WIDTH, BLOCK, HEIGHT)
    for cout in (32, 96)
]
"""1x3 convolutions of shards whose width no alignment of channels divides, and of such that one does."""


def question(case: Case, board: DeviceSpec) -> OpQuery:
    kind, grid, shard, (rows, channels), wanted, cout, kernel = case
    sharding = TensorMemoryLayout(kind)
    spec = ShardSpec(grid, shard, core_ranges_for(sharding, grid, board))
    layout = TensorLayout(PageLayout.ROW_MAJOR, MemoryConfig(sharding, BufferType.L1, spec))
    pad = kernel[1] // 2
    attrs = {
        **opdef("ttnn.conv2d").attrs, "batch_size": 1, "input_height": 1, "input_width": rows, "kernel_size": kernel,
        "in_channels": channels, "out_channels": cout, "padding": (0, 0, pad, pad),
    }  # fmt: skip
    inputs = (
        TensorSpec((1, 1, rows, channels), DType.BF16, layout),
        TensorSpec((cout, channels, *kernel), DType.BF16, HOST_ROW_MAJOR),
        TensorSpec((1, 1, 1, cout), DType.BF16, HOST_ROW_MAJOR),
    )
    config = Conv2dConfig(shard_layout=wanted, slice="l1")
    return OpQuery("ttnn.conv2d", inputs, tuple(sorted(attrs.items())), config)  # type: ignore[arg-type]


ROWS_BY_CHANNEL = [
    (64, 7, 1, 100, Conv2dConfig()),
    (256, 16, 1, 300, Conv2dConfig()),
    (64, 3, 1, 12000, Conv2dConfig(shard_layout=HEIGHT, slice="l1")),
    (64, 80, 1, 12000, Conv2dConfig(shard_layout=HEIGHT, slice="l1", act_block_h_override=32)),
    (64, 3, 1, 12000, Conv2dConfig(shard_layout=HEIGHT, slice="l1", act_block_h_override=32)),
    (64, 200, 1, 500, Conv2dConfig()),
    (64, 7, 1, 100, Conv2dConfig(shard_layout=WIDTH, slice="l1")),
    (64, 3, 1, 100, Conv2dConfig(shard_layout=WIDTH, slice="l1")),
]
"""Channels, kernel, dilation, length and config of depthwise convolutions of one row without a bias."""


def depthwise(channels: int, kernel: int, dilation: int, length: int, config: Conv2dConfig) -> OpQuery:
    attrs = {
        **opdef("ttnn.conv2d").attrs, "batch_size": 1, "input_height": 1, "input_width": length,
        "kernel_size": (1, kernel), "dilation": (1, dilation), "in_channels": channels, "out_channels": channels,
        "groups": channels,
    }  # fmt: skip
    inputs = (
        TensorSpec((1, 1, length, channels), DType.BF16, interleaved(BufferType.DRAM, PageLayout.ROW_MAJOR)),
        TensorSpec((channels, 1, 1, kernel), DType.BF16, HOST_ROW_MAJOR),
    )
    return OpQuery("ttnn.conv2d", inputs, tuple(sorted(attrs.items())), config)  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=["n150", "p150"])
def board(request: pytest.FixtureRequest) -> DeviceSpec:
    return DeviceSpec.preset(request.param)


@pytest.fixture(scope="module")
def session(needs_ttnn: None, board: DeviceSpec) -> Iterator[ProgramSession]:
    backend = registry.create("ttmetal", board, L1_SMALL)
    assert isinstance(backend, ProgramRunner)
    with backend.program("import ttnn\n") as begun:
        yield begun


def differences(session: ProgramSession, query: OpQuery, board: DeviceSpec) -> list[str]:
    """What tt-metal says against weights prepared ahead; nothing where it refuses the convolution anyway."""
    op = Op("conv", query.op, ("x", "w", "b")[: len(query.inputs)], ("y",), dict(query.attrs))
    for name, tensor in zip(op.inputs, query.inputs, strict=True):
        assert session.step(f"{name} = {placeholder_text(tensor)}").valid
    call = call_text(query, op.inputs)
    free = "\nttnn.deallocate(y)"
    if not session.step(f"y, (own_w, own_b) = {call[:-1]}, return_weights_and_bias=True){free}").valid:
        return ["refused"]
    found = []
    for index, name in enumerate(op.inputs[1:], start=1):
        text = prepared_text(op, query, index, name, board, L1_SMALL)
        assert text is not None
        spec = prepared_weights(query, board, L1_SMALL)[index - 1]
        checks = [
            f"p{name} = {text}",
            f"assert tuple(p{name}.padded_shape) == tuple(own_{name}.padded_shape), (p{name}.padded_shape, own_{name})",
            f"assert tuple(p{name}.padded_shape) == {spec.shape}, p{name}.padded_shape",
        ]
        found += [answer.error or "" for code in checks if not (answer := session.step(code)).valid]
    prepared = session.step(f"y = {call_text(query, ('x', 'pw', 'pb')[: len(op.inputs)])}{free}")
    found += [] if prepared.valid else [prepared.error or "refused"]
    session.step("ttnn.deallocate(x)")
    return found


@pytest.mark.parametrize("case", [*NO_WHOLE_TILES, *UNALIGNED], ids=str)
@pytest.mark.slow
def test_what_is_prepared_is_what_the_convolution_makes(case: Case, session: ProgramSession, board: DeviceSpec) -> None:
    query = question(case, board)
    analytical = registry.create("analytical", board, L1_SMALL).constraints(query)

    taken = analytical.valid or analytical.kind is Rejection.WRONG_VALUES  # what tt-metal takes and we do not offer
    assert differences(session, query, board) == ([] if taken else ["refused"])


@pytest.mark.parametrize("case", ROWS_BY_CHANNEL, ids=str)
def test_depthwise_rows_without_a_bias(
    case: tuple[int, int, int, int, Conv2dConfig], session: ProgramSession, board: DeviceSpec
) -> None:
    query = depthwise(*case)
    mine, real = (registry.create(name, board, L1_SMALL).constraints(query) for name in ("analytical", "ttmetal"))

    assert (mine.valid, mine.cb_bytes if mine.valid else 0) == (real.valid, real.cb_bytes if real.valid else 0)
    assert differences(session, query, board) == ([] if mine.valid else ["refused"])


def test_shards_that_are_spread_anew_are_prepared_for_as_they_become() -> None:
    board = DeviceSpec.preset("n150")
    spread = question(NO_WHOLE_TILES[-6], board)
    kept = question((BLOCK, (8, 8), (2, 8), (16, 64), BLOCK, 32, (1, 3)), board)

    assert read_from(spread, board, L1_SMALL).memory_layout is TensorMemoryLayout.HEIGHT_SHARDED
    assert read_from(kept, board, L1_SMALL) == kept.inputs[0].layout.memory
