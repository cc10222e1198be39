"""Whole programs: tensors stay in L1, refused steps leave no trace, crashes are survived."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from optimizer.device import DeviceSpec
from optimizer.errors import OpModelError
from optimizer.opmodel import registry
from optimizer.opmodel.base import ProgramRunner, Rejection
from optimizer.opmodel.ttmetal.session import TTMetalSession

SOURCE = """
import ttnn

def made(*shape):
    return ttnn.allocate_tensor_on_device(
        ttnn.Shape(shape), ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
"""
TILE = 2048


@pytest.fixture
def session(needs_ttnn: None, n150: DeviceSpec) -> Iterator[TTMetalSession]:
    backend = registry.create("ttmetal", n150)
    assert isinstance(backend, ProgramRunner)
    with backend.program(SOURCE) as begun:
        assert isinstance(begun, TTMetalSession)
        yield begun


def test_steps_share_one_l1(session: TTMetalSession) -> None:
    first = session.step("x = made(256, 128)", ["x"])
    assert (first.valid, first.l1_before_bytes, first.l1_after_bytes) == (True, 0, TILE)
    second = session.step("y = ttnn.softmax(x, dim=-1)", ["y"])
    assert second.results == first.results
    assert (second.l1_before_bytes, second.l1_after_bytes) == (TILE, 2 * TILE)
    assert (second.cb_bytes, second.peak_bytes) == (23 * TILE, 24 * TILE)
    freed = session.step("ttnn.deallocate(x)")
    assert (freed.l1_before_bytes, freed.l1_after_bytes) == (2 * TILE, TILE)


def test_room_that_others_hold_is_missing(session: TTMetalSession) -> None:
    for name in "abc":
        assert session.step(f"{name} = made(64, 32, 6400)").valid  # 409,600 B a bank
    answer = session.step("d = ttnn.relu(a)", ["d"])
    assert (answer.valid, answer.kind) == (False, Rejection.OOM_L1)
    assert "Out of Memory" in str(answer.error)
    assert session.step("ttnn.deallocate(b)").valid
    assert session.step("d = ttnn.relu(a)", ["d"]).valid


def test_a_refused_step_changes_nothing(session: TTMetalSession) -> None:
    session.step("x = made(256, 128)")
    refused = session.step("y = made(32, 32)\nx = ttnn.matmul(x, x)", ["x"])
    assert (refused.valid, refused.kind) == (False, Rejection.VALIDATION)
    after = session.step("z = ttnn.relu(x)", ["z"])
    assert (after.valid, after.l1_before_bytes) == (True, TILE)
    with pytest.raises(OpModelError, match="'y'"):
        session.step("w = ttnn.relu(y)")


def test_what_a_step_leaks_half_way_is_freed(session: TTMetalSession) -> None:
    """A convolution that fails after its halo step leaves the halo in L1 on a real device, too."""
    session.step("x = made(1, 44, 44, 192)")
    held = session.step("w = ttnn.zeros((312, 192, 3, 3), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)")
    call = (
        "y = ttnn.conv2d(input_tensor=x, weight_tensor=w, device=device, in_channels=192, out_channels=312,"
        " batch_size=1, input_height=44, input_width=44, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1),"
        " slice_config=ttnn.Conv2dL1FullSliceConfig, memory_config=ttnn.MemoryConfig("
        "ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1))"
    )
    refused = session.step(call)
    assert not refused.valid
    assert session.step("z = ttnn.relu(x)").l1_before_bytes == held.l1_after_bytes


def test_the_program_goes_on_after_a_crash_or_a_kill(session: TTMetalSession) -> None:
    session.step("x = made(256, 128)")
    crashed = session.step("__import__('os').kill(__import__('os').getpid(), 8)")
    assert (crashed.valid, crashed.kind) == (False, Rejection.ABORT)
    assert session.step("y = ttnn.relu(x)", ["y"]).l1_after_bytes == 2 * TILE
    assert session._child is not None
    os.kill(session._child.pid, signal.SIGKILL)
    assert session.step("z = ttnn.relu(y)", ["z"]).l1_after_bytes == 3 * TILE


@pytest.mark.parametrize("source", ["import no_such_module", "x = ("])
def test_a_module_that_does_not_load_says_why(needs_ttnn: None, n150: DeviceSpec, source: str) -> None:
    backend = registry.create("ttmetal", n150)
    assert isinstance(backend, ProgramRunner)
    with (
        pytest.raises(OpModelError, match=r"the program does not load: (ModuleNotFound|Syntax)Error"),
        backend.program(source),
    ):
        pass


def test_a_name_that_does_not_exist_is_our_mistake(session: TTMetalSession) -> None:
    with pytest.raises(OpModelError, match="nothing_here"):
        session.step("y = ttnn.relu(nothing_here)")
