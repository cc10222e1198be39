"""Reductions, normalisation over groups, pools and attention: recorded answers, and rules one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optimizer.ir.dtype import DType
from optimizer.layouts.group_norm import group_norm_arguments
from optimizer.layouts.memory_config import BufferType, MemoryConfig, TensorMemoryLayout
from optimizer.opmodel.base import OpConstraints, OpModel, OpQuery, Rejection, TensorSpec
from optimizer.opmodel.query import query_rows

Ask = Callable[..., OpConstraints]
FILE = Path(__file__).resolve().parents[3] / "fixtures" / "opmodel" / "reductions.jsonl"
RECORDED = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
OPS = sorted({row["op"] for row in RECORDED})
POOLS = {"max_pool2d", "avg_pool2d"}
"""Slices of DRAM are not known to the byte."""


@pytest.fixture(scope="module")
def answers() -> dict[int, dict[str, Any]]:
    return {answer["id"]: answer for answer in query_rows(RECORDED)}


@pytest.fixture
def ask(analytical: OpModel) -> Ask:
    def asked(op: str, *inputs: TensorSpec, to: MemoryConfig | None = None, **attrs: Any) -> OpConstraints:
        return analytical.constraints(OpQuery(f"ttnn.{op}", inputs, tuple(sorted(attrs.items())), output=to))

    return asked


def _asked(op: str, answers: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an op, but for those that tt-metal takes and computes wrongly, which nobody asks it."""
    rows = [r for r in RECORDED if r["op"] == op and answers[r["id"]]["kind"] != Rejection.WRONG_VALUES]
    assert rows
    return rows


def _accepted(op: str, answers: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    rows = [row for row in _asked(op, answers) if row["valid"]]
    assert rows
    return rows


@pytest.mark.parametrize("op", OPS)
def test_recorded_verdicts(op: str, answers: dict[int, dict[str, Any]]) -> None:
    assert [row["id"] for row in _asked(op, answers) if answers[row["id"]]["valid"] != row["valid"]] == []


@pytest.mark.parametrize("op", OPS)
def test_recorded_layouts(op: str, answers: dict[int, dict[str, Any]]) -> None:
    wrong = [row["id"] for row in _accepted(op, answers) if answers[row["id"]]["out_mem"] != row["out_mem"]]
    assert wrong == []


@pytest.mark.parametrize("op", [op for op in OPS if op not in POOLS])
def test_recorded_peaks_are_exact(op: str, answers: dict[int, dict[str, Any]]) -> None:
    rows = _accepted(op, answers)
    fields = ("peak_l1", "peak_total")
    wrong = [(r["id"], f, r[f], answers[r["id"]][f]) for r in rows for f in fields if answers[r["id"]][f] != r[f]]
    assert wrong == []


@pytest.mark.parametrize("op", sorted(POOLS))
def test_recorded_peaks_of_pools_are_mostly_exact(op: str, answers: dict[int, dict[str, Any]]) -> None:
    rows = _accepted(op, answers)
    exact = [row for row in rows if answers[row["id"]]["peak_total"] == row["peak_total"]]
    assert len(exact) >= 0.8 * len(rows)


def test_few_columns_of_tall_tensors_are_reduced_in_two_steps(ask: Ask, layouts: Any) -> None:
    """16 slices for each of four columns leave f32 partial sums, 16 rows of 512 B, in L1."""
    got = ask("mean", layouts.tensor((1, 1, 25088, 128), layouts.l1), dim=-2, keepdim=True)
    assert got.l1_peak_bytes == 2048 + 512
    less = ask("mean", layouts.tensor((1, 1, 608, 128), layouts.l1), dim=-2, keepdim=True)
    assert less.l1_peak_bytes == 2048


def test_sums_over_rows_and_columns_pass_f32_between_the_steps(ask: Ask, layouts: Any) -> None:
    x = layouts.tensor((1, 1, 64, 2048), layouts.l1)
    summed, largest = (ask(op, x, dim=(-2, -1), keepdim=True) for op in ("sum", "max"))
    assert (summed.l1_peak_bytes, largest.l1_peak_bytes) == (4096 + 2048, 2 * 2048)


def test_a_reduction_of_shards_needs_shards_for_its_result(ask: Ask, layouts: Any) -> None:
    x = layouts.tensor((1, 1, 64, 64), layouts.dram)
    derived = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1)
    got = ask("sum", x, to=derived, dim=-1, keepdim=True)
    assert (got.valid, got.kind) == (False, Rejection.VALIDATION)


def test_few_long_rows_are_sorted_by_several_cores(ask: Ask, layouts: Any) -> None:
    """16 cores hold four tiles each and one gathers 16 tiles of values and of indices, twice."""
    x = layouts.tensor((1, 1, 32, 2048), layouts.dram)
    got = ask("topk", x, k=8)
    assert got.cb_bytes == 6 * 2 * 2048 + 2 * 2048 + (2 * 16 + 4) * 2 * 2048
    many = ask("topk", layouts.tensor((1, 1, 128, 2048), layouts.dram), k=8)
    assert many.cb_bytes == 18 * 2048


def test_topk_refuses_more_than_there_is(ask: Ask, layouts: Any) -> None:
    got = ask("topk", layouts.tensor((1, 1, 32, 40), layouts.dram), k=64)
    assert not got.valid
    assert "K=64" in str(got.error)


def test_running_sums_of_f32_go_by_way_of_the_first_dim(ask: Ask, layouts: Any) -> None:
    """Each of the 32 columns becomes a matrix of one padded column: a tile each for bf16 data in place."""
    direct = ask("cumsum", layouts.tensor((1, 1, 32, 32), layouts.dram), dim=-1)
    moved = ask("cumsum", layouts.tensor((1, 1, 32, 32), layouts.dram, DType.F32), dim=-1)
    assert (direct.cb_bytes, moved.cb_bytes) == (8 * 2048, 10 * 4096)


@pytest.mark.parametrize(
    ("shape", "groups"),
    [((1, 1, 4096, 320), 32), ((1, 1, 1024, 640), 32), ((1, 1, 256, 1280), 32), ((1, 1, 64, 2560), 32)],
)
@pytest.mark.parametrize("grid", [(8, 8), (10, 11)])
def test_group_norms_of_a_diffusion_model_can_be_run(
    shape: tuple[int, ...], groups: int, grid: tuple[int, int]
) -> None:
    found = group_norm_arguments(shape, groups, grid)
    assert found is not None
    rows, columns = found.core_grid_yx
    assert rows <= grid[0]
    assert columns <= grid[1]
    assert shape[3] % (found.virtual_columns * 32) == 0
    assert groups % found.virtual_columns == 0


def test_group_norm_takes_the_widest_grid_whose_rows_hold_whole_batches() -> None:
    """320 channels are cut in two; three batches of one row of tiles each lie side by side or below each other."""
    flat = group_norm_arguments((3, 1, 32, 320), 32, (8, 8))
    square = group_norm_arguments((5, 1, 32, 64), 2, (8, 8))
    assert flat is not None
    assert (flat.core_grid_yx, flat.virtual_columns) == ((1, 6), 2)
    assert square is not None
    assert (square.core_grid_yx, square.virtual_columns) == ((5, 2), 2)
