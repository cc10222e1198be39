"""Cases of `benchmarks/layout_values.py` and what is said of their outcomes; nothing here needs a simulator."""

from __future__ import annotations

from typing import Any

import pytest
from layout_cases.drawn import class_of, drawn_queries
from layout_cases.plans import plan_queries
from layout_cases.running import Verdict, outcome
from layout_cases.sweep import Subject, copies, kind_of, legal_queries

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.layouts.memory_config import DRAM_TILE, PageLayout, TensorMemoryLayout
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel.base import OpQuery
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import optimize

N150 = DeviceSpec.preset("n150")
BLOCK = TensorMemoryLayout.BLOCK_SHARDED
SILU = Subject("ttnn.silu", ((1, 1, 100, 40),))
RIGHT: dict[str, Any] = {"faults": [], "wrong": 0, "values": "0 of 9 values wrong", "error": 0.0, "unreadable": []}


@pytest.mark.parametrize(
    ("columns", "grid", "page", "expected"),
    [
        (64, (4, 2), PageLayout.TILE, "block_sharded tile padded"),
        (64, (5, 2), PageLayout.ROW_MAJOR, "block_sharded rm rows"),
        (64, (5, 4), PageLayout.ROW_MAJOR, "block_sharded rm stick%32=16 rows"),
        (40, (8, 3), PageLayout.ROW_MAJOR, "block_sharded rm stick unaligned rows bytes uneven"),
    ],
)
def test_kinds_say_what_is_partial(columns: int, grid: tuple[int, int], page: PageLayout, expected: str) -> None:
    shape = (1, 1, 100, columns)

    assert kind_of(shape, sharded_layout(shape, BLOCK, grid, N150, page)) == expected


def test_an_interleaved_tensor_of_whole_tiles_is_nothing_special() -> None:
    assert kind_of((1, 1, 64, 64), DRAM_TILE) == "dram tile"


def test_every_case_is_legal_and_every_kind_of_layout_comes_once() -> None:
    model = create("analytical", N150, 32768)

    queries = legal_queries(SILU, N150, 1000)

    pairs = [(kind_of(q.inputs[0].shape, q.inputs[0].layout), q.output) for q in queries]
    assert len(queries) > 10
    assert len(set(pairs)) == len(pairs)
    assert all(model.constraints(q).valid for q in queries)


def test_the_same_cases_every_time() -> None:
    assert legal_queries(SILU, N150, 4) == legal_queries(SILU, N150, 4)
    assert copies(N150, 3) == copies(N150, 3)


@pytest.mark.slow
def test_drawn_questions_are_legal_and_the_same_every_time() -> None:
    model = create("analytical", N150, 32768)

    found = drawn_queries(N150, 40)

    assert found == drawn_queries(N150, 40)
    assert len(set(found)) == 40
    assert all(model.constraints(q).valid for q in found)
    assert len({class_of(q) for q in found}) > 20


def test_cases_of_a_plan_are_what_its_ops_ask() -> None:
    b = GraphBuilder("two")
    x = b.input("x", (1, 1, 64, 64))
    result = optimize(b.finish(b.op("ttnn.silu", b.op("ttnn.silu", x))), N150, Options(policy="dram"))

    assert [q.op for q in plan_queries(result)] == ["ttnn.silu"]


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        (RIGHT, Verdict.RIGHT),
        ({**RIGHT, "wrong": 3}, Verdict.WRONG),
        ({**RIGHT, "wrong": 3, "faults": ["canary 1 of 3 has 8 words overwritten"]}, Verdict.OVERWRITES),
        ({**RIGHT, "wrong": 3, "unreadable": [0]}, Verdict.UNREADABLE),
        ({"refused": "RuntimeError: no"}, Verdict.REFUSED),
    ],
)
def test_verdicts(record: dict[str, Any], verdict: Verdict) -> None:
    assert outcome(OpQuery("ttnn.silu", ()), record).verdict is verdict
