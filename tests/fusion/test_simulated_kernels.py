"""Every kind of fused kernel with values on Tenstorrent's functional simulator, where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import region_witness
import simulated_kernels
from placed_graphs import N150
from simulated_kernels import cases, faults, judge, kinds, pieces

from optimizer.fusion.finding import find_regions
from optimizer.fusion.judged import judged
from optimizer.fusion.operations import FUSED_OPS
from optimizer.kernels.tensix.witness.error_bound import TIMES_BOUND
from optimizer.opmodel.ttmetal import environment
from optimizer.opmodel.ttmetal.execution import ExecutionSession, open_execution

CASES = cases()
MANY_CORES = "64 cores"
"""Begins the names of cases that take the simulator long."""
JUDGED_CASES = ("two operands", "norm", "linear", "every part", "gelu_tanh", MANY_CORES)


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


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow) if n.startswith(MANY_CORES) else n for n in CASES]
)
def test_the_simulator_computes_right_values(name: str, session: ExecutionSession) -> None:
    verdicts = judge(CASES[name](), session, environment.cache_folder() / "kernel-values")
    assert verdicts
    assert faults(verdicts) == []


# -- without a simulator -----------------------------------------------------------------------------------------
def test_cases_have_every_op_that_a_region_may_hold() -> None:
    used = {op.op for build in CASES.values() for op in build().graph.ops()}
    assert set(FUSED_OPS) <= used


@pytest.mark.parametrize("name", [n for n in CASES if any(word in n for word in JUDGED_CASES)])
@pytest.mark.slow
def test_a_case_is_one_region_of_judged_kinds(name: str) -> None:
    result = CASES[name]()
    (region,) = find_regions(result)
    assert set(region.op_ids) == {op.id for op in result.graph.ops()}
    assert judged(N150.arch).missing(sorted(kinds(result))) == []


@pytest.mark.parametrize("shape", [(2, 3, 40, 50), (40, 50), (50,), (1, 1)])
def test_tensors_are_frames_without_their_padding(shape: tuple[int, ...]) -> None:
    *matrices, rows, columns = (1, 1, *shape)[-4:] if len(shape) > 2 else (1, 1, *shape)[-2:]
    padded = np.pad(np.ones((*matrices, rows, columns), np.float32), [*[(0, 0)] * len(matrices), (0, 24), (0, 14)])
    found = simulated_kernels.unpadded(padded.reshape(-1, columns + 14), shape)
    assert found.shape == shape
    assert found.all()


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


def test_an_output_without_exact_values_is_not_judged() -> None:
    got, near = np.zeros((4, 4), np.float32), np.full((4, 4), 2.0**-9)
    nowhere = simulated_kernels._verdict("y", got, np.full((4, 4), np.nan), near)
    somewhere = simulated_kernels._verdict("y", got, np.where(np.eye(4) == 1, 0.0, np.nan), near)
    assert (nowhere.elements, somewhere.elements) == (0, 4)
    assert faults([nowhere]) == ["y is not judged"]
    assert faults([nowhere, somewhere]) == []


@pytest.mark.parametrize("name", [n for n in CASES if n.endswith("16 bits") and ("acos" in n or "atanh" in n)])
def test_every_output_of_a_case_has_exact_values_in_a_range(name: str) -> None:
    result = CASES[name]()
    (region,) = find_regions(result)
    judged: set[str] = set()
    for between in (*simulated_kernels.RANGES, *simulated_kernels.FURTHER_RANGES):
        given, exact = region_witness._values(region, 0, between)
        near = simulated_kernels._bounds(region, given)
        judged |= {v for v in near if (np.isfinite(exact[v]) & np.isfinite(near[v])).any()}
    assert judged == set(result.graph.outputs)


def test_the_pieces_of_a_case_are_its_results_one_by_one() -> None:
    name = "sum mean max min"
    found = {piece: build() for piece, build in pieces(name).items()}
    assert list(found) == [f"{name}: {op} alone" for op in ("exp", "sum", "mean", "max", "min")]
    for piece, result in found.items():
        (region,) = find_regions(result)
        assert set(region.op_ids) == {op.id for op in result.graph.ops()}, piece
        assert set(result.graph.inputs) == {o.value for o in region.inputs}, piece
    assert pieces("softmax") != {}
    assert pieces("matmul") == {}


def test_folders_of_kernels_are_their_texts(tmp_path: Path) -> None:
    """tt-metal keeps compiled kernels by path: equal programs find theirs."""
    assert simulated_kernels.folder_of(CASES["softmax"](), tmp_path) == simulated_kernels.folder_of(
        CASES["softmax"](), tmp_path
    )
    assert simulated_kernels.folder_of(CASES["softmax"](), tmp_path) != simulated_kernels.folder_of(
        CASES["matmul"](), tmp_path
    )
