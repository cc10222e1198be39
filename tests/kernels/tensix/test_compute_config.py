"""What a kernel's host has to set."""

from __future__ import annotations

from typing import Any

import pytest

from optimizer.errors import GraphError, LimitError
from optimizer.kernels.tensix.compute_config import compute_config
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.source.cases import compile_case, read_cases
from tests.kernels.tensix.sample_kernels import add_2x2


def stated(**attrs: Any) -> Op:
    return add_2x2().with_attrs(**attrs)


def test_what_a_program_says_is_what_the_lowered_one_hands_to_the_host() -> None:
    lowered = lower(stated(math_fidelity="LoFi", math_approx_mode=True, dst_full_sync_en=True), KernelOptions())
    assert compute_config(lowered, "wormhole_b0").to_json() == {
        "math_fidelity": "LoFi",
        "math_approx_mode": True,
        "fp32_dest_acc_en": False,
        "dst_full_sync_en": True,
        "unpack_to_dst": [],
    }


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"math_fidelity": "Nope"}, r"'Nope' \(one of: LoFi, HiFi2, HiFi3, HiFi4\)"),
        ({"math_fidelity": "hifi2"}, "did you mean 'HiFi2'"),
        ({"math_fidelty": "LoFi"}, "has no attribute 'math_fidelty', did you mean 'math_fidelity'"),
    ],
)
def test_what_no_host_knows_is_refused(attrs: dict[str, str], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        lower(stated(**attrs), KernelOptions())


@pytest.mark.parametrize(
    ("dtype", "capacity", "full"), [("bf16", 8, False), ("bf16", 9, True), ("f32", 4, False), ("f32", 5, True)]
)
def test_more_slots_than_double_buffering_leaves_need_full_sync(dtype: str, capacity: int, full: bool) -> None:
    ops = [{"name": "e", "op": "exp", "args": ["a"]}]
    record = {"inputs": ["a"], "outputs": ["o"], "ops": ops, "yield": ["e"], "dtype": dtype, "capacity": capacity}
    config = compile_case(read_cases(record)[0], KernelOptions()).record["compute_config"]
    assert (config["fp32_dest_acc_en"], config["dst_full_sync_en"]) == (dtype == "f32", full)


@pytest.mark.parametrize(
    ("attrs", "most", "more"),
    [
        ({}, 8, "with 'dst_full_sync_en' it has 16"),
        ({"fp32_dest_acc_en": True}, 4, "with 'dst_full_sync_en' it has 8"),
        ({"dst_full_sync_en": True}, 16, ""),
        ({"fp32_dest_acc_en": True, "dst_full_sync_en": True}, 8, ""),
    ],
)
def test_a_program_has_no_more_slots_than_its_configuration_leaves(
    attrs: dict[str, bool], most: int, more: str
) -> None:
    lower(stated(dst_capacity=most, **attrs), KernelOptions())
    with pytest.raises(LimitError, match=rf"'dst_capacity' is {most + 1}.*{more}"):
        lower(stated(dst_capacity=most + 1, **attrs), KernelOptions())
