"""Programs executed with values; on a mock device they run without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import ExecutionError, OpModelError
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import DRAM_TILE
from optimizer.opmodel.base import OpQuery, TensorSpec
from optimizer.opmodel.ttmetal import location, simulator
from optimizer.opmodel.ttmetal.environment import EnvironmentProblem
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution
from optimizer.opmodel.ttmetal.model import TTMetalOpModel

UPLOAD = (
    "x = ttnn.to_device(ttnn.to_dtype(ttnn.to_layout(ttnn.Tensor(arrays['a'], ttnn.float32), ttnn.TILE_LAYOUT), "
    "ttnn.bfloat16), device)"
)


@pytest.fixture
def mock(needs_ttnn: None, n150: DeviceSpec) -> Iterator[ExecutionSession]:
    with open_execution(n150, 32768, "mock") as session:
        session.load("")
        yield session


@pytest.fixture(scope="module")
def sim(needs_simulator: None, n150: DeviceSpec) -> Iterator[ExecutionSession]:
    with open_execution(n150, 32768, "sim") as session:
        yield session


def test_values_come_back_from_the_simulator(sim: ExecutionSession) -> None:
    a = np.arange(-32 * 32, 32 * 32, dtype=np.float32).reshape(64, 32) / 8
    sim.load("")

    sim.feed("arrays", {"a": a})
    sim.run(UPLOAD)
    sim.run("y = [ttnn.relu(x), ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)]")
    found = sim.fetch(["x", "y"])
    sim.unload()

    assert sorted(found) == ["x", "y.0", "y.1"]
    np.testing.assert_allclose(found["x"], a, rtol=2**-8)
    np.testing.assert_array_equal(found["y.0"], np.maximum(found["x"], 0))
    np.testing.assert_array_equal(found["y.1"], found["x"])


def test_tiles_hold_their_padding(sim: ExecutionSession) -> None:
    """Attention adds whole tiles of its mask: what lies beyond the columns decides between right and wrong."""
    x = TensorSpec((1, 1, 40, 64), DType.BF16, DRAM_TILE)
    mask = TensorSpec((1, 1, 40, 40), DType.BF16, DRAM_TILE)
    query = OpQuery("ttnn.scaled_dot_product_attention", (x, x, x, mask), (("is_causal", False), ("scale", 0.125)))
    operands = [np.ones((1, 1, 40, 64)), np.ones((1, 1, 40, 64)), np.ones((1, 1, 40, 64)), np.zeros((1, 1, 40, 40))]

    (held, (hidden,)), (_, (seen,)) = (
        sim.evaluate(query, operands, [(), (), (), (padding,)]) for padding in (-1e30, 20.0)
    )

    np.testing.assert_array_equal(held[3], operands[3])  # the elements are those given
    np.testing.assert_allclose(hidden, 1.0, atol=0.02)
    assert abs(seen).max() < 0.5  # all weight goes to keys that do not exist


def test_a_refused_statement_leaves_the_session_alive(mock: ExecutionSession) -> None:
    mock.feed("arrays", {"a": np.zeros((64, 32), np.float32)})
    mock.run(UPLOAD)

    with pytest.raises(ExecutionError, match="the reshape: the device refuses it"):
        mock.run("y = ttnn.reshape(x, (3, 3))", what="the reshape")
    mock.run("y = ttnn.reshape(x, (32, 64))")

    assert mock.alive


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os._exit(3)", "process ended .exit status 3."),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "process ended .SIGSEGV."),
        ("y = relu(x)", "text is wrong"),
    ],
)
def test_a_child_that_ends_is_an_answer(mock: ExecutionSession, code: str, message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        mock.run(code)


def test_a_child_that_hangs_is_ended(needs_ttnn: None, n150: DeviceSpec) -> None:
    with open_execution(n150, 32768, "mock", step_seconds=1) as session:
        session.load("")
        with pytest.raises(ExecutionError, match="did not answer within 1 s"):
            session.run("import time; time.sleep(30)")
        assert not session.alive


def test_an_unknown_name_is_no_tensor(mock: ExecutionSession) -> None:
    with pytest.raises(ExecutionError, match="the program gives no z"):
        mock.fetch(["z"])


class TestSimulator:
    @pytest.fixture(autouse=True)
    def nothing_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in (simulator.LIBRARY_VARIABLE, simulator.TT_METAL_LIBRARY_VARIABLE, simulator.COMPILER_VARIABLE):
            monkeypatch.delenv(name, raising=False)

    def test_none_is_named(self) -> None:
        with pytest.raises(EnvironmentProblem, match=r"no simulator: name .* TTOPT_SIMULATOR"):
            simulator.library_path()

    def test_a_folder_stands_for_its_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / simulator.LIBRARY_NAME).touch()
        monkeypatch.setenv(simulator.TT_METAL_LIBRARY_VARIABLE, str(tmp_path))

        assert simulator.library_path() == tmp_path / simulator.LIBRARY_NAME

    def test_one_that_is_not_there(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(simulator.LIBRARY_VARIABLE, str(tmp_path / "none.so"))

        with pytest.raises(EnvironmentProblem, match=r"there is no simulator at .*none.so"):
            simulator.library_path()

    def test_a_library_that_is_no_simulator(self, tmp_path: Path) -> None:
        (tmp_path / "other.so").write_bytes(b"not a library")

        with pytest.raises(EnvironmentProblem, match=r"other.so is no simulator"):
            simulator.architecture(tmp_path / "other.so")

    def test_no_compiler(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(simulator.COMPILER_VARIABLE, str(tmp_path))

        with pytest.raises(EnvironmentProblem, match="no compiler for tt-metal's kernels"):
            simulator.compiler_folder(tmp_path)

    @pytest.mark.usefixtures("needs_ttnn")
    def test_what_is_missing_is_said_where_it_opens(self, n150: DeviceSpec) -> None:
        with (
            pytest.raises(ExecutionError, match="does not open: no simulator"),
            open_execution(n150, 32768, "sim"),
        ):
            pass

    def test_layouts_are_not_asked_of_it(self, n150: DeviceSpec, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(location.DEVICE_VARIABLE, "sim")

        with pytest.raises(OpModelError, match="asked of the mock device"):
            TTMetalOpModel(n150, 32768)


def test_a_simulator_of_another_chip(needs_simulator: None) -> None:
    with (
        pytest.raises(ExecutionError, match="simulates a wormhole_b0, the board is a blackhole"),
        open_execution(DeviceSpec.preset("p150"), 32768, "sim"),
    ):
        pass
