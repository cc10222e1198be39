"""Data movement: recorded answers for every sequence of programs, and the rules behind them one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig, PageLayout
from optimizer.opmodel.analytical.device_run.reshape_table import table_bytes
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, Rejection, TensorSpec
from optimizer.opmodel.query import query_rows

Ask = Callable[..., OpConstraints]
ROWS = PageLayout.ROW_MAJOR
FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "opmodel"
RECORDED = [json.loads(line) for line in (FOLDER / "movement.jsonl").read_text("utf-8").splitlines()]
OPS = sorted({row["op"] for row in RECORDED})


@pytest.fixture(scope="module")
def answers() -> dict[int, dict[str, Any]]:
    return {answer["id"]: answer for answer in query_rows(RECORDED)}


@pytest.fixture
def ask(analytical: OpModel) -> Ask:
    def asked(op: str, *inputs: TensorSpec, to: MemoryConfig | None = None, **attrs: object) -> OpConstraints:
        return analytical.constraints(OpQuery(f"ttnn.{op}", inputs, tuple(sorted(attrs.items())), output=to))

    return asked


@pytest.mark.parametrize("op", OPS)
def test_recorded_verdicts(op: str, answers: dict[int, dict[str, Any]]) -> None:
    rows = [row for row in RECORDED if row["op"] == op]
    assert {row["valid"] for row in rows} == {True, False}
    assert [row["id"] for row in rows if answers[row["id"]]["valid"] != row["valid"]] == []


@pytest.mark.parametrize("field", ["out_mem", "peak_cb", "peak_l1", "peak_total"])
@pytest.mark.parametrize("op", OPS)
def test_recorded_results(op: str, field: str, answers: dict[int, dict[str, Any]]) -> None:
    rows = [row for row in RECORDED if row["op"] == op and row["valid"]]
    assert rows
    wrong = [(r["id"], r[field], answers[r["id"]][field]) for r in rows if answers[r["id"]][field] != r[field]]
    assert wrong == []


def test_a_reshape_that_keeps_rows_is_a_view(ask: Ask, layouts: Any) -> None:
    got = ask("reshape", layouts.tensor((2, 64, 96), layouts.l1), shape=(128, 96))
    assert (got.valid, got.peak_bytes, got.l1_peak_bytes, got.cb_bytes) == (True, 0, 0, 0)


def test_unsqueeze_shares_the_buffer(ask: Ask, layouts: Any) -> None:
    got = ask("unsqueeze", layouts.tensor((2, 64, 96), layouts.l1), dim=1)
    assert (got.outputs[0].shape, got.peak_bytes) == ((2, 1, 64, 96), 0)


def test_splitting_whole_tiles_by_two_is_one_program(ask: Ask, layouts: Any) -> None:
    got = ask("split", layouts.tensor((1, 1, 64, 128)), dim=3, sizes=(64, 64))
    assert [t.shape for t in got.outputs] == [(1, 1, 64, 64)] * 2
    assert got.l1_peak_bytes == 0


def test_slices_inside_tiles_go_through_rows(ask: Ask, layouts: Any) -> None:
    x = layouts.tensor((1, 1, 64, 64))
    inside = ask("slice", x, begins=(0, 0, 1, 0), ends=(1, 1, 33, 64))
    whole = ask("slice", x, begins=(0, 0, 32, 0), ends=(1, 1, 64, 64))
    assert inside.cb_bytes > whole.cb_bytes == 2 * 2048 + 16


def test_width_shards_cannot_be_viewed_narrower(ask: Ask, layouts: Any) -> None:
    memory = layouts.width(2, 384, 32)
    x = layouts.tensor((1, 1, 384, 64), memory, page=ROWS)
    got = ask("slice", x, to=memory, begins=(0, 0, 0, 0), ends=(1, 1, 384, 16))
    assert (got.valid, got.kind) == (False, Rejection.VALIDATION)
    assert "must match physical height" in (got.error or "")


def test_whole_tiles_are_repeated_by_one_program(ask: Ask, layouts: Any) -> None:
    got = ask("repeat_interleave", layouts.tensor((1, 4, 64, 64)), repeats=3, dim=1)
    assert (got.outputs[0].shape, got.cb_bytes) == ((1, 12, 64, 64), 8 * 2048)


def test_rows_within_tiles_are_untilized_joined_and_tilized(ask: Ask, layouts: Any) -> None:
    got = ask("repeat_interleave", layouts.tensor((3, 3, 34, 75), layouts.l1), repeats=4, dim=2, to=layouts.dram)
    assert (got.cb_bytes, got.peak_bytes) == (12288, 13088)


def test_block_floats_are_not_retyped_into_other_shards(ask: Ask, layouts: Any) -> None:
    x = layouts.tensor((1, 1, 32, 8192), layouts.l1, DType.BFP8_B)
    got = ask("repeat_interleave", x, repeats=4, dim=1, to=layouts.block((4, 8), 32, 1024))
    assert "Input and Output memory layout to match" in (got.error or "")


def test_intermediate_tensors_must_fit_in_dram(ask: Ask, layouts: Any) -> None:
    got = ask("repeat_interleave", layouts.tensor((8, 16, 2048, 2048), dtype=DType.BFP8_B), repeats=4, dim=3)
    assert (got.valid, got.kind) == (False, Rejection.OOM_DRAM)


@pytest.mark.parametrize(
    ("shape", "shard", "cores", "scale", "listed"),
    [
        ((1, 32, 32, 320), (16, 320), 64, 2, 16),
        ((1, 8, 8, 1280), (1, 1280), 64, 3, 32),
    ],
)
def test_upsampled_shards_list_their_sources(
    shape: tuple[int, ...], shard: tuple[int, int], cores: int, scale: int, listed: int, ask: Ask, layouts: Any
) -> None:
    """The list of input rows is a tensor in small L1: part of the peak, beside the result."""
    memory = layouts.height(cores, *shard)
    got = ask("upsample", layouts.tensor(shape, memory, page=ROWS), scale_factor=scale, mode="nearest")
    result = shard[0] * shard[1] * 2 * scale * scale
    assert (got.valid, got.l1_peak_bytes) == (True, result + listed)


def test_the_table_of_a_tiled_reshape() -> None:
    assert table_bytes((56, 56, 64), (1, 3136, 64)) == 1536


def test_heads_are_joined_beside_each_other(ask: Ask, layouts: Any) -> None:
    x = layouts.tensor((1, 8, 256, 64), layouts.height(4, 512, 64))
    joined = ask("nlp_concat_heads", x, to=layouts.width(4, 256, 128))
    assert (joined.outputs[0].layout.memory, joined.cb_bytes) == (layouts.width(4, 256, 128), 0)
    part = ask("nlp_concat_heads", layouts.tensor((1, 8, 256, 64), layouts.height(16, 128, 64)), to=layouts.l1)
    assert not part.valid


def test_rotary_shards_are_cut_evenly(ask: Ask, layouts: Any) -> None:
    table = layouts.tensor((1, 1, 224, 64))
    got = ask("rotary_embedding", layouts.tensor((8, 12, 224, 64)), table, table, to=layouts.height(62, 352, 64))
    assert got.outputs[0].layout.memory == layouts.height(56, 384, 64)


@pytest.mark.parametrize(
    ("size", "kv", "transposed", "cores", "tiles"),
    [
        (64, 12, False, 64, 4),
        (128, 12, False, 64, 8),
        (256, 12, False, 64, 16),
        (96, 12, False, 64, 4),
        (64, 12, True, 7, 12),
        (64, 0, False, 64, 4),
    ],
)
def test_heads_are_split_by_tile_rows_of_one_head(
    size: int, kv: int, transposed: bool, cores: int, tiles: int, ask: Ask, layouts: Any
) -> None:
    """Cores and buffers as tt-metal 0.81.1 has them on a mock n150: whole rows where keys are transposed."""
    x = layouts.tensor((1, 1, 197, (12 + 2 * kv) * size), layouts.l1)
    got = ask("nlp_create_qkv_heads", x, to=layouts.l1, num_heads=12, num_kv_heads=kv, transpose_key=transposed)
    key = (1, kv, size, 197) if transposed else (1, kv, 197, size)
    wanted = [(1, 12, 197, size), key, (1, kv, 197, size)] if kv else [(1, 12, 197, size)]
    assert [t.shape for t in got.outputs] == wanted
    assert (got.cores, got.cb_bytes) == (cores, tiles * 2048)


def test_shards_hold_other_columns_than_the_splitting_ops_take(ask: Ask, layouts: Any) -> None:
    x = layouts.tensor((1, 128, 2304), layouts.width(12, 128, 192))
    assert not ask("split_query_key_value_and_split_heads", x, to=layouts.l1, num_heads=12).valid
