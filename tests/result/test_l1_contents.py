"""What a result says of L1 by itself is what the verifier's replay finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from optimizer.result.l1_contents import Contents, Taken, contents
from optimizer.verify import VerifyReport, verify
from tests.plans import planned_file

ROOT = Path(__file__).resolve().parents[2]
RESIDENT = ("weight", "tensor")


@pytest.fixture(scope="module", params=["attention", "concat", "fork", "mlp", "conv2d_relu"])
def result(request: pytest.FixtureRequest) -> OptimizedGraph:
    return planned_file(ROOT / f"fixtures/graphs/{request.param}.json", Options(policy="global"))


def replayed(result: OptimizedGraph) -> VerifyReport:
    return verify(result, CachedOpModel(create("analytical", result.device, result.options.l1_small_bytes)))


def listed(result: OptimizedGraph) -> list[Contents]:
    stated = {op: record.predicted for op, record in result.records.items() if record.predicted is not None}
    return list(contents(result, {op: Taken(p.peak_l1_bytes, p.cb_bytes) for op, p in stated.items()}))


def test_what_is_there_before_an_op_is_what_the_verifier_found(result: OptimizedGraph) -> None:
    steps = replayed(result).steps
    found = listed(result)
    assert [(at.op.id, at.resident_bytes) for at in found] == [(step.op, step.resident_bytes) for step in steps]
    before = [sum(item.bytes for item in at.items if item.kind in RESIDENT) for at in found]
    assert before == [step.resident_bytes for step in steps]


def test_items_add_up_to_what_the_op_states(result: OptimizedGraph) -> None:
    sums = {at.op.id: sum(item.bytes for item in at.items) for at in listed(result)}
    stated = {op: r.predicted.peak_l1_bytes for op, r in result.records.items() if r.predicted is not None}
    assert sums == stated


def test_an_op_of_which_nothing_is_stated_is_left_out(result: OptimizedGraph) -> None:
    assert list(contents(result, {})) == []
