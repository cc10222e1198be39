"""Tile ops with values on the functional simulator: what the interpreter computes with the units of its chip."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from simulated_tiles import APPROXIMATE, cases, compare

from optimizer.device import DeviceSpec
from optimizer.execution.launching import KernelDevice
from optimizer.kernels.tensix.device.sfpu import CUT_OFF, PRODUCTS, SUMS
from optimizer.kernels.tensix.tile_ops import TILE_OPS

CASES = cases()
SAMPLE = (
    "bf16, DST of 16 bits, FPU HiFi2",
    "bf16, DST of 16 bits, SFPU 0",
    "bf16, DST of 16 bits, functions 0",
    "bf16, DST of 32 bits, sums HiFi3",
    "bf16, DST of 16 bits, forms HiFi4",
    "bfp8_b, DST of 32 bits, moves",
    "bfp4_b, DST of 16 bits, FPU LoFi",
)


@pytest.fixture(scope="module")
def simulator(needs_simulator: None) -> Iterator[KernelDevice]:
    with KernelDevice(DeviceSpec.preset("n150"), "sim") as device:
        yield device


@pytest.mark.parametrize("name", SAMPLE)
def test_the_simulator_computes_what_the_interpreter_does(name: str, simulator: KernelDevice) -> None:
    found = compare(CASES[name], simulator)
    assert [one.op for one in found] == list(CASES[name].results)
    assert all(one.elements for one in found)
    assert [one for one in found if not one.right] == []


def test_every_op_is_computed_by_a_case() -> None:
    computed = {op for case in CASES.values() for op in case.results}
    assert set(TILE_OPS) - computed == {"fill"}  # stands in no program of its own: constants of `spread-rows`


def test_facts_of_the_vector_unit_are_about_ops_that_there_are() -> None:
    assert set(APPROXIMATE) | CUT_OFF | SUMS | PRODUCTS <= set(TILE_OPS)
    assert not (SUMS | PRODUCTS) & set(APPROXIMATE), "a multiply-add is exact"
