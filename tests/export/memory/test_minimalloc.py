"""MiniMalloc's CSV, read as MiniMalloc reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.answers.timeline import timeline
from optimizer.export.memory.minimalloc import write
from optimizer.result import OptimizedGraph, Role
from tests.export.memory.exported import RESULTS
from tests.l1.rule_cases import written_over

Line = tuple[str, int, int, int, int]


def lines(path: Path) -> list[Line]:
    """Lines split at commas, whatever quotes there are; whole numbers but for the id."""
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    assert head == "id,lower,upper,size,offset"
    return [(name, int(a), int(b), int(c), int(d)) for name, a, b, c, d in (row.split(",") for row in rows)]


@pytest.fixture(scope="module", params=RESULTS)
def result(request: pytest.FixtureRequest) -> OptimizedGraph:
    made: OptimizedGraph = RESULTS[request.param]()
    return made


@pytest.mark.slow
def test_buffers_lie_inside_the_capacity_of_the_name_and_apart(result: OptimizedGraph, tmp_path: Path) -> None:
    path = write(result, tmp_path)
    rows = lines(path)
    capacity = result.device.l1_bank_bytes(result.options.l1_small_bytes)

    assert path.name == f"l1_predicted.{capacity}.csv"
    assert len({row[0] for row in rows}) == len(rows)
    for name, lower, upper, size, offset in rows:
        assert 0 <= lower < upper, name
        assert 0 <= offset < offset + size <= capacity, name
    for k, (first, a, b, size, offset) in enumerate(rows):
        for second, c, d, other, place in rows[k + 1 :]:
            apart = b <= c or d <= a or offset + size <= place or place + other <= offset
            assert apart, (first, second)


def test_circular_buffers_are_those_of_the_timeline(result: OptimizedGraph, tmp_path: Path) -> None:
    sizes: dict[str, int] = {}
    for name, _, _, size, _ in lines(write(result, tmp_path)):
        op, found, _ = name.partition(" circular buffers")
        if found:
            sizes[op] = max(size, sizes.get(op, 0))
    most = {p.op: p.memory.cb_bytes for p in timeline(result).positions if p.memory.cb_bytes}

    assert sorted(sizes.values()) == sorted(most.values())


def test_values_in_l1_are_there_once_with_their_addresses(result: OptimizedGraph, tmp_path: Path) -> None:
    top = result.device.worker_l1_bytes - result.options.l1_small_bytes
    base = result.device.cb_base_bytes
    placed = sorted(top - depth - base for p in timeline(result).positions for _, depth in p.memory.placed)
    weights = len(result.program.weights)
    offsets = sorted(
        row[4] for row in lines(write(result, tmp_path)) if " circular" not in row[0] and " temp" not in row[0]
    )

    assert len(offsets) == len(placed) + weights
    assert weights or offsets == placed


def test_views_and_results_in_place_share_a_line(tmp_path: Path) -> None:
    views, case = RESULTS["views"](), written_over(1)
    (view,) = [op for op in views.graph.ops() if views.records[op.id].role is Role.VIEW]
    in_place = case.result(case.problem())

    assert not {row[0] for row in lines(write(views, tmp_path / "a"))} & set(view.outputs)
    assert not {row[0] for row in lines(write(in_place, tmp_path / "b"))} & set(in_place.graph.op("y").outputs)


def test_a_plan_in_dram_holds_no_tensor_in_l1(tmp_path: Path) -> None:
    rows = lines(write(RESULTS["DRAM only"](), tmp_path))

    assert rows
    assert all(" circular buffers" in row[0] or " temporary " in row[0] for row in rows)


def test_two_exports_are_the_same_bytes(result: OptimizedGraph, tmp_path: Path) -> None:
    assert write(result, tmp_path / "a").read_bytes() == write(result, tmp_path / "b").read_bytes()
