"""The script beside an emitted program: files of arrays, random inputs, and a run from end to end on a stand-in."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from witnessed_models import MODELS

from optimizer.execution.whole import random_weights
from optimizer.export.ttnn_py import run_model, write
from optimizer.export.ttnn_py.rendering import RUNNER
from optimizer.options import Options
from tests.plans import planned_file

STAND_IN = '''
"""As much of ttnn as the program below needs."""
import types
float32, bfloat16, bfloat8_b, bfloat4_b, int32, uint32, uint16, uint8 = "f32 bf16 b8 b4 i32 u32 u16 u8".split()
ROW_MAJOR_LAYOUT, TILE_LAYOUT = "rm", "tile"
StorageType = types.SimpleNamespace(DEVICE="device", HOST="host")
class Tensor:
    def __init__(self, array, dtype):
        self.array, self.dtype, self.layout = array, dtype, TILE_LAYOUT
    def storage_type(self): return StorageType.DEVICE
    def to_numpy(self): return self.array
def open_device(device_id, l1_small_size): return f"device {device_id} {l1_small_size}"
def close_device(device): print("closed", device)
def synchronize_device(device): pass
def from_device(tensor): return tensor
def to_layout(tensor, layout): return tensor
def to_dtype(tensor, dtype): return tensor
'''
PROGRAM = """
import ttnn
L1_SMALL_SIZE = 512
INPUTS = [{"name": "x", "shape": (2, 3), "dtype": ttnn.bfloat16},
    {"name": "i", "shape": (4,), "dtype": ttnn.uint32, "below": 3}]
PARAMETERS = [{"name": "w", "shape": (2, 3), "dtype": ttnn.bfloat16}]
OUTPUTS = ["sum/file", "file"]
def make_parameters(device, arrays):
    if "w" not in arrays: raise ValueError("no arrays for 1 of 1 tensors: w")
    return {"w": arrays["w"]}
def make_inputs(device, arrays): return arrays
def run(device, inputs, parameters):
    return [ttnn.Tensor(inputs["x"] + parameters["w"], ttnn.bfloat16), ttnn.Tensor(inputs["i"], ttnn.uint32)]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ttnn.py").write_text(STAND_IN)
    (tmp_path / "model_ttnn.py").write_text(PROGRAM)
    (tmp_path / RUNNER.name).write_text(RUNNER.read_text())
    np.savez(tmp_path / "w.npz", w=np.ones((2, 3), np.float32), unused=np.zeros(3))
    return tmp_path


def called(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / RUNNER.name), *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


# -- the whole script ------------------------------------------------------------------------------------------
def test_outputs_of_given_inputs_are_written(folder: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(folder / "x.npz", x=x, i=np.arange(4))

    done = called(folder, "w.npz", "--inputs", "x.npz", "--output", "y.npz", "--iterations", "2")

    assert (done.returncode, done.stderr) == (0, "")
    assert "closed device 0 512" in done.stdout
    assert "ms at best" in done.stdout
    found = run_model.read_arrays(folder / "y.npz")
    np.testing.assert_array_equal(found["sum/file"], x + 1)
    np.testing.assert_array_equal(found["file"], np.arange(4))


def test_random_inputs_are_those_of_the_seed(folder: Path) -> None:
    for name, seed in (("a", "4"), ("b", "4"), ("c", "5")):
        assert called(folder, "w.npz", "--seed", seed, "--output", f"{name}.npz").returncode == 0

    first, same, other = ((folder / f"{name}.npz").read_bytes() for name in "abc")
    assert first == same
    assert first != other
    assert run_model.read_arrays(folder / "a.npz")["file"].max() < 3


def test_missing_weights_end_in_one_sentence(folder: Path) -> None:
    np.savez(folder / "v.npz", v=np.ones(3))

    done = called(folder, "v.npz", "--output", "y.npz")

    assert (done.returncode, done.stderr) == (1, "run_model.py: no arrays for 1 of 1 tensors: w\n")
    assert not (folder / "y.npz").exists()


def test_a_file_that_is_none_ends_in_one_sentence(folder: Path) -> None:
    (folder / "bad.npz").write_bytes(b"PK nothing")

    assert called(folder, "bad.npz").stderr.startswith("run_model.py: bad.npz is no .npz file of plain arrays: ")
    assert "No such file" in called(folder, "gone.npz").stderr


# -- at full speed, on the stand-in that checks the order of the calls -----------------------------------------
TESTS = Path(__file__).resolve().parents[1]
PATHS = [str(TESTS / "export"), str(TESTS / "importers")]
"""Where the stand-in is, and what it imports."""
WHOLE_STAND_IN = """
import sys
sys.path[:0] = {paths!r}
from ttnn_standin import Standin
globals().update(vars(Standin().ttnn))
"""


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program as it is emitted, its weights, and a `ttnn` that computes."""
    folder = tmp_path_factory.mktemp("emitted")
    result = planned_file(MODELS["encoder"]().SerializeToString(), Options(policy="global", board="n150"), name="e")
    write(result, folder)
    (folder / "ttnn.py").write_text(WHOLE_STAND_IN.format(paths=PATHS))
    np.savez(folder / "w.npz", **random_weights(result.graph, 0))
    return folder


@pytest.mark.parametrize("words", [("--trace", "--queues", "2"), ("--trace",), ("--queues", "2")])
def test_a_program_at_full_speed_is_checked_and_timed(emitted: Path, words: tuple[str, ...]) -> None:
    done = called(emitted, "w.npz", *words, "--check", "--iterations", "3", "--output", "fast.npz")

    assert (done.returncode, done.stderr) == (0, "")
    assert "checked: the outputs of 8 runs, 2 inputs by turns, are those of plain runs, bit for bit\n" in done.stdout
    assert "latency of 3 runs one by one" in done.stdout
    assert ("the trace takes" in done.stdout) == ("--trace" in words)
    assert called(emitted, "w.npz", "--trace", "--output", "slow.npz").returncode == 0
    assert (emitted / "fast.npz").read_bytes() == (emitted / "slow.npz").read_bytes()


def test_a_trace_region_that_is_too_small_ends_in_one_sentence(emitted: Path) -> None:
    done = called(emitted, "w.npz", "--trace", "--trace-region-size", "2048")

    assert done.returncode == 1
    assert re.fullmatch(
        r"run_model.py: the trace takes (\d+) bytes, its region has 2048: .* --trace-region-size \1\n", done.stderr
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--check"], "--check compares runs with --trace or --queues 2 with plain ones"),
        (["--queues", "2", "--trace-region-size", "9"], "--trace-region-size is for --trace"),
        (["--queues", "3"], "invalid choice: 3"),
    ],
)
def test_options_that_say_nothing_are_refused(emitted: Path, words: list[str], message: str) -> None:
    done = called(emitted, "w.npz", *words)

    assert done.returncode == 2
    assert message in done.stderr


# -- files of arrays -------------------------------------------------------------------------------------------
def test_safetensors_of_the_library_are_read(tmp_path: Path) -> None:
    kinds = ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?")
    arrays: dict[str, Any] = {kind: np.arange(6).reshape(2, 3).astype(kind) for kind in kinds}
    arrays["scalar"] = np.array(3.0)
    bf16 = np.linspace(-3, 3, 7).astype(ml_dtypes.bfloat16)
    (tmp_path / "a.safetensors").write_bytes(safetensors.numpy.save({**arrays, "bf16": bf16}, {"made": "here"}))

    found = run_model.read_arrays(tmp_path / "a.safetensors")

    assert found.keys() == {*arrays, "bf16"}
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
    np.testing.assert_array_equal(found["bf16"], bf16.astype(np.float32))


def header(entries: object, data: bytes = b"\0" * 16) -> bytes:
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 20,
        struct.pack("<Q", 1 << 62),
        header([]),
        header({"a": 3}),
        header({"a": {"dtype": "F32", "shape": [4]}}),
        header({"a": {"dtype": "F99", "shape": [4], "data_offsets": [0, 16]}}),
        header({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 16]}}),
        header({"a": {"dtype": "F32", "shape": [5], "data_offsets": [0, 20]}}),
        header({"a": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}}),
        header({"a": {"dtype": "F32", "shape": [True, 4], "data_offsets": [0, 16]}}),
        header({"a": {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}}),
        header({"a": {"dtype": ["F32"], "shape": [4], "data_offsets": [0, 16]}}),
    ],
)
def test_damaged_safetensors_are_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(data)

    with pytest.raises(ValueError, match=r"a.safetensors is no safetensors file"):
        run_model.read_arrays(path)


def test_bfloat16_survives_npz(tmp_path: Path) -> None:
    array = np.linspace(-3, 3, 7).astype(ml_dtypes.bfloat16)
    np.savez(tmp_path / "a.npz", a=array)

    np.testing.assert_array_equal(run_model.read_arrays(tmp_path / "a.npz")["a"], array.astype(np.float32))


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.array([{}], dtype=object))

    with pytest.raises(ValueError, match=r"no \.npz file of plain arrays"):
        run_model.read_arrays(tmp_path / "a.npz")


def test_rounding_to_bfloat16_is_that_of_ml_dtypes() -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, 100_000, dtype=np.uint32)
    edges = np.array([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0, 0x80000000, 1], np.uint32)
    values = np.concatenate([bits, edges]).view(np.float32)
    values = values[~np.isnan(values)]

    np.testing.assert_array_equal(run_model.to_bfloat16(values), values.astype(ml_dtypes.bfloat16).view(np.uint16))
    assert np.isnan(run_model.from_bfloat16(run_model.to_bfloat16(np.array([np.nan], np.float32)))).all()
