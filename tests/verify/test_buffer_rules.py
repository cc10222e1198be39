"""The verifier finds what reads a buffer that a result was written over, and what may not be written over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Op, ValueKind
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.layouts.op_config import InPlaceConfig, overwritten_operand
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.result import OpRecord, OptimizedGraph, Role
from optimizer.verify import Subject, verify
from optimizer.verify.buffer_rules import reads_what_is_there
from tests.plans import planned

N150 = DeviceSpec.preset("n150")


@pytest.fixture
def model() -> OpModel:
    return create("analytical", N150, 32768)


@pytest.fixture
def good() -> OptimizedGraph:
    """`mul` is written into a reshaped `p` or into `q`, `act` into `mul`; the sum is returned from DRAM."""
    b = GraphBuilder("good")
    x = b.input("x", (1, 1, 512, 512))
    p, q = b.op("ttnn.gelu", x, name="p"), b.op("ttnn.exp", x, name="q")
    p = b.op("ttnn.reshape", p, shape=(1, 512, 512), name="flat")
    p = b.op("ttnn.reshape", p, shape=(1, 1, 512, 512), name="back")
    y = b.op("ttnn.silu", b.op("ttnn.multiply", p, q, name="mul"), name="act")
    result = planned(b.finish(b.op("ttnn.add", y, x, name="sum")), N150, Options())
    assert {op.id for op in result.graph.ops() if into(result, op.id) is not None} == {"mul", "act"}
    return result


def into(result: OptimizedGraph, op_id: str) -> int | None:
    return overwritten_operand(result.records[op_id].config)


def operand(result: OptimizedGraph, op_id: str) -> str:
    """The value that an op in place writes its result into."""
    position = into(result, op_id)
    assert position is not None
    return result.graph.op(op_id).inputs[position]


def add_reader(result: OptimizedGraph, value_id: str) -> None:
    """A last op that reads a value and is returned too."""
    graph = result.graph
    graph.add_value(replace(graph.value(value_id), id="late_out"))
    graph.add_op(Op("late", "ttnn.exp", (value_id,), ("late_out",)))
    result.layouts["late_out"] = DRAM_TILE
    result.records["late"] = OpRecord(Role.COMPUTE, None, DRAM_TILE.memory)
    graph.outputs = [*graph.outputs, "late_out"]


def test_a_good_result_passes(good: OptimizedGraph, model: OpModel) -> None:
    report = verify(good, model)
    assert report.errors == []
    size = next(s for s in report.steps if s.op == "mul").own_peak_bytes
    assert size == next(s for s in report.steps if s.op == "mul").cb_bytes


def _read_later(r: OptimizedGraph) -> None:
    add_reader(r, operand(r, "mul"))


def _view_source_read_later(r: OptimizedGraph) -> None:
    r.records["mul"] = replace(r.records["mul"], config=InPlaceConfig(0))
    add_reader(r, r.graph.op("p").outputs[0])


def _read_twice(r: OptimizedGraph) -> None:
    mul = r.graph.op("mul")
    r.graph.replace_op(replace(mul, inputs=(operand(r, "mul"),) * 2))


def _weight(r: OptimizedGraph) -> None:
    value = r.graph.value(operand(r, "act"))
    r.graph.set_value(replace(value, kind=ValueKind.CONSTANT))


def _no_such_operand(r: OptimizedGraph) -> None:
    r.records["act"] = replace(r.records["act"], config=InPlaceConfig(1))


def _other_layout(r: OptimizedGraph) -> None:
    r.layouts[r.graph.op("act").outputs[0]] = DRAM_TILE


DAMAGE: dict[str, tuple[Callable[[OptimizedGraph], None], str]] = {
    "operand read later": (_read_later, "has written over"),
    "what the operand is a view of read later": (_view_source_read_later, "which 'mul' has written over"),
    "operand read twice": (_read_twice, "which it reads twice"),
    "weight": (_weight, "which is there for every run"),
    "no such operand": (_no_such_operand, "cannot write its result into operand 1"),
    "another layout": (_other_layout, "not in L1 with the result's shape, type and layout"),
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damage_is_found(damage: str, good: OptimizedGraph, model: OpModel) -> None:
    harm, message = DAMAGE[damage]
    harm(good)
    errors = list(reads_what_is_there(Subject(good, model)))
    assert any(message in text for _, text in errors), errors
