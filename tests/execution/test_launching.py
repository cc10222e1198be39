"""Kernels launched with `ttnn.generic_op`: accepted by a mock device, right on the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from test_grid_and_regions import sliced
from test_mixed_types import KERNELS
from test_tensor_backed_buffers import program as backed

from optimizer.cli import main
from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.execution.launching import KernelDevice, launched
from optimizer.kernels.tensix.emit_cpp import emit_program
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import launch_of
from optimizer.kernels.tensix.pipeline import KernelOptions, lower
from optimizer.kernels.tensix.whole_tensors import inputs_of
from tests.kernels.tensix.sample_kernels import ROWS, add_2x2

N150 = DeviceSpec.preset("n150")
PROGRAMS = {
    "add": add_2x2,
    "a grid of cores": sliced,
    "shards": backed,
    "softmax": ROWS["softmax"],
    "bfp8_b": KERNELS["bfp8_b * bf16"],
    "to bfp8_b": KERNELS["bf16 to bfp8_b"],
    "bfp4_b": KERNELS["bfp4_b and bfp8_b"],
    "f32": KERNELS["typecast to f32"],
}


@pytest.fixture(scope="module")
def mock(needs_ttnn: None) -> Iterator[KernelDevice]:
    with KernelDevice(N150, "mock") as device:
        yield device


@pytest.fixture(scope="module")
def simulator(needs_simulator: None) -> Iterator[KernelDevice]:
    with KernelDevice(N150, "sim") as device:
        yield device


def accepted(program: Op, device: KernelDevice) -> dict[str, tuple[int, ...]]:
    """Shapes of what a device gives back."""
    lowered = lower(program)
    sources = emit_program(lowered)
    launch = launch_of(program, lowered, sources, N150)
    found = device.run(launch, sources, inputs_of(program, launch, 0))
    return {name: values.shape for name, values in found.items()}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tt_metal_takes_the_launch(name: str, mock: KernelDevice) -> None:
    program = PROGRAMS[name]()
    shapes = accepted(program, mock)
    (written,) = shapes.values()
    assert written == ((192, 128) if name == "shards" else (128, 192) if name == "a grid of cores" else written)
    assert all(n % 32 == 0 for n in written)


def test_a_kernel_that_is_refused_says_why_and_the_next_one_runs(mock: KernelDevice) -> None:
    """1.5 MB of circular buffers are more than a core has; l1_bytes says that they are there."""
    from optimizer.kernels.tensix.text import parse, text_of

    text = text_of(add_2x2()).replace("cb<2x2xbf16, 2>", "cb<2x2xbf16, 80>").replace("grid", "l1_bytes = 9000000, grid")
    with pytest.raises(ExecutionError, match=r"the device refuses it: .*L1"):
        accepted(parse(text), mock)
    assert list(accepted(add_2x2(), mock).values()) == [(64, 64)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_simulator_computes_right_values(name: str, simulator: KernelDevice) -> None:
    found = launched(PROGRAMS[name](), KernelOptions(), simulator)
    assert found.right
    assert found.judged == found.elements == sum(values.size for values in found.tensors.values())


@pytest.mark.slow
def test_the_same_seed_is_the_same_run(simulator: KernelDevice) -> None:
    first, again, other = (launched(add_2x2(), KernelOptions(), simulator, seed) for seed in (0, 0, 1))
    (name,) = first.tensors
    assert np.array_equal(first.tensors[name], again.tensors[name])
    assert not np.array_equal(first.tensors[name], other.tensors[name])


@pytest.mark.slow
def test_a_case_that_ends_the_simulator_is_answered_and_the_next_one_runs(
    needs_simulator: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Maxima are scaled by 1 only."""
    ops = [
        {"name": "s", "op": "add_scalar", "args": ["ones"], "attrs": {"value": 0.5}},
        {"name": "v", "op": "reduce_max_row", "args": ["a", "s"]},
    ]
    ends = {"id": "ends", "inputs": ["a", "ones"], "outputs": ["o"], "ops": ops, "yield": ["v"]}
    ops = [{"name": "v", "op": "neg", "args": ["a"]}]
    runs = {"id": "runs", "inputs": ["a"], "outputs": ["o"], "ops": ops, "yield": ["v"]}
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": [ends, runs]}), encoding="utf-8")
    assert main(["kernel", "run", str(path), "--device", "sim"]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert "the device's process ended" in first["error"]
    assert (second["agrees"], second["executed_differs"], second["error"]) == (True, 0, None)
