"""No op is predicted to move more DRAM bytes than the board can: a property of every cost that the OpModel gives."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_ROW_MAJOR, DRAM_TILE
from optimizer.opmodel import registry
from optimizer.opmodel.base import OpCost, OpModel, OpQuery, TensorSpec
from optimizer.opmodel.rows import query_from_row

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "opmodel"
EVERY = {"conv": 1, "movement": 2, "reductions": 2, "sample": 2}
"""Of how many rows of a file one is asked."""


@cache
def _model(board: str) -> OpModel:
    return registry.create("analytical", DeviceSpec.preset(board), 32768)


def _least_ns(cost: OpCost, board: str) -> float:
    return (cost.dram_read_bytes + cost.dram_write_bytes) / DeviceSpec.preset(board).dram_peak_gbps


@pytest.mark.parametrize("name", sorted(EVERY))
def test_no_recorded_query_moves_bytes_faster_than_dram_can(name: str) -> None:
    rows = [json.loads(line) for line in (FIXTURES / f"{name}.jsonl").read_text("utf-8").splitlines()]
    too_fast, asked = [], 0
    for row in rows[:: EVERY[name]]:
        model, query = _model(row["board"]), query_from_row(row)
        if not model.constraints(query).valid:
            continue
        cost, asked = model.cost(query), asked + 1
        if cost.time_ns < _least_ns(cost, row["board"]):
            too_fast.append((row["id"], row["op"], cost.time_ns, round(_least_ns(cost, row["board"]))))
    assert asked > 20
    assert too_fast == []


def _convolution(batch: int, height: int, channels: int, kernel: int, stride: int, tiled: bool) -> OpQuery:
    layout = DRAM_TILE if tiled else DRAM_ROW_MAJOR
    x = TensorSpec((1, 1, batch * height * height, channels), DType.BF16, layout)
    weight = TensorSpec((64, channels, kernel, kernel), DType.BF16, DRAM_ROW_MAJOR)
    attrs = {
        "in_channels": channels, "out_channels": 64, "batch_size": batch, "input_height": height,
        "input_width": height, "kernel_size": (kernel, kernel), "stride": (stride, stride),
        "padding": (kernel // 2,) * 4, "dilation": (1, 1), "groups": 1,
    }  # fmt: skip
    return OpQuery("ttnn.conv2d", (x, weight), tuple(attrs.items()), None, layout.memory)


@pytest.mark.parametrize("board", ["n150", "p150"])
@pytest.mark.parametrize(("batch", "height", "channels", "kernel", "stride"), [
    (256, 56, 64, 3, 1), (256, 112, 16, 7, 2), (64, 112, 64, 3, 1), (16, 224, 32, 3, 2),
])  # fmt: skip
def test_a_sliced_convolution_reads_its_input_about_once(
    board: str, batch: int, height: int, channels: int, kernel: int, stride: int
) -> None:
    query = _convolution(batch, height, channels, kernel, stride, tiled=True)
    model = _model(board)
    answer = model.constraints(query)
    assert answer.valid, answer.error
    cost = model.cost(query)
    slices = sum(part.name == "conv" for part in cost.parts)
    assert slices > 1
    image = batch * height * height * max(32, channels) * 2  # in whole tiles
    assert image <= cost.dram_read_bytes <= 2 * image + slices * 64 * channels * kernel * kernel * 2 * 8
    assert cost.dram_write_bytes == pytest.approx(batch * (height // stride) ** 2 * 64 * 2, rel=0.1)
    assert cost.time_ns >= _least_ns(cost, board)
