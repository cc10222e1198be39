"""Rows in, answers out."""

from __future__ import annotations

import pytest

from optimizer.errors import FormatError, OptionError, UnknownNameError
from optimizer.opmodel.query import query_rows, time_rows

RELU = {
    "id": 7,
    "board": "n150",
    "op": "relu",
    "attrs": {},
    "inputs": [
        {"shape": [64, 64], "dtype": "bf16", "layout": "tile", "memory_layout": "interleaved", "buffer": "dram"}
    ],
    "request_mem": {"memory_layout": "interleaved", "buffer": "l1"},
    "request_dtype": None,
}
EXP = {
    "id": "3",
    "arch": "wormhole_b0",
    "clock_mhz": "1000",
    "op": "Unary",
    "op_class": "eltwise",
    "variant": "EXP",
    "in0_shape": "1x1x2048x2048",
    "out_shape": "1x1x2048x2048",
    "in0_dtype": "bf16",
    "out_dtype": "bf16",
    "in0_mem": "DRAM_INTERLEAVED",
    "out_mem": "DRAM_INTERLEAVED",
    "in0_layout": "TILE",
    "out_layout": "TILE",
    "cores": "64",
}


def test_an_answer_names_row_verdict_layout_and_bytes() -> None:
    (answer,) = query_rows([RELU])
    assert answer == {
        "id": 7,
        "valid": True,
        "kind": None,
        "error": None,
        "out_mem": {"memory_layout": "interleaved", "buffer": "l1"},
        "peak_cb": 8192,
        "peak_l1": 2048,
        "peak_total": 10240,
    }


def test_a_refused_row_says_why() -> None:
    wide = {**RELU, "request_mem": {"memory_layout": "height", "buffer": "l1", "shard_shape": [32, 32],
                                    "grid": [[0, 0, 1, 0]], "orientation": "row"}}  # fmt: skip
    (answer,) = query_rows([wide])
    assert (answer["valid"], answer["kind"]) == (False, "validation")
    assert "Shard width" in answer["error"]


def test_what_was_measured_is_not_read() -> None:
    measured = {**RELU, "valid": False, "error": "x", "out_mem": None, "peak_total": 1}
    assert list(query_rows([measured])) == list(query_rows([RELU]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "rellu"}, "rellu"),
        ({"inputs": 3}, r"inputs: a list is due, not 3"),
        ({"board": 5}, "board"),
        ({"l1_small": -1}, "l1_small"),
    ],
)
def test_a_bad_row_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises((FormatError, UnknownNameError), match=message) as caught:
        list(query_rows([RELU, {**RELU, **change}]))
    assert "row 2 (id 7)" in str(caught.value)


def test_answers_come_one_by_one() -> None:
    def rows():
        yield RELU
        raise RuntimeError("read too far")

    assert next(query_rows(rows()))["id"] == 7


def test_times_are_positive_and_grow_with_the_work() -> None:
    small = {**EXP, "in0_shape": "1x1x512x512", "out_shape": "1x1x512x512"}
    times = [a["predicted_ns"] for a in time_rows([small, EXP])]
    assert 1 <= times[0] < times[1]


def test_measured_time_is_not_read() -> None:
    assert list(time_rows([{**EXP, "time_ns": "1"}])) == list(time_rows([EXP]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arch": "grayskull"}, "arch"),
        ({"op_class": "magic"}, "op class"),
        ({"in0_shape": "1xtwo"}, "in0_shape"),
        ({"clock_mhz": "0"}, "clock_mhz"),
        ({"cores": "many"}, "cores"),
        ({"in0_dtype": "complex"}, "in0_dtype"),
    ],
)
def test_a_bad_time_row_is_named(change: dict[str, str], message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        list(time_rows([{**EXP, **change}]))
    assert "row 1 (id 3)" in str(caught.value)


def test_only_the_analytical_backend_times_device_ops() -> None:
    with pytest.raises(OptionError, match="other"):
        list(time_rows([EXP], "other"))
