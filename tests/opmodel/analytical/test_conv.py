"""Convolutions: verdict, result and peak of recorded queries, and the formulas behind them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr
from optimizer.layouts.memory_config import DRAM_TILE, HOST_ROW_MAJOR
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel.analytical.windows.halo import HaloConfig, halo_config, reader_index_bytes
from optimizer.opmodel.analytical.windows.parallel import Window, halo_sticks
from optimizer.opmodel.base import OpQuery, Rejection, TensorSpec
from optimizer.opmodel.query import query_rows
from optimizer.opmodel.registry import create

ROWS = Path(__file__).resolve().parents[3] / "fixtures" / "opmodel" / "conv.jsonl"
"""Asked of ttnn 0.81.1 on mock devices: both boards, all paths, row-major and tiled, sliced and transposed."""
IMAGE = Window(1, 56, 56, (3, 3), (1, 1), (1, 1, 1, 1))


@pytest.fixture(scope="module")
def pairs() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Recorded row and our answer, but for what tt-metal takes and computes wrongly, which nobody asks it."""
    rows = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    found = list(zip(rows, query_rows(rows), strict=True))
    return [(row, answer) for row, answer in found if answer["kind"] != Rejection.WRONG_VALUES]


def test_verdicts_are_those_recorded(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    assert [row["id"] for row, answer in pairs if row["valid"] != answer["valid"]] == []


def test_results_and_peaks_are_those_recorded(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    accepted = [(row, answer) for row, answer in pairs if row["valid"]]
    assert len(accepted) > 60
    wrong = [r["id"] for r, a in accepted if (r["out_mem"], r["peak_total"]) != (a["out_mem"], a["peak_total"])]
    assert wrong == []


@pytest.mark.parametrize(
    ("window", "cores", "rows", "tiled", "columns", "by_column", "sizes"),
    [
        (IMAGE, 49, 64, True, 8, False, (12, 12, 76, 76)),  # 56 x 56 x 64, height sharded tiles
        (Window(1, 224, 224, (7, 7), (2, 2), (3, 3, 3, 3)), 56, 896, False, 8, False, (24, 24, 52, 44)),
        (Window(1, 28, 28, (3, 3), (1, 1), (1, 1, 1, 1)), 7, 128, True, 4, True, (16, 20, 64, 64)),
    ],
)
def test_index_tensors_of_halo(
    window: Window, cores: int, rows: int, tiled: bool, columns: int, by_column: bool, sizes: tuple[int, ...]
) -> None:
    """Sizes that tt-metal allocates (bytes per core)."""
    assert halo_config(window, cores, rows, tiled, columns, by_column) == HaloConfig(*sizes)


def test_cores_without_output_still_gather() -> None:
    """80 outputs on four cores of 32 rows: the last core fetches the window of the last output."""
    window = Window(1, 16, 16, (3, 1), (3, 1), (1, 1, 0, 0), (2, 2))
    assert window.out_nhw == 80
    assert halo_config(window, 4, 64, True, 2, True) == HaloConfig(4, 8, 40, 40)


@pytest.mark.parametrize(("first", "second", "size"), [(64, 0, 12), (32, 32, 20)])
def test_index_tensor_of_readers(first: int, second: int, size: int) -> None:
    """A core has 64 outputs of rows of 56: two runs, three when two readers split the block."""
    assert reader_index_bytes(IMAGE, 49, first, second) == size


def test_halo_covers_the_windows_of_a_core() -> None:
    assert halo_sticks(IMAGE, 49) * 128 == 23552  # bytes that tt-metal allocates


def test_transposed_window_spreads_the_input() -> None:
    window = Window(1, 8, 8, (3, 3), (2, 2), (1, 1, 1, 1), transposed=True, output_padding=(1, 1))
    assert window.out_hw == (16, 16)
    assert window.padded_hw == (18, 18)
    assert window.first_data == (1, 1)
    assert replace(window, output_padding=(0, 0)).out_hw == (15, 15)
    assert window.spread_out.out_hw == (16, 16)


@pytest.mark.parametrize(("folding", "peak_bytes"), [(None, 36864), (False, 24800)])
def test_folding_can_be_switched_off(folding: bool | None, peak_bytes: int) -> None:
    """Windows that do not overlap: folded they are pixels of a matmul (peaks of mock devices)."""
    shapes = ((1, 1, 1024, 64), (128, 64, 2, 2))
    inputs = tuple(TensorSpec(s, DType.BF16, x) for s, x in zip(shapes, (DRAM_TILE, HOST_ROW_MAJOR), strict=True))
    attrs: dict[str, Attr] = {
        "batch_size": 1, "input_height": 32, "input_width": 32, "in_channels": 64, "out_channels": 128,
        "kernel_size": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0),
    }  # fmt: skip
    if folding is not None:
        attrs["enable_kernel_stride_folding"] = folding
    config = Conv2dConfig(weights_dtype="bf16", shard_layout="block_sharded", slice="l1")

    answer = create("analytical", DeviceSpec.preset("n150"), 32768).constraints(
        OpQuery("ttnn.conv2d", inputs, tuple(sorted(attrs.items())), config)
    )

    assert answer.peak_bytes == peak_bytes


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"input_height": 22, "input_width": 56, "kernel_size": (2, 31), "padding": (84, 0, 180, 180),
             "stride": (31, 31), "in_channels": 16, "out_channels": 4, "groups": 4},
            "Ends 4294967256 must be less than or equal to the shape of the tensor 22",
        ),
        (
            {"input_height": 1, "input_width": 512, "kernel_size": (16, 16), "padding": (96, 96, 96, 96),
             "stride": (2, 2), "in_channels": 64, "out_channels": 16, "groups": 1},
            "For buffer index 1, number of CB pages 67151 is greater than 65535.",
        ),
    ],
    ids=["slice in front of the image", "more sticks than pages"],
)  # fmt: skip
def test_refusals_of_padded_images(board: str, sizes: dict[str, Any], message: str) -> None:
    """What tt-metal 0.81 says of both on mock devices, before the same numbers."""
    attrs: dict[str, Any] = {"batch_size": 1, "dilation": (12, 12), **sizes}
    cin, pixels = attrs["in_channels"], attrs["input_height"] * attrs["input_width"]
    weight = (attrs["out_channels"], cin // attrs["groups"], *attrs["kernel_size"])
    inputs = (
        TensorSpec((1, 1, pixels, cin), DType.BF16, DRAM_TILE),
        TensorSpec(weight, DType.BF16, HOST_ROW_MAJOR),
    )
    query = OpQuery("ttnn.conv2d", inputs, tuple(sorted(attrs.items())), Conv2dConfig())

    answer = create("analytical", DeviceSpec.preset(board), 32768).constraints(query)

    assert (answer.valid, answer.error) == (False, message)


@pytest.mark.parametrize(
    ("dilation", "programs"),
    [((1, 1), ["reshard", "matmul"]), ((2, 2), ["reshard", "halo", "conv"]), ((1, 2), ["reshard", "halo", "conv"])],
)
def test_a_dilated_kernel_of_one_pixel_is_timed_as_what_runs(dilation: tuple[int, int], programs: list[str]) -> None:
    """A convolution with its halo; a matmul only where nothing is dilated."""
    shapes = ((1, 1, 1024, 64), (128, 64, 1, 1))
    inputs = tuple(TensorSpec(s, DType.BF16, x) for s, x in zip(shapes, (DRAM_TILE, HOST_ROW_MAJOR), strict=True))
    attrs: dict[str, Attr] = {
        "batch_size": 1, "input_height": 32, "input_width": 32, "in_channels": 64, "out_channels": 128,
        "kernel_size": (1, 1), "dilation": dilation,
    }  # fmt: skip
    config = Conv2dConfig(weights_dtype="bf16", shard_layout="height_sharded", slice="l1")
    model = create("analytical", DeviceSpec.preset("n150"), 32768)
    query = OpQuery("ttnn.conv2d", inputs, tuple(sorted(attrs.items())), config)

    assert model.constraints(query).valid
    assert [part.name for part in model.cost(query).parts] == programs
