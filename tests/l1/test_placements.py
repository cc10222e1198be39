"""Where tensors lie: `Run`, the verifier and tt-metal give every result in L1 the same address."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from result_programs import bank_of_result, result_program
from rule_cases import beside, convolution, split, viewed, weighted, written_over

from optimizer.device import DeviceSpec
from optimizer.l1.program import Step
from optimizer.l1.rules import Moment
from optimizer.l1.run import Run
from optimizer.opmodel.base import OpModel
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline.replay import replay
from optimizer.result import OptimizedGraph
from optimizer.verify import verify
from tests.plans import planned_file

CASES = {
    "convolution": lambda: convolution(17, 300),
    "matmul": lambda: beside(300),
    "in place": lambda: written_over(300),
    "view": lambda: viewed(300),
    "weight": lambda: weighted(300),
    "split": lambda: split(300),
}


class Noting(Run):
    """A run that notes where every result is placed, as the distance of its lower end from the top."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.placed: dict[str, int] = {}

    def _execute(self, step: Step, at: int) -> Moment:
        moment = super()._execute(step, at)
        self.placed.update({b[0]: (1 << 40) - self.live[b][0] for b, _ in step.writes if b in self.live})
        return moment


@cache
def model_of(board: str) -> OpModel:
    options = Options.from_mapping({"board": board})
    return CachedOpModel(create("analytical", DeviceSpec.preset(board), options.l1_small_bytes))


def placed_by_run(result: OptimizedGraph) -> dict[str, int]:
    program = result_program(result, model_of(result.device.name))
    run = Noting(bank_of_result(result), (size for _, size in program.kept))
    for at, row in enumerate(program.rows):
        run.position(at, row, lambda v: program.last_reads.get(v, 0))
    return run.placed


def agree(result: OptimizedGraph) -> None:
    report = verify(result, model_of(result.device.name))
    ours = {v: depth for step in report.steps for v, depth in step.placed}
    backend = create("ttmetal", result.device, result.options.l1_small_bytes)
    on_tt_metal = replay(result, backend, {step.op: step for step in report.steps}).l1_record()

    assert ours == placed_by_run(result)
    assert (on_tt_metal["placed"], on_tt_metal["elsewhere"]) == (len(ours), 0)


@pytest.mark.parametrize("case", CASES)
def test_every_result_lies_where_run_and_verifier_place_it(needs_ttnn: None, case: str) -> None:
    made = CASES[case]()

    agree(made.result(made.problem()))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["resnet50_b1_legacy17", "mobilenetv2_legacy17"])
def test_every_result_of_a_network_lies_there(needs_ttnn: None, model: str, fixtures: Path) -> None:
    options = Options.from_mapping({"board": "n150", "policy": "global"})

    agree(planned_file(fixtures / f"{model}.onnx", options))
