"""Positions of operands that are absent between others."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.errors import GraphError
from optimizer.ir.graph import Op
from optimizer.ir.positions import ABSENT_OPERANDS, ABSENT_RESULTS, at_their_positions, check_positions, position_attrs


def host_op(**attrs: Any) -> Op:
    names = {"operands": ABSENT_OPERANDS, "results": ABSENT_RESULTS}
    return Op("lstm", "onnx.LSTM", ("x", "w", "h0"), ("h",), {names[k]: v for k, v in attrs.items()})


def test_gaps_are_kept_and_what_is_absent_at_the_end_is_not() -> None:
    attrs = position_attrs([True, True, False, False, True, False], [False, True, False])

    assert attrs == {ABSENT_OPERANDS: (2, 3), ABSENT_RESULTS: (0,)}
    assert position_attrs([True, True], [True]) == {}


def test_operands_stand_at_the_positions_of_the_foreign_node() -> None:
    op = host_op(operands=(2, 3), results=(0,))

    assert at_their_positions(op, ABSENT_OPERANDS, op.inputs) == ["x", "w", None, None, "h0"]
    assert at_their_positions(op, ABSENT_RESULTS, op.outputs) == [None, "h"]


@pytest.mark.parametrize("places", [(3,), (1, 0), (0, 0), (-1,), (0.5,), "0", (5,)])
def test_positions_that_do_not_fit_are_refused(places: Any) -> None:
    with pytest.raises(GraphError, match="absent_operands") as caught:
        check_positions(host_op(operands=places))

    assert caught.value.node == "lstm"


def test_positions_that_fit() -> None:
    check_positions(host_op(operands=(0, 2), results=(0, 1)))
