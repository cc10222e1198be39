"""Every kind of fused kernel with values on Tenstorrent's functional simulator, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simulated_kernels
from placed_graphs import N150
from simulated_kernels import TIMES_BOUND, cases, judge, kinds

from optimizer.export.kernels.finding import find_regions
from optimizer.export.kernels.judged import unjudged
from optimizer.export.kernels.operations import FUSED_OPS
from optimizer.opmodel.ttmetal import environment
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution

CASES = cases()


class Simulator:
    """One session for test after test; a new one after a test that ended it."""

    def __init__(self) -> None:
        self._open = open_execution(N150, 32768, "sim")
        self.session = self._open.__enter__()

    def close(self) -> None:
        self._open.__exit__(None, None, None)


@pytest.fixture(scope="module")
def simulator(needs_simulator: None) -> Iterator[list[Simulator]]:
    kept: list[Simulator] = []
    yield kept
    for one in kept:
        one.close()


@pytest.fixture
def session(simulator: list[Simulator]) -> ExecutionSession:
    if simulator and not simulator[0].session.alive:
        simulator.pop().close()
    if not simulator:
        simulator.append(Simulator())
    return simulator[0].session


@pytest.mark.parametrize("name", CASES)
def test_the_simulator_computes_right_values(name: str, session: ExecutionSession) -> None:
    verdicts = judge(CASES[name](), session, environment.cache_folder() / "kernel-values")
    assert verdicts
    assert [v for v in verdicts if not v.right] == []


# -- without a simulator -----------------------------------------------------------------------------------------
def test_cases_have_every_op_that_a_region_may_hold() -> None:
    used = {op.op for build in CASES.values() for op in build().graph.ops()}
    assert set(FUSED_OPS) <= used


@pytest.mark.parametrize("name", [n for n in CASES if "two operands" in n or "norm" in n or "linear" in n])
def test_a_case_is_one_region_of_judged_kinds(name: str) -> None:
    result = CASES[name]()
    (region,) = find_regions(result)
    assert set(region.op_ids) == {op.id for op in result.graph.ops()}
    assert unjudged(tuple(sorted(kinds(result))), N150.arch) == ()


def test_a_gain_is_seen() -> None:
    """Values of which every one is 0.5625 of what it should be correlate perfectly."""
    exact = np.linspace(0.5, 1.0, 64).reshape(8, 8)
    near = exact * 2.0**-9
    verdict = simulated_kernels._verdict("y", (exact * 0.5625).astype(np.float32), exact, near)
    assert verdict.agreement.pcc > 0.999
    assert not verdict.right
    assert simulated_kernels._verdict("y", (exact + 4 * near).astype(np.float32), exact, near).right
    assert TIMES_BOUND > 4


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_what_is_no_number_is_seen(lost: float) -> None:
    exact = np.ones((4, 4))
    got = exact.astype(np.float32)
    got[1, 2] = lost
    assert not simulated_kernels._verdict("y", got, exact, exact * 2.0**-9).right


def test_folders_of_kernels_are_their_texts(tmp_path: Path) -> None:
    """tt-metal keeps compiled kernels by path: equal programs find theirs."""
    assert simulated_kernels.folder_of(CASES["softmax"](), tmp_path) == simulated_kernels.folder_of(
        CASES["softmax"](), tmp_path
    )
    assert simulated_kernels.folder_of(CASES["softmax"](), tmp_path) != simulated_kernels.folder_of(
        CASES["matmul"](), tmp_path
    )
