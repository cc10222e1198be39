"""The timeline of L1 adds up to what the verifier checked, and says whose buffer a value lives in."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.answers.timeline import COLUMNS, Timeline, timeline
from optimizer.device import DeviceSpec
from optimizer.errors import VerificationError
from optimizer.ir.builder import GraphBuilder
from optimizer.options import Options
from optimizer.pipeline import optimize, optimize_file
from optimizer.result import OptimizedGraph, Role

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=["dfsharding2", "global"])
def result(request: pytest.FixtureRequest) -> OptimizedGraph:
    """Plans with views, residents beyond their chain, and (`global`) weights in L1 and results in place."""
    return optimize_file(ROOT / "fixtures/graphs/attention.json", Options(policy=request.param))


@pytest.fixture(scope="module")
def found(result: OptimizedGraph) -> Timeline:
    return timeline(result)


def test_every_position_adds_up_to_its_total(found: Timeline) -> None:
    sums = [(p.op, sum(item.bytes for item in p.items)) for p in found.positions]
    assert sums == [(p.op, p.memory.total_bytes) for p in found.positions]
    assert max(total for _, total in sums) == found.peak.memory.total_bytes > 0


def test_totals_are_those_of_the_predictions(result: OptimizedGraph, found: Timeline) -> None:
    stated = [(p.op, result.records[p.op].predicted) for p in found.positions]
    assert [(op, predicted and predicted.peak_l1_bytes) for op, predicted in stated] == [
        (p.op, p.memory.total_bytes) for p in found.positions
    ]
    assert found.peak.memory.total_bytes == result.summary.l1_peak_bytes
    assert found.limit_bytes == result.summary.l1_limit_bytes


def test_positions_are_those_of_the_document(result: OptimizedGraph, found: Timeline) -> None:
    ops = [op.id for op in result.graph.ops()]
    assert [ops[p.position] for p in found.positions] == [p.op for p in found.positions]
    assert {p.op for p in found.positions} == {o for o in ops if result.records[o].role is not Role.HOST}


def test_an_operand_in_l1_is_there_while_it_is_read(result: OptimizedGraph, found: Timeline) -> None:
    for p in found.positions:
        listed = {item.value for item in p.items}
        op = result.graph.op(p.op)
        assert {v for v in (*op.inputs, *op.outputs) if result.layouts[v].is_l1} <= listed


def test_what_is_reserved_is_marked_from_where_it_comes_to_life(result: OptimizedGraph, found: Timeline) -> None:
    at = {p.position: {item.value: item.reserved for item in p.items} for p in found.positions}
    produced = [r for r in result.reservations if result.graph.producer(r.value) is not None and r.start in at]
    assert produced
    assert [at[r.start].get(r.value) for r in produced] == [1] * len(produced)
    assert not any(at[p].get(r.value) for r in result.reservations for p in at if not r.start <= p <= r.end)


def test_a_value_in_anothers_buffer_adds_nothing_and_names_it() -> None:
    """L1 has room for two of the tensors: the policy `global` writes the product into an operand."""
    b = GraphBuilder("gated")
    x = b.input("x", (1, 1, 2048, 2048))
    y = b.op("ttnn.multiply", b.op("ttnn.gelu", x), b.op("ttnn.exp", x))
    graph = b.finish(b.op("ttnn.add", b.op("ttnn.silu", y), x))
    options = Options(policy="global", tensor_l1_usage_cap=0.22, weights_in_l1=False)
    found = timeline(optimize(graph, DeviceSpec.preset("n150"), options))
    aliases = [(p, item) for p in found.positions for item in p.items if item.kind == "alias"]
    assert aliases
    for p, alias in aliases:
        assert alias.bytes == 0 < alias.size_bytes
        (owner,) = (item for item in p.items if item.value == alias.alias_of)
        assert owner.size_bytes >= alias.size_bytes


def test_rows_have_the_columns_in_their_order(found: Timeline) -> None:
    rows = list(found.rows())
    assert all(tuple(row) == COLUMNS for row in rows)
    assert len(rows) == sum(len(p.items) for p in found.positions)
    by_position: dict[int, int] = {}
    for row in rows:
        by_position[row["position"]] = by_position.get(row["position"], 0) + row["bytes"]
    assert by_position == {row["position"]: row["total_bytes"] for row in rows}


def test_a_result_that_does_not_verify_has_none(result: OptimizedGraph) -> None:
    wrong = OptimizedGraph(
        result.graph.copy(), dict(result.layouts), dict(result.records), result.device, result.options, result.model
    )
    del wrong.layouts[result.graph.outputs[0]]
    with pytest.raises(VerificationError):
        timeline(wrong)
