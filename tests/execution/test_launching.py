"""Kernels launched with `ttnn.generic_op`: accepted by a mock device, right on the simulator."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from test_grid_and_regions import sliced
from test_mixed_types import KERNELS
from test_tensor_backed_buffers import program as backed

from optimizer.cli import main
from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError
from optimizer.execution import launching
from optimizer.execution.launching import KernelDevice, launched, read_kernel
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import build
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.source.text import parse, text_of
from optimizer.kernels.tensix.witness.whole_tensors import inputs_of
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


def accepted(program: Op, device: KernelDevice) -> dict[str, tuple[int, ...]]:
    """Shapes of what a device gives back."""
    kernel = build(program, KernelOptions())
    found = device.run(kernel, inputs_of(program, kernel.launch, 0))
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
    needs_simulator: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends itself like this, by an abort, where it lacks an instruction."""
    first_call, call = iter(["import os; os.abort()"]), launching._call
    monkeypatch.setattr(launching, "_call", lambda *of: next(first_call, None) or call(*of))
    ops = [{"name": "v", "op": "neg", "args": ["a"]}]
    cases = [{"id": name, "inputs": ["a"], "outputs": ["o"], "ops": ops, "yield": ["v"]} for name in ("ends", "runs")]
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"cases": cases}), encoding="utf-8")
    assert main(["kernel", "run", str(path), "--device", "sim"]) == 1
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert "the device's process ended" in first["error"]
    assert (second["agrees"], second["executed_differs"], second["error"]) == (True, 0, None)


# -- launch.py --------------------------------------------------------------------------------------------------
def test_compile_time_args_are_those_that_ttnn_gives(mock: KernelDevice) -> None:
    """The manifest says as numbers what `TensorAccessorArgs` gives."""
    kernel = build(KERNELS["bfp8_b * bf16"](), KernelOptions())
    asked = "\n".join(
        [
            "import ttnn",
            "def launch(device, *given):",
            "    made = [n for t in given for n in ttnn.TensorAccessorArgs(t).get_compile_time_args()]",
            "    return ttnn.Tensor(made, [1, len(made)], ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT)",
        ]
    )
    reader = next(thread for thread in kernel.launch.threads if thread.kind == "reader")
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "launch.py"
        module.write_text(asked, encoding="utf-8")
        (found,) = mock.run(kernel, inputs_of(kernel.program, kernel.launch, 0), module).values()
    assert found.astype(int).ravel().tolist() == kernel.launch.compile_time_args(reader)


def test_a_folder_is_the_kernel_that_was_compiled(tmp_path: Path) -> None:
    path = tmp_path / "p.ttl"
    path.write_text(text_of(sliced()), encoding="utf-8")
    out = tmp_path / "out"
    assert main(["kernel", "compile", str(path), "-o", str(out), "--board", "p150", "--no-fuse"]) == 0
    kernel = read_kernel(out / "squared")
    options = KernelOptions(board=DeviceSpec.preset("p150"), fuse=False)
    assert kernel == build(sliced(), options)


def test_a_folder_without_a_kernel_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "program.ttl").write_text(text_of(sliced()), encoding="utf-8")
    (tmp_path / "manifest.json").write_text('{"api": "0.81"}', encoding="utf-8")
    assert main(["kernel", "launch", str(tmp_path)]) == 2
    assert "field 'board' is missing" in capsys.readouterr().err
    assert main(["kernel", "launch", str(tmp_path / "nothing")]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.slow
def test_the_launcher_is_a_script(needs_simulator: None, tmp_path: Path) -> None:
    assert main(["kernel", "compile", "fixtures/kernels/add_2x2.ttl", "-o", str(tmp_path)]) == 0
    script = [sys.executable, str(tmp_path / "add_multitile" / "launch.py"), "--device", "sim", "--seed", "3"]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert (record["id"], record["agrees"], record["elements"]) == ("add_multitile", True, 4096)
