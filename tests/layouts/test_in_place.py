"""Which operands an op may write its result into, and by which config."""

from __future__ import annotations

import pytest

from optimizer.errors import FormatError
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.graph import Graph, Op
from optimizer.layouts.in_place import in_place_config, writable_operands
from optimizer.layouts.legal_op_configs import may_free_operand
from optimizer.layouts.op_config import (
    InPlaceConfig,
    LayerNormShardedMultiCoreProgramConfig,
    SDPAProgramConfig,
    op_config_from_json,
    overwritten_operand,
)

NORM = LayerNormShardedMultiCoreProgramConfig((8, 8), 1, 4, 1)


def add_of(kind: str) -> tuple[Graph, Op]:
    """An add, the second operand of which is made in some way and may be needed elsewhere."""
    b = GraphBuilder("g")
    x = b.input("x", (1, 1, 64, 64))
    y = b.op("ttnn.relu", x, name="y")
    outputs = []
    if kind == "read again":
        outputs.append(b.op("ttnn.exp", y))
    elif kind == "returned":
        outputs.append(y)
    elif kind in ("view", "view of what is read again"):
        outputs += [b.op("ttnn.exp", y)] if kind != "view" else []
        y = b.op("ttnn.reshape", b.op("ttnn.reshape", y, shape=(1, 64, 64)), shape=(1, 1, 64, 64))
    elif kind == "slice of everything that is read again":
        outputs.append(b.op("ttnn.exp", y))
        y = b.op("ttnn.slice", y, begins=(0, 0, 0, 0), ends=(1, 1, 64, 64))
    elif kind == "input":
        y = x
    elif kind == "weight":
        y = b.parameter("w", (1, 1, 64, 64))
    result = b.op("ttnn.add", b.op("ttnn.exp", x), y, name="sum")
    graph = b.finish(result, *outputs)
    return graph, graph.op("sum")


@pytest.mark.parametrize(
    ("kind", "free"),
    [
        ("alone", True),
        ("view", True),
        ("read again", False),
        ("returned", False),
        ("view of what is read again", False),
        ("slice of everything that is read again", False),
        ("input", False),
        ("weight", False),
    ],
)
def test_only_what_nothing_else_needs_is_free(kind: str, free: bool) -> None:
    graph, op = add_of(kind)
    assert may_free_operand(graph, op, 1) is free


def test_operands_that_are_read_twice_are_not_written_into() -> None:
    assert writable_operands(Op("a", "ttnn.add", ("x", "y"), ("z",))) == (0, 1)
    assert writable_operands(Op("a", "ttnn.add", ("x", "x"), ("z",))) == ()
    assert writable_operands(Op("a", "ttnn.layer_norm", ("x", "w"), ("z",))) == (0,)
    assert writable_operands(Op("a", "ttnn.softmax", ("x",), ("z",))) == ()


def test_configs_in_place() -> None:
    add, norm = Op("a", "ttnn.add", ("x", "y"), ("z",)), Op("n", "ttnn.rms_norm", ("x", "w"), ("z",))
    assert in_place_config(add, None, 1) == InPlaceConfig(1)
    assert in_place_config(norm, None, 0) is None
    inside = in_place_config(norm, NORM, 0)
    assert [overwritten_operand(c) for c in (InPlaceConfig(1), inside, NORM, None)] == [1, 0, None, None]
    assert in_place_config(Op("s", "ttnn.softmax", ("x",), ("z",)), SDPAProgramConfig((8, 8), 32, 32), 0) is None


def test_the_record_of_a_config_reads_back() -> None:
    for position in (0, 1):
        assert op_config_from_json(InPlaceConfig(position).to_json()) == InPlaceConfig(position)
    with pytest.raises(FormatError, match="operand"):
        op_config_from_json({"kind": "in_place", "operand": -1})
    with pytest.raises(FormatError, match="operand missing"):
        op_config_from_json({"kind": "in_place"})
