"""Kernels whose cores hand blocks to each other: accepted by a mock device, right on the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.device import DeviceSpec
from optimizer.execution.launching import KernelDevice, launched
from optimizer.kernels.tensix.launch import build
from optimizer.kernels.tensix.pipeline import KernelOptions
from tests.kernels.tensix.test_dataflow import PATTERNS, product, whole

N150 = DeviceSpec.preset("n150")


def test_tt_metal_takes_semaphores_and_run_time_arguments(mock: KernelDevice) -> None:
    """A number for all cores, and one for each."""
    kernel = build(product((2, 2), (1, 1, 1), 2).with_attrs(origin=(1, 3)), KernelOptions())
    assert (kernel.launch.semaphores, kernel.launch.runtime_args) == ((0, 0, 0, 0), ("k_blocks",))
    inputs = {tensor.argument: np.zeros(tensor.shape, np.float32) for tensor in kernel.launch.inputs}
    for given in (2, {(x, y): 2 for x in range(2) for y in range(2)}):
        (made,) = mock.run(kernel, inputs, arguments={"k_blocks": given}).values()
        assert made.shape == (64, 64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "block", "wide"),
    [((1, 1), (2, 2, 1), False), ((2, 2), (2, 2, 2), True), ((4, 3), (4, 4, 1), False), ((8, 8), (1, 2, 1), True)],
)
def test_the_multicast_matmul_is_right_for_any_number_of_blocks(
    grid: tuple[int, int], block: tuple[int, int, int], wide: bool, simulator: KernelDevice
) -> None:
    kernel = build(product(grid, block, 3, wide), KernelOptions())
    a_name, b_name = (tensor.argument for tensor in kernel.launch.inputs)
    (columns, rows), (m, n, depth) = grid, block
    a, b = whole(rows * m, 3 * depth), whole(3 * depth, columns * n)
    for blocks in (1, 3):
        (c,) = simulator.run(kernel, {a_name: a, b_name: b}, arguments={"k_blocks": blocks}).values()
        assert np.array_equal(c, a[:, : blocks * depth * 32] @ b[: blocks * depth * 32])


@pytest.mark.slow
@pytest.mark.parametrize("name", PATTERNS)
def test_blocks_arrive_where_pipes_go(name: str, simulator: KernelDevice) -> None:
    make, meaning = PATTERNS[name]
    kernel = build(make(), KernelOptions())
    x_name = kernel.program.body.args[0].name
    rows, columns = kernel.launch.inputs[0].shape
    x = whole(rows // 32, columns // 32)
    inputs = {tensor.argument: np.zeros(tensor.shape, np.float32) for tensor in kernel.launch.inputs} | {x_name: x}
    y = simulator.run(kernel, inputs)[kernel.program.body.args[1].name]
    assert np.array_equal(y, meaning(x))


@pytest.mark.slow
def test_random_numbers_are_within_the_error_bound(simulator: KernelDevice) -> None:
    found = launched(product((2, 2), (2, 2, 1), 4), KernelOptions(), simulator, arguments={"k_blocks": 3})
    assert found.right
    assert found.judged == found.elements == 128 * 128
