"""Errors over HTTP name fields."""

from __future__ import annotations

import pytest

from api.problems import members_of
from api.wording import as_fields
from optimizer.errors import OptionError


@pytest.mark.parametrize(("text", "told"), [
    ("such as --dim batch=1 --input-shapes x:1,?", "such as dims=batch=1 input_shapes=x:1,?"),
    ("--dim zz: the model gives no size a name", "dims zz: the model gives no size a name"),
    ("--input-shapes x: dims must be positive", "input_shapes x: dims must be positive"),
    ("--input-shapes names 'y', which is no input", "input_shapes names 'y', which is no input"),
    ("insert-memreconfig names operand 3 of 2", "insert_memreconfig names operand 3 of 2"),
    ("a--board my-insert-memreconfig --dimension --policy-x", "a--board my-insert-memreconfig --dimension --policy-x"),
])  # fmt: skip
def test_flags_become_fields(text: str, told: str) -> None:
    assert as_fields(text) == told


def test_the_place_of_an_error_is_a_field() -> None:
    members = members_of(OptionError("'zz' is not op=value", node="override-output-layout"))
    assert members["node"] == "override_output_layout"
