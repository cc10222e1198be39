"""Options: the ranges of their values, as text and as decoded JSON."""

from __future__ import annotations

import math
from typing import Any

import pytest

from optimizer.errors import OptionError
from optimizer.options import Options, parse_option


def test_options_survive_a_round_trip() -> None:
    options = Options(board="p150", seed=3, time_limit=2.5, input_shapes={"x": (1, 3)})
    assert Options.from_mapping(options.to_json()) == options


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("time_limit", math.inf, "'time_limit' must be positive and finite, got inf"),
        ("time_limit", math.nan, "'time_limit' must be positive and finite, got nan"),
        ("time_limit", 10**400, "'time_limit' must be at most 2**53"),
        ("l1_small_bytes", 10**400, "'l1_small_bytes' must be at most 2**53"),
        ("seed", 2**53 + 1, "'seed' must be at most 2**53"),
        ("max_nodes", 10**4000, "'max_nodes' must be at most 2**53"),
        ("tensor_l1_usage_cap", math.nan, "'tensor_l1_usage_cap' must be in (0, 1]"),
        ("input_shapes", {"x": [10**300]}, "a size of 'x' exceeds 2**53"),
    ],
)
def test_a_value_out_of_range_is_named(name: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        Options.from_mapping({name: value})
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("input_shapes", "x:" + "9" * 5000, "a size of 'x' has more than 400 digits"),
        ("seed", "9" * 5000, "'seed' must be a whole number of at most 400 characters"),
        ("seed", "x" * 100, f"got '{'x' * 60}...'"),
    ],
)
def test_overlong_text_is_refused_and_not_repeated(name: str, text: str, message: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse_option(name, [text])
    assert message in str(refused.value)
    assert len(str(refused.value)) < 200
